"""Codes of 1 to 8 bits as a stream of bits, least significant first, rows padded to whole bytes.

The layout of a token's codes in the codecs that no kernel reads: code i occupies bits [b*i, b*(i+1)) of its row, bit n
of a row is bit n % 8 of byte n // 8. Eight 3-bit codes are three bytes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tq_core.errors import ValueRangeError, check

U8 = npt.NDArray[np.uint8]


def packed_bytes(count: int, bits: int) -> int:
    """Bytes of ``count`` codes of ``bits`` bits."""
    return -(-count * bits // 8)


def pack_bits(codes: U8, bits: int) -> U8:
    """(..., count) codes below 2^bits to (..., packed_bytes) bytes. Raises ValueRangeError for a larger code."""
    check(1 <= bits <= 8, "bits", "1..8", bits, ValueRangeError)
    largest = int(codes.max(initial=0))
    check(largest < 1 << bits, "codes", f"below {1 << bits}", largest, ValueRangeError)
    split = np.unpackbits(codes[..., None], axis=-1, count=bits, bitorder="little")
    return np.packbits(split.reshape(*codes.shape[:-1], codes.shape[-1] * bits), axis=-1, bitorder="little")


def unpack_bits(rows: U8, bits: int, count: int) -> U8:
    """Inverse of pack_bits: (..., packed_bytes) bytes to (..., count) codes."""
    split = np.unpackbits(rows, axis=-1, count=count * bits, bitorder="little")
    return np.packbits(split.reshape(*rows.shape[:-1], count, bits), axis=-1, bitorder="little")[..., 0]
