"""What the compiler made of each target: no fused multiply-add, and no register wider than the target's."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest

from tq_core.kernels.native import TARGETS
from tq_core.kernels.qemu import PROGRAM
from tq_core.kernels.table import KERNELS
from tq_core.paths import CPP
from wasm.assembly import WIDTHS, Instruction, assemble, faults, instructions, target_of

pytestmark = [
    pytest.mark.kernels,
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="not exercised: no ziglang here"),
]
CACHE = PROGRAM.parent / "zig-cache"


@pytest.fixture(scope="module", params=list(WIDTHS))
def compiled(request, tmp_path_factory) -> tuple[str, list[Instruction]]:
    """(machine, every instruction of its targets' kernels)."""
    work = tmp_path_factory.mktemp("assembly")
    return request.param, list(instructions(assemble(request.param, work, CACHE)))


def test_no_target_has_what_it_must_not(compiled) -> None:
    machine, found = compiled
    wrong = faults(found, machine)
    assert not wrong, f"{len(wrong)} instructions, first {wrong[0]}"


def test_every_target_and_every_kernel_was_seen(compiled) -> None:
    """Otherwise the audit could pass on an empty page."""
    machine, found = compiled
    functions = {(i.target, i.function) for i in found}
    for target in WIDTHS[machine]:
        for kernel in KERNELS:
            name = f"{len(kernel)}{kernel}E"
            assert any(t == target and name in f for t, f in functions), (target, kernel)


def test_every_target_uses_what_it_is_for(compiled) -> None:
    machine, found = compiled
    used = {target: [i for i in found if i.target == target] for target in WIDTHS[machine]}
    if machine == "aarch64":
        assert any(i.mnemonic == "tbl" for i in used["neon"])
        assert not any(i.mnemonic == "tbl" for i in used["scalar"])
        return
    for target, width in WIDTHS[machine].items():
        register = {128: "%xmm", 256: "%ymm", 512: "%zmm"}[width]
        assert any(register in i.operands for i in used[target]), target
        products = [i for i in used[target] if i.mnemonic == "vpdpbusd"]
        assert bool(products) == target.endswith("vnni")
        assert all(register in i.operands for i in products)


def test_the_audit_knows_every_native_target() -> None:
    assert set(TARGETS) <= set().union(*WIDTHS.values())


# What is changed in a copy of the headers, and what is then found in which target.
PLANTS = {
    "the pragma that forbids contraction": (
        ("base.h", "fp contract(off)", "fp contract(fast)"),
        ("avx512: ", "a fused multiply-add"),
    ),
    "a fused builtin where there is an instruction for it": (
        (
            "simd/wide.h",
            "swap_lanes<h>(x) + x * sign",
            "__builtin_elementwise_fma(x, sign, swap_lanes<h>(x))",
        ),
        ("avx512vnni: ", "a fused multiply-add"),
    ),
    "a fused builtin where there is none": (
        (
            "simd/wide.h",
            "swap_lanes<h>(x) + x * sign",
            "__builtin_elementwise_fma(x, sign, swap_lanes<h>(x))",
        ),
        ("avx2: ", "a call of a fused multiply-add"),
    ),
    "a target that is wider than its name": (
        ("tq.h", 'target("avx2,f16c"))', 'target("avx512f,avx512bw,avx512vl,avx512dq"))'),
        ("avx2: ", "AVX-512"),
    ),
    "a scalar target under wider flags": (
        ("tq.h", "#define TQ_TARGET scalar", "@avx2@\n#define TQ_TARGET scalar"),
        ("scalar: ", "AVX"),
    ),
}
PUSH = '#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)'


@pytest.mark.parametrize("plant", PLANTS)
def test_planted_instructions_are_found(plant: str, tmp_path: Path) -> None:
    (file, good, bad), (target, reason) = PLANTS[plant]
    shutil.copytree(CPP, tmp_path / "cpp")
    header = tmp_path / "cpp" / "tq" / file
    text = header.read_text()
    assert good in text
    text = text.replace(good, bad.replace("@avx2@", PUSH))
    header.write_text(text + "#pragma clang attribute pop\n" if "@avx2@" in bad else text)
    few = {name: KERNELS[name] for name in ("rotate", "linear")}
    wrong = faults(instructions(assemble("x86_64", tmp_path, CACHE, few, tmp_path / "cpp")), "x86_64")
    assert any(w.startswith(target) and reason in w for w in wrong), wrong[:3]


@pytest.mark.parametrize(
    "machine, line, reason",
    [
        ("x86_64", "vfmadd213ps\t%zmm1, %zmm2, %zmm3", "rounds once"),
        ("x86_64", "vfnmadd231ss\t(%rax), %xmm2, %xmm3", "rounds once"),
        ("x86_64", "callq\tfmaf@PLT", "a call"),
        ("x86_64", "vaddps\t%zmm1, %zmm2, %zmm3", "AVX-512"),
        ("x86_64", "vaddps\t%ymm1, %ymm2, %ymm17", "AVX-512"),
        ("x86_64", "{vex}\tvpdpbusd\t%ymm1, %ymm2, %ymm3", "VNNI"),
        ("aarch64", "fmla\tv0.4s, v1.4s, v2.4s", "rounds once"),
        ("aarch64", "fmadd\ts0, s1, s2, s3", "rounds once"),
        ("aarch64", "bl\tfmaf", "a call"),
        ("x86_64", "vpmaddwd\t%ymm1, %ymm2, %ymm3", ""),
        ("aarch64", "fmul\tv0.4s, v1.4s, v2.4s", ""),
    ],
)
def test_each_kind_of_instruction(machine: str, line: str, reason: str) -> None:
    target = "avx2" if machine == "x86_64" else "neon"
    text = f"_ZN2tq{len(target)}{target}6linearEv:\n\t.cfi_startproc\n\t{line}\n.LBB0_1:\n"
    wrong = faults(instructions(text), machine)
    assert len(wrong) == bool(reason) and all(reason in w for w in wrong)


def test_namespaces_come_from_the_mangled_name() -> None:
    assert target_of("_ZN2tq10avx512vnni6linearEPKfS2_Pfjjj") == "avx512vnni"
    assert target_of("_ZN2tq4avx212attend_headsILi1ELb0EEEvv") == "avx2"
    assert target_of("memcpy") == ""
