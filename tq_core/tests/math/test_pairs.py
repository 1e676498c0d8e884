"""Pair codes: every pair has a code of its own, decoding follows the stated rule, and the books give codecs.md's errors."""

from __future__ import annotations

import numpy as np
import pytest

from tq_core.errors import TqError
from tq_core.math import tiles
from tq_core.math.books import BOOK_LEVELS, book_rows, load_books, widths_for
from tq_core.math.lloyd_max import lloyd_max
from tq_core.math.pairs import PAIR_LEVELS, join_pairs, pair_code, split_pairs
from tq_core.math.quantize import NormMode, centroid_values, encode_rows
from tq_core.math.rotation import StructuredRotation

PAIR_ROWS = {5: (3, 4), 7: (5, 5)}


@pytest.mark.parametrize("bits", PAIR_LEVELS)
def test_every_pair_has_its_own_code(bits: int) -> None:
    first, second = PAIR_LEVELS[bits]
    codes = {pair_code(i, j, bits) for i in range(first) for j in range(second)}
    assert len(codes) == first * second and max(codes) < 1 << bits
    widths = np.array([bits, 0], np.uint8)
    levels = np.random.default_rng(bits).integers(0, 99, (400, 32)).astype(np.uint8)
    levels[:, :16] %= first
    levels[:, 16:] %= second
    joined = join_pairs(levels, widths)
    assert not joined[:, 16:].any()
    np.testing.assert_array_equal(split_pairs(joined, widths), levels)


@pytest.mark.parametrize("bits", PAIR_LEVELS)
def test_the_upper_four_bits_tell_where_a_digit_starts_and_what_is_added(bits: int) -> None:
    """The property that lets a table of 16 entries decode: within a block of codes a digit is start + (code & mask)."""
    codes = np.arange(1 << bits, dtype=np.uint8)
    raw = np.zeros((len(codes), 32), np.uint8)
    raw[:, 0] = codes
    levels = split_pairs(raw, np.array([bits, 0], np.uint8))
    low = (1 << (bits - 4)) - 1
    for digit in (levels[:, 0], levels[:, 16]):
        stretched = np.where(
            digit < 8, digit, 8 + 2 * (digit.astype(int) - 8)
        )  # as the second digit is looked up
        for block in range(16):
            mine = codes >> (bits - 4) == block
            assert any(
                np.array_equal(seen[mine], seen[mine][0] + (codes[mine] & mask))
                for mask in range(low + 1)
                for seen in (digit, stretched)
            ), (bits, block)


def test_books_and_their_errors() -> None:
    """Per coordinate 0.06896 at 2.5 bits and 0.01922 at 3.5, the grid of bytes costing less than a thousandth."""
    books = load_books()
    for row, levels in enumerate(BOOK_LEVELS):
        assert 0 < books.row_distortion(row) / lloyd_max(levels).distortion - 1 < 1e-3
    at = {bits: np.mean([books.row_distortion(r) for r in rows]) for bits, rows in PAIR_ROWS.items()}
    assert at[5] == pytest.approx(0.06896, rel=1e-3) and at[7] == pytest.approx(0.01922, rel=1e-3)
    assert at[5] < 0.91 * (books.distortion(2) + books.distortion(3)) / 2
    assert at[7] < 0.88 * (books.distortion(3) + books.distortion(4)) / 2


@pytest.mark.parametrize("rate, expected", [(2.5, 0.06896), (3.5, 0.01922)])
def test_encoded_vectors_have_that_error(rate: float, expected: float) -> None:
    d = 128
    rotation, widths, books = StructuredRotation(d, 3), widths_for(rate, d, "pair"), load_books()
    x = np.random.default_rng(1).standard_normal((3000, d)).astype(np.float32)
    levels, scales = encode_rows(x, rotation.signs, rotation.hadamard, widths, books, NormMode.min_mse)
    rotated = centroid_values(levels, widths, books) * scales.view(np.float16)[:, None].astype(np.float32)
    error = float(((rotation.inverse(rotated) - x) ** 2).sum() / (x**2).sum())
    assert 0.96 < error / expected < 0.995  # head_dim 128 instead of the limit, and a fitted scale


@pytest.mark.parametrize("keys", [True, False])
@pytest.mark.parametrize("rate, nbytes", [(2.5, 5), (3.5, 7)])
def test_stream_bytes_and_round_trip(rate: float, nbytes: int, keys: bool) -> None:
    widths = widths_for(rate, 96, "pair")
    levels = np.stack([np.random.default_rng(c).integers(0, n, 64) for c, n in enumerate(_counts(widths))], 1)
    packed = tiles.pack_stream(join_pairs(levels.astype(np.uint8), widths), widths, keys)
    assert packed.size == 64 * 96 * nbytes // 16
    np.testing.assert_array_equal(split_pairs(tiles.unpack_stream(packed, widths, keys), widths), levels)


def _counts(widths: np.ndarray) -> np.ndarray:
    return np.repeat([BOOK_LEVELS[row] for row in book_rows(widths)], 16)


def test_a_seven_bit_code_spelled_out() -> None:
    """Channel 0 and 16 of token 16: slice 4 of byte 0, bits 28..34 of its column: rows 3 and 4."""
    widths = np.array([7, 0], np.uint8)
    levels = np.zeros((32, 32), np.uint8)
    levels[16, 0], levels[16, 16] = 10, 10
    assert pair_code(10, 10, 7) == 0b1111100
    packed = tiles.pack_stream(join_pairs(levels, widths), widths, keys=True)
    found = {int(i): int(packed[i]) for i in np.flatnonzero(packed)}
    assert found == {3 * 64: 0b11000000, 4 * 64: 0b111}


@pytest.mark.parametrize("widths", [[5], [5, 5], [0, 5], [5, 0, 0], [7, 2], [6, 0], [1, 2], [3, 7]])
def test_widths_that_are_no_codes(widths: list[int]) -> None:
    with pytest.raises(TqError, match="^key_widths: expected bit widths in"):
        book_rows(np.array(widths, np.uint8), "key_widths")


def test_which_head_sizes_and_rates() -> None:
    assert widths_for(2.5, 64, "pair").tolist() == [5, 0, 5, 0]
    assert widths_for(3.0, 48, "pair").tolist() == [3, 3, 3]
    with pytest.raises(TqError, match="^head_dim: expected a multiple of 32 for pair codes, got 80"):
        widths_for(3.5, 80, "pair")
    with pytest.raises(TqError, match="^code: expected one of"):
        widths_for(3.5, 64, "triple")
