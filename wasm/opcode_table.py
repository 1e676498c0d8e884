"""Names and operand layouts of the WebAssembly instructions that the opcode gate knows.

Numbers follow the core specification with SIMD; ``opcodes.py`` walks code with them. An instruction
that is not listed here cannot be skipped over, so the gate refuses it. ``DENIED`` lists instructions
that are listed, hence recognised by name, but must not occur in a built module.
"""

from __future__ import annotations

# Operand layouts: what follows an opcode in the byte stream.
NONE, BLOCK, INDEX, INDEX2, BR_TABLE, MEMARG, ZERO, ZERO2, INDEX_ZERO = range(9)
I32, I64, F32, F64, BYTES16, LANE, MEMARG_LANE, TYPES, HEAP_TYPE = range(9, 18)

PREFIX_MISC, PREFIX_SIMD, PREFIX_THREADS = 0xFC, 0xFD, 0xFE

_Table = dict[int, tuple[str, int]]


def _run(first: int, names: str, layout: int = NONE) -> _Table:
    """Consecutive opcodes from ``first``; a ``.`` on its own is a hole in the numbering."""
    return {first + i: (name, layout) for i, name in enumerate(names.split()) if name != "."}


def _typed(prefix: str, names: str) -> str:
    return " ".join(f"{prefix}.{name}" if name != "." else name for name in names.split())


_INT_COMPARE = "eqz eq ne lt_s lt_u gt_s gt_u le_s le_u ge_s ge_u"
_FLOAT_COMPARE = "eq ne lt gt le ge"
_INT_MATH = "clz ctz popcnt add sub mul div_s div_u rem_s rem_u and or xor shl shr_s shr_u rotl rotr"
_FLOAT_MATH = "abs neg ceil floor trunc nearest sqrt add sub mul div min max copysign"
_CONVERT = (
    "i32.wrap_i64 i32.trunc_f32_s i32.trunc_f32_u i32.trunc_f64_s i32.trunc_f64_u "
    "i64.extend_i32_s i64.extend_i32_u i64.trunc_f32_s i64.trunc_f32_u i64.trunc_f64_s i64.trunc_f64_u "
    "f32.convert_i32_s f32.convert_i32_u f32.convert_i64_s f32.convert_i64_u f32.demote_f64 "
    "f64.convert_i32_s f64.convert_i32_u f64.convert_i64_s f64.convert_i64_u f64.promote_f32 "
    "i32.reinterpret_f32 i64.reinterpret_f64 f32.reinterpret_i32 f64.reinterpret_i64 "
    "i32.extend8_s i32.extend16_s i64.extend8_s i64.extend16_s i64.extend32_s"
)
_LOADS = (
    "i32.load i64.load f32.load f64.load i32.load8_s i32.load8_u i32.load16_s i32.load16_u "
    "i64.load8_s i64.load8_u i64.load16_s i64.load16_u i64.load32_s i64.load32_u "
    "i32.store i64.store f32.store f64.store i32.store8 i32.store16 i64.store8 i64.store16 i64.store32"
)

SIMPLE: _Table = {
    **_run(0x00, "unreachable nop"),
    **_run(0x02, "block loop if", BLOCK),
    **_run(0x05, "else"),
    **_run(0x06, "try", BLOCK),
    **_run(0x07, "catch throw rethrow", INDEX),
    **_run(0x0A, "throw_ref end"),
    **_run(0x0C, "br br_if", INDEX),
    0x0E: ("br_table", BR_TABLE),
    **_run(0x0F, "return"),
    **_run(0x10, "call", INDEX),
    **_run(0x11, "call_indirect", INDEX2),
    **_run(0x12, "return_call", INDEX),
    **_run(0x13, "return_call_indirect", INDEX2),
    **_run(0x14, "call_ref return_call_ref", INDEX),
    **_run(0x1A, "drop select"),
    0x1C: ("select_typed", TYPES),
    **_run(0x20, "local.get local.set local.tee global.get global.set table.get table.set", INDEX),
    **_run(0x28, _LOADS, MEMARG),
    **_run(0x3F, "memory.size memory.grow", ZERO),
    0x41: ("i32.const", I32),
    0x42: ("i64.const", I64),
    0x43: ("f32.const", F32),
    0x44: ("f64.const", F64),
    **_run(0x45, _typed("i32", _INT_COMPARE)),
    **_run(0x50, _typed("i64", _INT_COMPARE)),
    **_run(0x5B, _typed("f32", _FLOAT_COMPARE)),
    **_run(0x61, _typed("f64", _FLOAT_COMPARE)),
    **_run(0x67, _typed("i32", _INT_MATH)),
    **_run(0x79, _typed("i64", _INT_MATH)),
    **_run(0x8B, _typed("f32", _FLOAT_MATH)),
    **_run(0x99, _typed("f64", _FLOAT_MATH)),
    **_run(0xA7, _CONVERT),
    0xD0: ("ref.null", HEAP_TYPE),
    0xD1: ("ref.is_null", NONE),
    0xD2: ("ref.func", INDEX),
}

