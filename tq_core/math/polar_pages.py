"""How PolarQuant's codes lie in a page: 128 tokens in 8 groups of 16 lanes, each block of 16 channels on its own.

A block has 8 rows of 64 bytes, one per group of tokens, whose lanes hold the 8 codes of level 1, four bits each. A code
of level 1 is two magnitude bits, the place of the angle within its quadrant counted from the first axis, and the signs
of the two coordinates (bit 2: the first is negative, bit 3: the second is). Then come 7 rows of 32 bytes, one per code of
levels 2 to 4, whose lanes hold two bits for each group of tokens. So a vector's 46 bits per block need no padding.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tq_core.math.lanes import LANES
from tq_core.math.polar import BLOCK, LEVEL_CODES, angle_book

POLAR_TOKENS = 128
GROUPS = POLAR_TOKENS // LANES
WIDE_BYTES, NARROW_ROWS = 64 * GROUPS, sum(LEVEL_CODES[1:])
BLOCK_BYTES = WIDE_BYTES + 2 * LANES * NARROW_ROWS
U8 = npt.NDArray[np.uint8]

_QUADRANT, _PLACE = np.divmod(np.arange(16), 4)
# Code of level 1 (sixteenths of a turn from 0 on) to its stored form.
STORED = (
    (_PLACE ^ (3 * (_QUADRANT & 1))) | (((_QUADRANT + 1) >> 1 & 1) << 2) | ((_QUADRANT >> 1) << 3)
).astype(np.uint8)
_CODE = np.argsort(STORED).astype(np.uint8)


@lru_cache(maxsize=1)
def cosine_table() -> npt.NDArray[np.float32]:
    """(4, 4) float32: cosines of each level's angles within [0, pi/2]; the sines are the same from the other end."""
    quadrant = (np.arange(4) + 0.5) * (np.pi / 8)
    table = np.cos(np.stack([quadrant, *(angle_book(level) for level in (2, 3, 4))])).astype(np.float32)
    table.setflags(write=False)
    return table


def pack_codes(codes: list[U8]) -> U8:
    """Codes of the four levels, (128, n_blocks, 8 | 4 | 2 | 1), to (n_blocks, BLOCK_BYTES)."""
    blocks = codes[0].shape[1]
    shifts = (4 * np.arange(8)).astype(np.uint32)
    wide = (STORED[codes[0]].astype(np.uint32) << shifts).sum(axis=-1, dtype=np.uint32)
    rest = np.concatenate(codes[1:], axis=-1).astype(np.uint16).reshape(GROUPS, LANES, blocks, NARROW_ROWS)
    twos = (2 * np.arange(GROUPS)).astype(np.uint16)[:, None, None, None]
    narrow = (rest << twos).sum(axis=0, dtype=np.uint16).transpose(1, 2, 0)
    parts = (wide.T.astype("<u4"), narrow.astype("<u2"))
    return np.concatenate([np.ascontiguousarray(p).reshape(blocks, -1).view(np.uint8) for p in parts], axis=1)


def put_codes(raw: U8, slots: slice, codes: list[U8]) -> None:
    """Codes (n, n_blocks, ...) of the four levels into the slots of a page's (n_blocks, BLOCK_BYTES), a writable view.

    Level 1 of a code of zero angle is zero bits, so that putting zeros leaves the bytes of a page never written.
    """
    wide = raw[:, :WIDE_BYTES].view("<u4")
    shifts = (4 * np.arange(8)).astype(np.uint32)
    wide[:, slots] = (STORED[codes[0]].astype(np.uint32) << shifts).sum(axis=-1, dtype=np.uint32).T
    narrow = raw[:, WIDE_BYTES:].view("<u2").reshape(len(raw), NARROW_ROWS, LANES)
    rest = np.concatenate(codes[1:], axis=-1).astype(np.uint16).transpose(1, 2, 0)
    for group in range(slots.start // LANES, -(-slots.stop // LANES)):
        low, high = max(slots.start, group * LANES), min(slots.stop, (group + 1) * LANES)
        here = narrow[:, :, low - group * LANES : high - group * LANES]
        here &= np.uint16(0xFFFF ^ (3 << 2 * group))
        here |= rest[:, :, low - slots.start : high - slots.start] << np.uint16(2 * group)


def unpack_codes(raw: U8) -> list[U8]:
    """Inverse of pack_codes."""
    blocks = len(raw)
    wide = np.ascontiguousarray(raw[:, :WIDE_BYTES]).view("<u4").T[..., None]
    first = _CODE[(wide >> (4 * np.arange(8)).astype(np.uint32)) & np.uint32(15)]
    narrow = np.ascontiguousarray(raw[:, WIDE_BYTES:]).view("<u2").reshape(blocks, NARROW_ROWS, LANES)
    twos = (2 * np.arange(GROUPS)).astype(np.uint16)[:, None, None, None]
    rest = ((narrow >> twos) & np.uint16(3)).astype(np.uint8).transpose(0, 3, 1, 2)
    ends = np.cumsum(LEVEL_CODES[1:])[:-1]
    return [first, *np.split(rest.reshape(POLAR_TOKENS, blocks, NARROW_ROWS), ends, axis=-1)]


def coordinates(
    codes: list[U8], radii: npt.NDArray[np.float32], table: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """Codes (n, n_blocks, ...), radii (n, n_blocks) and cosine_table() to (n, 16 n_blocks): a float32 product per level."""
    values = radii[..., None]
    for level in (4, 3, 2):
        code, book = codes[level - 1], table[level - 1]
        pair = [values * book[code], values * book[3 - code]]
        values = np.stack(pair, axis=-1).reshape(*radii.shape, -1)
    stored = STORED[codes[0]]
    place = stored & 3
    first = np.where(stored & 4, -table[0][place], table[0][place])
    second = np.where(stored & 8, -table[0][3 - place], table[0][3 - place])
    out = np.stack([values * first, values * second], axis=-1)
    return out.reshape(len(radii), BLOCK * radii.shape[1])
