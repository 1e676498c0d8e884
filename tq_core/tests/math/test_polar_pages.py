"""PolarQuant's page: codes come back, no bit is wasted, and coordinates are those of the recursion."""

from __future__ import annotations

import numpy as np
import pytest

from tq_core.math.polar import LEVEL_BITS, LEVEL_CODES, from_polar, to_polar
from tq_core.math.polar_pages import (
    BLOCK_BYTES,
    coordinates,
    cosine_table,
    pack_codes,
    put_codes,
    unpack_codes,
)


def drawn(n: int, blocks: int, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    sizes = zip(LEVEL_BITS, LEVEL_CODES)
    return [rng.integers(0, 1 << b, (n, blocks, count)).astype(np.uint8) for b, count in sizes]


@pytest.mark.parametrize("blocks", [1, 3, 8])
def test_round_trip_and_every_bit_is_used(blocks: int) -> None:
    codes = drawn(128, blocks, 1)
    raw = pack_codes(codes)
    assert raw.shape == (blocks, BLOCK_BYTES) and 8 * BLOCK_BYTES == 128 * 46
    for want, got in zip(codes, unpack_codes(raw), strict=True):
        np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(pack_codes(unpack_codes(~raw)), ~raw)


@pytest.mark.parametrize("slots", [slice(0, 128), slice(5, 6), slice(13, 40), slice(112, 128), slice(7, 7)])
def test_codes_of_some_slots(slots: slice) -> None:
    raw = np.random.default_rng(2).integers(0, 256, (3, BLOCK_BYTES), dtype=np.uint8)
    want, new = unpack_codes(raw), drawn(slots.stop - slots.start, 3, 3)
    for stored, part in zip(want, new, strict=True):
        stored[slots] = part
    put_codes(raw, slots, new)
    for a, b in zip(want, unpack_codes(raw), strict=True):
        np.testing.assert_array_equal(a, b)


def test_coordinates() -> None:
    y = np.random.default_rng(4).standard_normal((128, 2, 16))
    codes, radii = to_polar(y)
    got = coordinates(codes, radii[..., 0].astype(np.float32), cosine_table())
    np.testing.assert_allclose(got, from_polar(codes, radii).reshape(128, 32), atol=3e-6)
