"""The opcode gate: which instructions a built module contains, and which it must not.

A kernel must give the same bits on every engine, and it must run on the oldest engine in use. The
compiler knows neither rule: it emits what its feature flags allow. So the built binary is what is
checked, instruction by instruction, before it is installed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tq_core.errors import TqError

from . import opcode_table as table
from .binary import Reader, parse

_BLOCK_VALUES = {0x40, 0x7F, 0x7E, 0x7D, 0x7C, 0x7B}


class OpcodeDenied(TqError):
    """A module contains an instruction that the gate refuses."""


def _block_type(reader: Reader) -> None:
    # A type index here means several results or parameters: multi-value, which is avoided.
    value = reader.byte("block type")
    if value not in _BLOCK_VALUES:
        raise reader.fail(f"a block with no or one result, got block type {value:#x}")


def _skip_operands(reader: Reader, layout: int) -> None:
    """Step over what follows an opcode."""
    if layout == table.BLOCK:
        _block_type(reader)
    elif layout in (table.INDEX, table.INDEX2, table.MEMARG, table.MEMARG_LANE, table.INDEX_ZERO):
        first = reader.unsigned("index or alignment")
        if layout in (table.MEMARG, table.MEMARG_LANE) and first >= 32:
            raise reader.fail(f"an alignment exponent below 32, got {first}")
        if layout in (table.INDEX2, table.MEMARG, table.MEMARG_LANE):
            reader.unsigned("index or offset")
        if layout == table.MEMARG_LANE:
            reader.byte("lane")
        if layout == table.INDEX_ZERO and reader.byte("memory index"):
            raise reader.fail("memory index 0")
    elif layout == table.BR_TABLE:
        for _ in range(reader.count("branch targets") + 1):
            reader.unsigned("branch target")
    elif layout in (table.ZERO, table.ZERO2):
        if any(reader.take(1 if layout == table.ZERO else 2, "memory index")):
            raise reader.fail("memory index 0")
    elif layout == table.I32:
        reader.signed("i32 constant", 32)
    elif layout == table.I64:
        reader.signed("i64 constant", 64)
    elif layout in (table.F32, table.F64, table.BYTES16, table.LANE, table.HEAP_TYPE):
        reader.take({table.F32: 4, table.F64: 8, table.BYTES16: 16}.get(layout, 1), "constant or lane")
    elif layout == table.TYPES:
        reader.take(reader.count("types"), "types")


def _lookup(reader: Reader) -> tuple[str, int]:
    """Name and operand layout of the instruction at the cursor."""
    opcode = reader.byte("opcode")
    if opcode == table.PREFIX_THREADS:
        return f"atomic {reader.unsigned('atomic opcode')}", -1
    if opcode in (table.PREFIX_MISC, table.PREFIX_SIMD):
        number = reader.unsigned("opcode")
        entries = table.MISC if opcode == table.PREFIX_MISC else table.SIMD
        return entries.get(number, (f"unknown {opcode:#x} {number:#x}", -1))
    return table.SIMPLE.get(opcode, (f"unknown {opcode:#x}", -1))


def instructions(data: bytes, start: int, end: int) -> Iterator[str]:
    """Names of the instructions of one function body.

    An instruction whose operands are not known ends the walk: its name is the last one yielded.
    Raises WasmFormatError when blocks do not nest or the body does not end where it says.
    """
    reader, depth = Reader(data, start, end), 1
    while depth:
        name, layout = _lookup(reader)
        yield name
        if layout < 0:
            return
        _skip_operands(reader, layout)
        if name in ("block", "loop", "if", "try"):
            depth += 1
        elif name == "end":
            depth -= 1
    if reader.left:
        raise reader.fail(f"the end of the function, got {reader.left} more bytes")


def histogram(data: bytes) -> Counter[str]:
    """How often each instruction occurs in a module. Raises WasmFormatError."""
    return Counter(name for start, end in parse(data).bodies for name in instructions(data, start, end))


def reason_denied(name: str, simd: bool) -> str | None:
    """Why the instruction ``name`` must not occur, or None when it may."""
    if name.startswith("atomic"):
        return "threads and atomics"
    if name.startswith("unknown"):
        return "not an instruction that this gate knows"
    if name in table.DENIED:
        return table.DENIED[name]
    if not simd and name in _SIMD_NAMES:
        return "SIMD in a scalar module"
    return None


_SIMD_NAMES = frozenset(name for name, _ in table.SIMD.values())


def gate(data: bytes, simd: bool, label: str = "module") -> Counter[str]:
    """Check every instruction of a module and count them.

    ``simd`` says whether 128-bit SIMD is allowed. Raises OpcodeDenied, naming function and
    instruction, on the first one that is not allowed, and WasmFormatError on malformed bytes.
    """
    module, counts = parse(data), Counter[str]()
    for i, (start, end) in enumerate(module.bodies):
        for name in instructions(data, start, end):
            reason = reason_denied(name, simd)
            if reason:
                where = module.function_name(module.imported_functions + i)
                raise OpcodeDenied(f"{label}: {where} contains {name}: {reason}")
            counts[name] += 1
    return counts
