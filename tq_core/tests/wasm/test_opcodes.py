"""The opcode gate refuses what it must, and its table agrees with an independent assembler."""

from __future__ import annotations

import pytest

from tq_core.kernels.hosts import swizzle_probe
from wasm import opcode_table as table
from wasm.opcodes import OpcodeDenied, gate, histogram

wasmtime = pytest.importorskip("wasmtime", reason="not exercised: no assembler (wasmtime)")
pytestmark = pytest.mark.kernels

OPERANDS = {
    table.NONE: "",
    table.MEMARG: " offset=3",
    table.LANE: " 1",
    table.MEMARG_LANE: " offset=3 1",
    table.INDEX: " 0",
    table.INDEX2: " 0 0",
    table.ZERO: "",
    table.ZERO2: "",
    table.INDEX_ZERO: " 0",
    table.I32: " -5",
    table.I64: " 9223372036854775807",
    table.F32: " 1.5",
    table.F64: " 1.5",
    table.BR_TABLE: " 0 0 0",
    table.HEAP_TYPE: " func",
}
# Spelled differently in text, or with operands that need more of a module around them.
SPECIAL = {
    "v128.const": "v128.const i32x4 1 2 3 4",
    "i8x16.shuffle": "i8x16.shuffle " + " ".join(map(str, range(16))),
    "block": "block end",
    "loop": "loop end",
    "if": "if end",
    "else": "if else end",
    "end": "",
    "select_typed": "select (result i32)",
    "call_indirect": "call_indirect (type 0)",
    "return_call_indirect": "return_call_indirect (type 0)",
}
NOT_ASSEMBLED = {"try", "catch", "rethrow"}  # the withdrawn form of exception handling
NAMES = [
    (name, layout) for entries in (table.SIMPLE, table.MISC, table.SIMD) for name, layout in entries.values()
]


def assemble(code: str) -> bytes:
    """A module with one function; the assembler does not type-check, so any instruction will do."""
    module = f'(module (type (func)) (table 1 funcref) (memory 1) (tag) (data "") (elem func 0) (func (export "f") {code}))'
    return bytes(wasmtime.wat2wasm(module))


def text(name: str, layout: int) -> str:
    return SPECIAL.get(name, name + OPERANDS.get(layout, ""))


@pytest.mark.parametrize(
    "name, layout", [n for n in NAMES if n[0] not in NOT_ASSEMBLED], ids=lambda v: str(v)
)
def test_the_assembler_means_the_same_instruction(name: str, layout: int) -> None:
    code = text(name, layout)
    for data in (assemble(code), assemble(f"{code} {code} i32.const 7 drop")):
        counts = histogram(data)
        assert counts[name] >= 1
    assert counts["i32.const"] >= 1 and counts["drop"] >= 1


def test_simd_table_has_every_number_of_the_proposal() -> None:
    holes = {
        154,
        162,
        165,
        166,
        175,
        176,
        178,
        179,
        180,
        187,
        194,
        197,
        198,
        207,
        208,
        210,
        211,
        212,
        226,
        238,
    }
    assert set(table.SIMD) == set(range(0x114)) - holes
    assert len({name for name, _ in NAMES}) == len(NAMES)


DENIED = [n for n in NAMES if n[0] in table.DENIED and n[0] not in NOT_ASSEMBLED]


@pytest.mark.parametrize("name, layout", DENIED, ids=lambda v: str(v))
def test_a_planted_instruction_is_refused_by_name(name: str, layout: int) -> None:
    data = assemble(f"nop {text(name, layout)}")
    with pytest.raises(OpcodeDenied, match=rf"function 0 \(f\) contains {name}: "):
        gate(data, simd=True)


@pytest.mark.parametrize(
    "name",
    [
        "f32x4.relaxed_madd",
        "i16x8.extmul_high_i8x16_u",
        "i64x2.extmul_low_i32x4_s",
        "i32x4.extadd_pairwise_i16x8_s",
        "i8x16.popcnt",
        "i16x8.q15mulr_sat_s",
        "i64x2.extend_high_i32x4_u",
        "f64x2.promote_low_f32x4",
        "f32x4.demote_f64x2_zero",
        "i32x4.trunc_sat_f64x2_u_zero",
        "return_call",
        "throw",
    ],
)
def test_the_deny_list_has_every_known_gap(name: str) -> None:
    assert name in table.DENIED


def test_atomics_are_refused() -> None:
    with pytest.raises(OpcodeDenied, match="threads and atomics"):
        gate(assemble("i32.atomic.load"), simd=True)


def test_an_unknown_instruction_is_refused() -> None:
    data = assemble("nop").replace(b"\x01\x0b", b"\xff\x0b")
    with pytest.raises(OpcodeDenied, match="unknown 0xff"):
        gate(data, simd=True)


def test_simd_is_refused_in_a_scalar_module_only() -> None:
    data = assemble("v128.const i32x4 0 0 0 0 drop")
    assert gate(data, simd=True)["v128.const"] == 1
    with pytest.raises(OpcodeDenied, match=r"v128\.const: SIMD in a scalar module"):
        gate(data, simd=False)


def test_function_numbers_count_imports() -> None:
    module = '(module (import "a" "b" (func)) (func) (func $x i8x16.popcnt))'
    with pytest.raises(OpcodeDenied, match=r"function 2 contains i8x16\.popcnt"):
        gate(bytes(wasmtime.wat2wasm(module)), simd=True)


def test_a_constant_that_looks_like_an_instruction_is_no_instruction() -> None:
    counts = gate(assemble("i64.const 0x7d627d627d627d62 drop"), simd=False)
    assert counts == {"i64.const": 1, "drop": 1, "end": 1}


def test_the_swizzle_probe_is_what_its_text_says() -> None:
    counts = gate(swizzle_probe.MODULE, simd=True)
    assert counts["i8x16.swizzle"] == 2 and counts["v128.load"] == 3 and counts["v128.store"] == 2