MISC: _Table = {
    **_run(
        0, " ".join(f"{i}.trunc_sat_{f}_{s}" for i in ("i32", "i64") for f in ("f32", "f64") for s in "su")
    ),
    8: ("memory.init", INDEX_ZERO),
    9: ("data.drop", INDEX),
    10: ("memory.copy", ZERO2),
    11: ("memory.fill", ZERO),
    **_run(12, "table.init", INDEX2),
    **_run(13, "elem.drop", INDEX),
    **_run(14, "table.copy", INDEX2),
    **_run(15, "table.grow table.size table.fill", INDEX),
}

_VCOMPARE = "eq ne lt_s lt_u gt_s gt_u le_s le_u ge_s ge_u"
_SATURATING = "add add_sat_s add_sat_u sub sub_sat_s sub_sat_u"


def _widen(shape: str, op: str, narrow: str) -> str:
    return " ".join(f"{shape}.{op}_{half}_{narrow}_{sign}" for sign in "su" for half in ("low", "high"))


SIMD: _Table = {
    **_run(
        0, "v128.load " + " ".join(f"v128.load{s}_{u}" for s in ("8x8", "16x4", "32x2") for u in "su"), MEMARG
    ),
    **_run(7, " ".join(f"v128.load{b}_splat" for b in (8, 16, 32, 64)) + " v128.store", MEMARG),
    12: ("v128.const", BYTES16),
    13: ("i8x16.shuffle", BYTES16),
    14: ("i8x16.swizzle", NONE),
    **_run(15, "i8x16.splat i16x8.splat i32x4.splat i64x2.splat f32x4.splat f64x2.splat"),
    **_run(21, _typed("i8x16", "extract_lane_s extract_lane_u replace_lane"), LANE),
    **_run(24, _typed("i16x8", "extract_lane_s extract_lane_u replace_lane"), LANE),
    **_run(
        27,
        " ".join(_typed(t, "extract_lane replace_lane") for t in ("i32x4", "i64x2", "f32x4", "f64x2")),
        LANE,
    ),
    **_run(35, _typed("i8x16", _VCOMPARE)),
    **_run(45, _typed("i16x8", _VCOMPARE)),
    **_run(55, _typed("i32x4", _VCOMPARE)),
    **_run(65, _typed("f32x4", _FLOAT_COMPARE)),
    **_run(71, _typed("f64x2", _FLOAT_COMPARE)),
    **_run(77, _typed("v128", "not and andnot or xor bitselect any_true")),
    **_run(
        84, " ".join(f"v128.{op}{b}_lane" for op in ("load", "store") for b in (8, 16, 32, 64)), MEMARG_LANE
    ),
    **_run(92, "v128.load32_zero v128.load64_zero", MEMARG),
    **_run(94, "f32x4.demote_f64x2_zero f64x2.promote_low_f32x4"),
    **_run(96, _typed("i8x16", "abs neg popcnt all_true bitmask narrow_i16x8_s narrow_i16x8_u")),
    **_run(103, _typed("f32x4", "ceil floor trunc nearest")),
    **_run(107, _typed("i8x16", "shl shr_s shr_u " + _SATURATING)),
    **_run(
        116, "f64x2.ceil f64x2.floor i8x16.min_s i8x16.min_u i8x16.max_s i8x16.max_u f64x2.trunc i8x16.avgr_u"
    ),
    **_run(
        124,
        " ".join(
            f"{t}_{s}" for t in ("i16x8.extadd_pairwise_i8x16", "i32x4.extadd_pairwise_i16x8") for s in "su"
        ),
    ),
    **_run(128, _typed("i16x8", "abs neg q15mulr_sat_s all_true bitmask narrow_i32x4_s narrow_i32x4_u")),
    **_run(135, _widen("i16x8", "extend", "i8x16")),
    **_run(139, _typed("i16x8", "shl shr_s shr_u " + _SATURATING)),
    **_run(148, "f64x2.nearest i16x8.mul i16x8.min_s i16x8.min_u i16x8.max_s i16x8.max_u . i16x8.avgr_u"),
    **_run(156, _widen("i16x8", "extmul", "i8x16")),
    **_run(160, _typed("i32x4", "abs neg . all_true bitmask")),
    **_run(167, _widen("i32x4", "extend", "i16x8")),
    **_run(171, _typed("i32x4", "shl shr_s shr_u add . . sub . . . mul min_s min_u max_s max_u dot_i16x8_s")),
    **_run(188, _widen("i32x4", "extmul", "i16x8")),
    **_run(192, _typed("i64x2", "abs neg . all_true bitmask")),
    **_run(199, _widen("i64x2", "extend", "i32x4")),
    **_run(203, _typed("i64x2", "shl shr_s shr_u add . . sub . . . mul eq ne lt_s gt_s le_s ge_s")),
    **_run(220, _widen("i64x2", "extmul", "i32x4")),
    **_run(224, _typed("f32x4", "abs neg . sqrt add sub mul div min max pmin pmax")),
    **_run(236, _typed("f64x2", "abs neg . sqrt add sub mul div min max pmin pmax")),
    **_run(
        248, "i32x4.trunc_sat_f32x4_s i32x4.trunc_sat_f32x4_u f32x4.convert_i32x4_s f32x4.convert_i32x4_u"
    ),
    **_run(252, "i32x4.trunc_sat_f64x2_s_zero i32x4.trunc_sat_f64x2_u_zero"),
    **_run(254, "f64x2.convert_low_i32x4_s f64x2.convert_low_i32x4_u"),
    **_run(256, "i8x16.relaxed_swizzle i32x4.relaxed_trunc_f32x4_s i32x4.relaxed_trunc_f32x4_u"),
    **_run(259, "i32x4.relaxed_trunc_f64x2_s_zero i32x4.relaxed_trunc_f64x2_u_zero"),
    **_run(261, "f32x4.relaxed_madd f32x4.relaxed_nmadd f64x2.relaxed_madd f64x2.relaxed_nmadd"),
    **_run(265, " ".join(f"{t}.relaxed_laneselect" for t in ("i8x16", "i16x8", "i32x4", "i64x2"))),
    **_run(269, "f32x4.relaxed_min f32x4.relaxed_max f64x2.relaxed_min f64x2.relaxed_max"),
    **_run(
        273, "i16x8.relaxed_q15mulr_s i16x8.relaxed_dot_i8x16_i7x16_s i32x4.relaxed_dot_i8x16_i7x16_add_s"
    ),
}

