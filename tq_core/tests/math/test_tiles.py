"""The packed layout, checked bit by bit against the sentence that defines it and against bytes spelled out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tq_core.errors import TqError
from tq_core.math import tiles
from tq_core.math.books import widths_for

BITS = (2, 3, 4)


def place(token: int, channel: int, keys: bool) -> tuple[int, int]:
    """(byte position 0..63, slice 0..7) of a code in its tile, straight from the module's text."""
    if keys:
        lane, byte, part = token % 16, channel % 4, 4 * (token // 16) + channel // 4
    else:
        lane, byte, part = channel, token % 4, token // 4
    return 4 * lane + byte, part


def pack_by_hand(codes: np.ndarray, bits: int, keys: bool) -> bytes:
    """One (32, 16) tile, one bit at a time: bit b of slice s is bit (bits*s + b) of its byte column."""
    rows = [[0] * 64 for _ in range(bits)]
    for token in range(32):
        for channel in range(16):
            position, part = place(token, channel, keys)
            for b in range(bits):
                if (int(codes[token, channel]) >> b) & 1:
                    row, bit = divmod(bits * part + b, 8)
                    rows[row][position] |= 1 << bit
    return bytes(x for row in rows for x in row)


@pytest.mark.parametrize("keys", [True, False])
@pytest.mark.parametrize("bits", BITS)
def test_against_the_bit_by_bit_oracle(bits: int, keys: bool) -> None:
    codes = np.random.default_rng(bits).integers(0, 1 << bits, (32, 16), dtype=np.uint8)
    got = tiles.pack_stream(codes, np.array([bits], np.uint8), keys)
    assert got.tobytes() == pack_by_hand(codes, bits, keys)


# (token, channel): which byte of the tile the code 1 sets, and to what, at 2, 3 and 4 bits. Byte = 64 * row + 4 * lane + byte.
BY_HAND = {
    True: {  # keys: lane = token % 16, byte = channel % 4, slice = 4 * (token // 16) + channel // 4
        (0, 0): [(0, 0x01), (0, 0x01), (0, 0x01)],  # slice 0
        (5, 6): [(22, 0x04), (22, 0x08), (22, 0x10)],  # lane 5, byte 2, slice 1
        (16, 0): [(64, 0x01), (64, 0x10), (128, 0x01)],  # lane 0, slice 4: bit 8, 12, 16
        (31, 15): [(127, 0x40), (191, 0x20), (255, 0x10)],  # lane 15, byte 3, slice 7: bit 14, 21, 28
        (18, 9): [(73, 0x10), (137, 0x04), (201, 0x01)],  # lane 2, byte 1, slice 6: bit 12, 18, 24
    },
    False: {  # values: lane = channel, byte = token % 4, slice = token // 4
        (0, 0): [(0, 0x01), (0, 0x01), (0, 0x01)],
        (5, 6): [(25, 0x04), (25, 0x08), (25, 0x10)],  # lane 6, byte 1, slice 1
        (16, 0): [(64, 0x01), (64, 0x10), (128, 0x01)],  # slice 4
        (31, 15): [(127, 0x40), (191, 0x20), (255, 0x10)],
        (11, 3): [(15, 0x10), (15, 0x40), (79, 0x01)],  # lane 3, byte 3, slice 2: bit 4, 6, 8
    },
}


@pytest.mark.parametrize("keys", [True, False])
@pytest.mark.parametrize("column, bits", list(enumerate(BITS)))
def test_bytes_spelled_out(column: int, bits: int, keys: bool) -> None:
    for (token, channel), expected in BY_HAND[keys].items():
        codes = np.zeros((32, 16), np.uint8)
        codes[token, channel] = 1
        packed = tiles.pack_stream(codes, np.array([bits], np.uint8), keys)
        where, byte = expected[column]
        assert np.flatnonzero(packed).tolist() == [where], (token, channel)
        assert packed[where] == byte, (token, channel)


def test_a_three_bit_code_that_crosses_rows() -> None:
    """Slice 2 at 3 bits holds bits 6, 7 of row 0 and bit 0 of row 1."""
    codes = np.zeros((32, 16), np.uint8)
    codes[0, 8] = 0b111  # key: lane 0, byte 0, slice 2
    packed = tiles.pack_stream(codes, np.array([3], np.uint8), keys=True)
    assert {int(i): int(packed[i]) for i in np.flatnonzero(packed)} == {0: 0xC0, 64: 0x01}


@pytest.mark.parametrize("bits", BITS)
def test_every_code_value_in_every_place(bits: int) -> None:
    """All 2^b values pass through all 512 places of a tile."""
    widths = np.array([bits], np.uint8)
    for shift in range(1 << bits):
        codes = ((np.arange(512, dtype=np.uint32).reshape(32, 16) + shift) % (1 << bits)).astype(np.uint8)
        for keys in (True, False):
            np.testing.assert_array_equal(
                tiles.unpack_stream(tiles.pack_stream(codes, widths, keys), widths, keys), codes
            )


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    widths=st.lists(st.sampled_from(BITS), min_size=1, max_size=7),
    n_tiles=st.integers(0, 5),
    keys=st.booleans(),
    seed=st.integers(0, 999),
)
def test_round_trip_of_mixed_widths(widths: list[int], n_tiles: int, keys: bool, seed: int) -> None:
    w = np.array(widths, np.uint8)
    limits = np.repeat(1 << w.astype(np.int64), 16)
    codes = (np.random.default_rng(seed).integers(0, 1 << 30, (32 * n_tiles, 16 * len(w))) % limits).astype(
        np.uint8
    )
    packed = tiles.pack_stream(codes, w, keys)
    assert packed.size == n_tiles * tiles.tile_bytes(w) == n_tiles * 64 * sum(widths)
    np.testing.assert_array_equal(tiles.unpack_stream(packed, w, keys), codes)


@pytest.mark.parametrize("keys", [True, False])
def test_tiles_and_groups_follow_one_another(keys: bool) -> None:
    """A stream is tile after tile, and in a tile group after group: [tile0 group0 | tile0 group1 | tile1 group0 | ...]."""
    widths = np.array([4, 3, 2], np.uint8)
    codes = np.random.default_rng(9).integers(0, 4, (64, 48), dtype=np.uint8)
    want = b"".join(
        pack_by_hand(codes[t : t + 32, 16 * g : 16 * g + 16], int(w), keys)
        for t in (0, 32)
        for g, w in enumerate(widths)
    )
    assert tiles.pack_stream(codes, widths, keys).tobytes() == want


def test_bits_per_channel_follow_from_the_bytes() -> None:
    for rate in (2.0, 2.5, 3.0, 3.5, 4.0):
        assert 8 * tiles.tile_bytes(widths_for(rate, 96)) == 32 * 96 * rate


def test_bad_codes_are_refused_before_they_touch_their_neighbours() -> None:
    widths = np.array([3, 2], np.uint8)
    codes = np.zeros((32, 32), np.uint8)
    codes[3, 20] = 4
    with pytest.raises(TqError, match="^codes: expected below 4 in channel group 1, got 4"):
        tiles.pack_stream(codes, widths, keys=True)
    for shape in ((31, 32), (32, 48), (32,)):
        with pytest.raises(TqError, match=r"^codes: expected shape \(a multiple of 32, 32\)"):
            tiles.pack_stream(np.zeros(shape, np.uint8), widths, keys=False)
