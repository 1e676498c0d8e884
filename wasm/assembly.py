"""Which instructions a target's kernels are made of: compile to assembly, read it, name what must not be there.

The header decides what a target may use, and the compiler decides what it does use. So its assembly is
what is checked: the same source and optimisation as Cling's, function by function, since the functions'
names say which target they belong to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tq_core.kernels.table import KERNELS, Kernel

from .build import run_zig
from .recipe import ROOT

# Without -ffp-contract: the header's own pragma is on trial. Without vectorizers, as under Cling.
_COMMON = "-std=c++20 -O2 -DNDEBUG -g0 -fno-exceptions -fno-rtti -fno-sanitize=all -fno-vectorize -fno-slp-vectorize"
MACHINES = {
    "x86_64": "-target x86_64-linux-musl -mcpu=x86_64",
    "aarch64": "-target aarch64-linux-musl -mcpu=generic",
}
# Target -> the widest registers that it may use.
WIDTHS = {
    "x86_64": {"scalar": 128, "avx2": 256, "avxvnni": 256, "avx512": 512, "avx512vnni": 512},
    "aarch64": {"scalar": 128, "neon": 128},
}
_DOT_PRODUCTS = {"avxvnni", "avx512vnni"}

_LABEL = re.compile(r"^([A-Za-z_$][\w$.]*):")
_NAMESPACE = re.compile(r"^_ZN2tq(\d+)(\w+)")
_FUSED = re.compile(r"^(vfn?m(add|sub)|fn?m(add|sub)$|fml[as]|bfml)")
_AVX512 = re.compile(r"%k[0-7]|%[xyz]mm(1[6-9]|2\d|3[01])\b")


@dataclass(frozen=True)
class Instruction:
    """One line of a function of ``target``, a namespace in tq."""

    target: str
    function: str
    mnemonic: str
    operands: str


def assemble(
    machine: str,
    work: Path,
    cache: Path,
    kernels: Mapping[str, Kernel] = KERNELS,
    include: Path = ROOT / "cpp",
) -> str:
    """Assembly of every target's kernels on ``machine``, with ``work`` for the files. Raises WasmBuildError."""
    taken = [f"  (void*)&tq::{target}::{kernel},\n" for target in WIDTHS[machine] for kernel in kernels]
    source, out = work / f"audit_{machine}.cpp", work / f"audit_{machine}.s"
    source.write_text(f'#include "tq/tq.h"\nvoid* tq_taken[] = {{\n{"".join(taken)}}};\n')
    flags = [*MACHINES[machine].split(), *_COMMON.split(), f"-I{include}"]
    run_zig(["c++", *flags, "-S", "-o", str(out), str(source)], cache)
    return out.read_text()


def target_of(symbol: str) -> str:
    """The namespace in tq that a mangled name belongs to, or an empty string."""
    match = _NAMESPACE.match(symbol)
    return match[2][: int(match[1])] if match else ""


def instructions(assembly: str) -> Iterator[Instruction]:
    """Every instruction of every function, in order; directives and local labels are left out."""
    function = ""
    for line in assembly.splitlines():
        label = _LABEL.match(line)
        if label:
            function = label[1]
            continue
        text = line.split("#")[0].split("//")[0].strip()
        if not line.startswith("\t") or not text or text.startswith("."):
            continue
        # Where two encodings exist the chosen one is said first: {vex} vpdpbusd.
        mnemonic, _, operands = re.sub(r"^\{\w+\}\s*", "", text).partition("\t")
        yield Instruction(target_of(function), function, mnemonic, operands.strip())


def _fault(found: Instruction, width: int) -> str:
    operands = found.operands
    if _FUSED.match(found.mnemonic):
        return "a fused multiply-add rounds once"
    if re.fullmatch(r"fmaf?(@PLT)?", operands):
        return "a call of a fused multiply-add"
    if width < 512 and ("%zmm" in operands or _AVX512.search(operands)):
        return "AVX-512"
    if width < 256 and ("%ymm" in operands or ("%" in operands and found.mnemonic.startswith("v"))):
        return "AVX"
    if found.mnemonic.startswith("vpdp") and found.target not in _DOT_PRODUCTS:
        return "VNNI"
    return ""


def faults(found: Iterable[Instruction], machine: str) -> list[str]:
    """What the functions contain and must not, in words; code outside the targets is held to the baseline."""
    wrong = []
    for one in found:
        reason = _fault(one, WIDTHS[machine].get(one.target, 128))
        if reason:
            wrong.append(
                f"{one.target or 'no target'}: {one.function}: {one.mnemonic} {one.operands}: {reason}"
            )
    return wrong