RELAXED = "relaxed SIMD: its result, fused multiply-add among it, depends on the engine"
LACKING = "missing or unproven in wasmer 1.1 (cranelift 0.76)"
EXCEPTIONS, TAIL_CALLS, REFERENCES = "exception handling", "tail call", "reference types"
_LACKING_WORDS = (
    "extmul",
    "extadd_pairwise",
    "i8x16.popcnt",
    "q15mulr_sat",
    "i64x2.extend",
    "promote_low",
    "f64x2_zero",
    "convert_low_i32x4_u",
)


def _denied() -> dict[str, str]:
    reasons: dict[str, str] = {}
    for name, _ in [*SIMPLE.values(), *MISC.values(), *SIMD.values()]:
        if "relaxed" in name:
            reasons[name] = RELAXED
        elif name.startswith("i32x4.trunc_sat_f64x2") or any(word in name for word in _LACKING_WORDS):
            reasons[name] = LACKING
        elif name in ("try", "catch", "throw", "rethrow", "throw_ref"):
            reasons[name] = EXCEPTIONS
        elif name.startswith("return_call"):
            reasons[name] = TAIL_CALLS
        elif name.startswith(("table.", "elem.", "ref.")) or name in ("call_ref", "select_typed"):
            reasons[name] = REFERENCES
    return reasons


# Instruction name -> why a built module must not contain it.
DENIED: dict[str, str] = _denied()
