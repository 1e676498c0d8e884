"""The ``form`` argument: how the codecs that are compared with ours lie in a head's block of a page.

Two forms cover them. Affine tiles (KIVI): codes in the tiles of math/tiles.py, with a step and a minimum per channel and
group of tokens (keys) or per token and group of channels (values). Byte rows (FP8, int8, q8_0, q4_0, FlexGen, QServe):
one token's codes after another's, in groups of channels that may have a step and a minimum.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from tq_core.errors import KernelError, check
from tq_core.math.tiles import TILE_TOKENS, tile_bytes

BLOCK = 32  # channels of 16 bytes of nibbles: the low halves are the first 16 of them


class Kind(IntEnum):
    """What a code is: an integer of 8 or 4 bits, or a float of 8."""

    bytes = 0
    nibbles = 1
    floats = 2


class Scaling(IntEnum):
    """What follows a code c, from stored float16 numbers s and m: c; c s; c s + m; c / s + m (s = 0 is taken as 1); c s - m s."""

    none = 0
    step = 1
    minimum = 2
    inverse = 3
    zero = 4


def _words(form: AffineForm | ByteForm) -> npt.NDArray[np.uint32]:
    words = np.array(astuple(form), np.uint32)
    words.setflags(write=False)
    return words


@dataclass(frozen=True)
class AffineForm:
    """Affine tiles: ``bits`` 2, 3 or 4; ``group`` tokens (keys) or channels (values) that share a step and a minimum.

    codes, steps, minima: offsets in the head's block. Steps and minima are float16, (page_tokens / group, head_dim) for
    keys and (page_tokens, head_dim / group) for values.
    """

    bits: int
    group: int
    codes: int
    steps: int
    minima: int

    words = property(_words)


@dataclass(frozen=True)
class ByteForm:
    """Byte rows of ``channels`` channels, in groups of ``group``, the last one maybe short.

    first, second: an integer code is (stored xor first) - second. A float's lower 7 bits stand at bit ``first`` of a
    float32, which is multiplied by 2^second; its upper bit is the sign. *_at: offset of the first token's
    first group in the head's block; *_row: bytes from token to token; *_group: bytes from group to group.

    A block of nibbles is 16 bytes for BLOCK channels, byte i with channel i in its lower half and channel i + 16 in its
    upper one; whoever stores them otherwise brings queries into that order. The last block may be a half, of 8 bytes:
    the kernels work on whole blocks, with zeros for what is missing.
    """

    kind: int
    scaling: int
    channels: int
    group: int
    first: int
    second: int
    code_at: int
    code_row: int
    code_group: int
    step_at: int = 0
    step_row: int = 0
    step_group: int = 0
    minimum_at: int = 0
    minimum_row: int = 0
    minimum_group: int = 0

    words = property(_words)

    @property
    def padded(self) -> int:
        """Channels in whole blocks."""
        return -(-self.channels // BLOCK) * BLOCK if self.kind == Kind.nibbles else self.channels

    @property
    def groups(self) -> int:
        """Groups in a row."""
        return -(-self.channels // self.group)

    def code_bytes(self, group: int) -> int:
        """Bytes of the codes of one group."""
        held = min(self.group, self.channels - group * self.group)
        return held // 2 if self.kind == Kind.nibbles else held


def float_form(mantissa_bits: int, bias: int, code_at: int, head_dim: int) -> ByteForm:
    """Rows of 8-bit floats with ``mantissa_bits``, an exponent biased by ``bias`` and no stored scale."""
    first, second = 23 - mantissa_bits, 127 - bias
    return ByteForm(Kind.floats, Scaling.none, head_dim, head_dim, first, second, code_at, head_dim, 0)


def _check_affine(form: AffineForm, key: bool, head_dim: int, page_tokens: int, room: int) -> None:
    check(form.bits in (2, 3, 4), "form.bits", "2, 3 or 4", form.bits, KernelError)
    unit, whole = (TILE_TOKENS, page_tokens) if key else (16, head_dim)
    ok = form.group > 0 and form.group % unit == 0 and whole % form.group == 0
    check(ok, "form.group", f"a multiple of {unit} that divides {whole}", form.group, KernelError)
    affine = 2 * head_dim * page_tokens // form.group
    codes = tile_bytes([form.bits] * (head_dim // 16)) * (page_tokens // TILE_TOKENS)
    parts = (("codes", form.codes, codes), ("steps", form.steps, affine), ("minima", form.minima, affine))
    for label, at, nbytes in parts:
        ok = at % 2 == 0 and at + nbytes <= room
        wanted = f"an even offset with {nbytes} bytes inside head_bytes={room}"
        check(ok, f"form.{label}", wanted, at, KernelError)


def _check_bytes(form: ByteForm, head_dim: int, page_tokens: int, room: int) -> None:
    floats, nibbles = form.kind == Kind.floats, form.kind == Kind.nibbles
    unit = BLOCK if nibbles else 16
    for label, most in (
        ("kind", max(Kind)), ("scaling", Scaling.none if floats else max(Scaling)), ("first", 22 if floats else 255), ("second", 127 if floats else 255)
    ):  # fmt: skip
        value = getattr(form, label)
        check(value <= most, f"form.{label}", f"0..{int(most)}", value, KernelError)
    check(form.second > 0 or not floats, "form.second", "1..127 for floats", form.second, KernelError)
    ok = form.group > 0 and form.group % unit == 0
    check(ok, "form.group", f"a positive multiple of {unit}", form.group, KernelError)
    ok = form.channels > 0 and form.channels % 16 == 0
    check(ok, "form.channels", "a positive multiple of 16", form.channels, KernelError)
    check(head_dim == form.padded, "head_dim", f"{form.padded} channels for this form", head_dim, KernelError)
    parts = [("code", form.code_bytes(form.groups - 1))]
    parts += [("step", 2)] if form.scaling else []
    parts += [("minimum", 2)] if form.scaling > Scaling.step else []
    for label, nbytes in parts:
        at, row, group = (getattr(form, f"{label}_{place}") for place in ("at", "row", "group"))
        end = at + (page_tokens - 1) * row + (form.groups - 1) * group + nbytes
        check(end <= room, f"form.{label}_at", f"rows that end inside head_bytes={room}", at, KernelError)


def check_form(
    words: npt.NDArray[np.uint32], key: bool, head_dim: int, page_tokens: int, head_bytes: int
) -> None:
    """Raise KernelError unless everything that a kernel reads by this form lies inside a head's block."""
    numbers = words.tolist()
    if len(numbers) == len(fields(AffineForm)):
        _check_affine(AffineForm(*numbers), key, head_dim, page_tokens, head_bytes)
    else:
        _check_bytes(ByteForm(*numbers), head_dim, page_tokens, head_bytes)
