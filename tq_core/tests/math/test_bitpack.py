"""Bit streams: every code of every width, the order of the bits, codes that do not fit."""

from __future__ import annotations

import numpy as np
import pytest

from tq_core.errors import ValueRangeError
from tq_core.math.bitpack import pack_bits, packed_bytes, unpack_bits


@pytest.mark.parametrize("bits", range(1, 9))
def test_every_code_survives(bits: int) -> None:
    codes = np.arange(1 << bits, dtype=np.uint8)
    codes = np.stack([codes, codes[::-1]])
    rows = pack_bits(codes, bits)
    assert rows.shape == (2, packed_bytes(1 << bits, bits))
    np.testing.assert_array_equal(unpack_bits(rows, bits, 1 << bits), codes)


def test_least_significant_bit_first() -> None:
    """Eight 3-bit codes are three bytes: sum of code << 3 i."""
    codes = np.array([1, 2, 3, 4, 5, 6, 7, 0], np.uint8)
    word = sum(int(c) << (3 * i) for i, c in enumerate(codes))
    assert pack_bits(codes, 3).tolist() == list(word.to_bytes(3, "little"))
    assert pack_bits(np.array([1, 0, 0, 1], np.uint8), 1).tolist() == [9]


@pytest.mark.parametrize("count", [1, 3, 5, 7, 21])
def test_rows_end_at_a_byte(count: int) -> None:
    codes = (np.arange(4 * count).reshape(4, count) % 4).astype(np.uint8)
    rows = pack_bits(codes, 2)
    assert rows.shape == (4, -(-count // 4))
    np.testing.assert_array_equal(unpack_bits(rows, 2, count), codes)


def test_codes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueRangeError, match="^codes: expected below 8, got 8"):
        pack_bits(np.array([8], np.uint8), 3)
    with pytest.raises(ValueRangeError, match="^bits: expected"):
        pack_bits(np.array([0], np.uint8), 9)
