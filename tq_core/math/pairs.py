"""Pair codes: two coordinates in 5 or 7 bits, for 2.5 and 3.5 bits per channel with no channel better off than another.

Books of 5 and 6 levels make 30 pairs, which 5 bits hold; 11 and 11 make 121 of the 128 of 7 bits. Both have less
error than half of the channels at the next integer rate: 0.0690 against 0.0760, 0.0192 against 0.0220 for N(0,1).

The numbering of the pairs is chosen for decoders that look bytes up in tables of 16 entries. A code's upper four bits
are looked up in a table of its digit, whose low half byte says where the digit starts and whose high half byte says
which of the code's lower bits are added:

    5 bits   6 * first + second: upper bits 3 * first + second / 2, the lowest bit second % 2
    7 bits   8 * first + second where second < 8; the other 33 pairs fill the five blocks of 8 behind them
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tq_core.errors import CodecError, check

U8 = npt.NDArray[np.uint8]
PAIR_LEVELS = {5: (5, 6), 7: (11, 11)}  # bits of a pair: levels of its first and second coordinate
PAIR_BITS = {2.5: 5, 3.5: 7}
PAIR_CHANNELS = 32  # a pair is the same channel of two neighbouring groups of 16


def pair_code(first: int, second: int, bits: int) -> int:
    """The code of two level numbers."""
    if bits == 5:
        return 6 * first + second
    if second < 8:
        return 8 * first + second
    if first < 8:
        return 8 * (11 + second - 8) + first
    return 8 * (14 if first < 10 else 15) + (first - 8) % 2 + 2 * (second - 8)


def _digits(code: int, bits: int) -> tuple[int, int]:
    """Level numbers of any code, those that no pair has included: they read as a level that the book lacks."""
    if bits == 5:
        return code // 6, code % 6
    block, low = code >> 3, code & 7
    if block < 11:
        return block, low
    if block < 14:
        return low, block - 3
    return (8 + (low & 1) if block == 14 else 10), 8 + (low >> 1)


def _tables(bits: int) -> tuple[U8, U8]:
    """Codes of level numbers (16, 16), unused ones 0, and level numbers (2, 2^bits) of codes; read-only."""
    codes = np.zeros((16, 16), np.uint8)
    for first in range(PAIR_LEVELS[bits][0]):
        for second in range(PAIR_LEVELS[bits][1]):
            codes[first, second] = pair_code(first, second, bits)
    digits = np.array([_digits(c, bits) for c in range(1 << bits)], np.uint8).T.copy()
    for table in (codes, digits):
        table.setflags(write=False)
    return codes, digits


_TABLES = {bits: _tables(bits) for bits in PAIR_LEVELS}


def join_pairs(levels: U8, widths: U8) -> U8:
    """(n, head_dim) level numbers to codes: a pair's code where its first coordinate was, 0 at the second."""
    out = levels.copy()
    for group in np.flatnonzero(np.isin(widths, list(PAIR_LEVELS))):
        first, second = slice(16 * group, 16 * group + 16), slice(16 * group + 16, 16 * group + 32)
        out[:, first] = _TABLES[int(widths[group])][0][levels[:, first], levels[:, second]]
        out[:, second] = 0
    return out


def split_pairs(codes: U8, widths: U8) -> U8:
    """Inverse of join_pairs."""
    out = codes.copy()
    for group in np.flatnonzero(np.isin(widths, list(PAIR_LEVELS))):
        digits = _TABLES[int(widths[group])][1][:, codes[:, 16 * group : 16 * group + 16]]
        out[:, 16 * group : 16 * group + 16], out[:, 16 * group + 16 : 16 * group + 32] = digits
    return out


def pair_widths(rate: float, head_dim: int) -> U8:
    """Bits of each 16-channel group, (head_dim / 16,) uint8: a pair's bits at its first group, 0 at the second.

    Raises CodecError for a rate other than 2.5 and 3.5, and for a head_dim that is no multiple of 32.
    """
    check(rate in PAIR_BITS, "bits", f"one of {tuple(PAIR_BITS)} for pair codes", rate, CodecError)
    whole = head_dim % PAIR_CHANNELS == 0
    check(whole, "head_dim", f"a multiple of {PAIR_CHANNELS} for pair codes", head_dim, CodecError)
    return np.array([PAIR_BITS[rate], 0] * (head_dim // PAIR_CHANNELS), np.uint8)
