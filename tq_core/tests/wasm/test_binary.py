"""Malformed modules are refused with a typed error, whatever is wrong with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tq_core.errors import TqError
from wasm.binary import MAGIC, Reader, WasmFormatError, parse
from wasm.opcodes import gate, histogram

pytestmark = pytest.mark.kernels


def section(number: int, body: bytes) -> bytes:
    return bytes([number, len(body)]) + body


def function(body: bytes, declared: int = 1) -> bytes:
    """A module with one function of type () -> () and this body."""
    code = bytes([len(body) + 1, 0]) + body
    return (
        MAGIC
        + section(1, b"\x01\x60\0\0")
        + section(3, bytes([declared]) + b"\0" * declared)
        + section(10, b"\x01" + code)
    )


@pytest.fixture
def toy(toy_modules: Path) -> bytes:
    return (toy_modules / "tq_simd128_command.wasm").read_bytes()


def test_a_sound_module_is_read(toy: bytes) -> None:
    module = parse(toy)
    assert {"memory", "_start", "axpy"} <= module.exports.keys()
    assert [name for _, name, kind in module.imports if kind == "func"] == ["fd_read", "fd_write"]
    assert module.function_name(module.exports["axpy"][1]).endswith("(axpy)")


def section_starts(data: bytes) -> dict[int, int]:
    """Offset -> id of every section."""
    reader, starts = Reader(data, 8), {}
    while reader.left:
        start = reader.position
        starts[start] = reader.byte("id")
        reader.take(reader.unsigned("size"), "section")
    return starts


def test_every_truncation_is_refused(toy: bytes) -> None:
    # Cut before the function section, what is left is a smaller module that is whole.
    whole = {start for start, number in section_starts(toy).items() if number in (1, 2, 3)}
    assert len(whole) == 3
    for n in set(range(len(toy))) - whole:
        with pytest.raises(WasmFormatError):
            gate(toy[:n], simd=True)


def test_flipped_bits_never_raise_anything_else(toy: bytes) -> None:
    random = np.random.default_rng(3)
    refused = 0
    for at, bit in zip(random.integers(8, len(toy), 600), random.integers(0, 8, 600), strict=True):
        data = bytearray(toy)
        data[at] ^= 1 << bit
        try:
            gate(bytes(data), simd=True)
        except TqError:
            refused += 1
    assert refused > 100


@pytest.mark.parametrize(
    "data, message",
    [
        (b"", "magic"),
        (b"\0asm\x02\0\0\0", "at the start"),
        (MAGIC + b"\x01\xff\xff\xff\xff\x0f", "section 1"),
        (MAGIC + b"\x01\xff\xff\xff\xff\xff\x0f", "5 LEB128 bytes"),
        (MAGIC + b"\x01\xff\xff\xff\xff\x7f", "below 2"),
        (MAGIC + section(14, b""), "sections 1-13"),
        (MAGIC + section(3, b"\0") + section(1, b"\0"), "in order"),
        (MAGIC + section(3, b"\0") + section(3, b"\0"), "once each"),
        (MAGIC + section(3, b"\x7f"), "functions"),
        (MAGIC + section(3, b"\0\0"), "the end of section 3"),
        (MAGIC + section(3, b"\x01\0"), "1 function bodies, got 0"),
        (MAGIC + section(5, b"\x01\x03\x01\x02"), "limits"),
        (MAGIC + section(7, b"\x01\x01\xff\0\0"), "UTF-8"),
        (MAGIC + section(7, b"\x02\x01a\0\0\x01a\0\0"), "names that differ"),
        (MAGIC + section(7, b"\x01\x01a\x09\0"), "export kind"),
        (MAGIC + section(2, b"\x01\x01a\x01b\x09"), "got kind 9"),
        (MAGIC + section(10, b"\x01\x07\x01\xff\xff\xff\x7f\x7f\x0b"), "locals"),
        (function(b"\x0b", declared=2), "2 function bodies, got 1"),
        (function(b"\x01"), "opcode"),
        (function(b"\x0b\x01"), "the end of the function"),
        (function(b"\x02\x40\x0b"), "opcode"),
        (function(b"\x02\x05\x0b\x0b"), "block type"),
        (function(b"\x28\x20\x00\x0b"), "alignment"),
        (function(b"\x3f\x01\x0b"), "memory index 0"),
        (function(b"\x41\xff\xff\xff\xff\x1f\x0b"), "32 signed bits"),
        (function(b"\x41\xff\xff\xff\xff\xff\x00\x0b"), "LEB128"),
        (function(b"\xfd\x0c\x00\x0b"), "constant"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(data: bytes, message: str) -> None:
    with pytest.raises(WasmFormatError, match=message):
        histogram(data)


@pytest.mark.parametrize("value", [0, 1, -1, 63, 64, -64, -65, 2**31 - 1, -(2**31)])
def test_signed_numbers_have_one_meaning(value: int) -> None:
    encoded, rest = bytearray(), value
    while True:
        byte, rest = rest & 0x7F, rest >> 7
        done = (rest == 0 and not byte & 0x40) or (rest == -1 and byte & 0x40)
        encoded.append(byte if done else byte | 0x80)
        if done:
            break
    assert Reader(bytes(encoded)).signed("number", 32) == value
