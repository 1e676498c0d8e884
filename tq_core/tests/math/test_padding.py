"""Head sizes that are no power of two: what padding costs when it is done right, and what it loses when it is cut off."""

from __future__ import annotations

import numpy as np
import pytest

from tq_core.math.hadamard import fwht
from tq_core.math.lloyd_max import lloyd_max
from tq_core.math.prng import rademacher
from tq_core.math.rotation import StructuredRotation
from tq_core.math.scalar import nearest


def kept_map(d: int, p: int, seed: int = 3) -> np.ndarray:
    """(d, d) float64: pad to p, signs, FWHT, keep d outputs."""
    eye = np.zeros((d, p), np.float32)
    eye[:, :d] = np.diag(rademacher(seed, d))
    return (fwht(eye)[:, :d] / np.float32(np.sqrt(p))).T.astype(np.float64)


# d, p, error of A^t A x, of p/d A^t A x, slope of <Aq, Ak>, singular values and how many there are of each
CUT = [
    (80, 128, 0.253, 0.287, 0.625, {1.0: 32, 0.7071: 32, 0.3536: 16}),
    (96, 128, 0.188, 0.222, 0.75, {1.0: 64, 0.5: 32}),
    (112, 128, 0.109, 0.123, 0.875, {1.0: 96, 0.3536: 16}),
    (160, 256, 0.254, 0.289, 0.625, {1.0: 64, 0.7071: 64, 0.3536: 32}),
]
ROOT_SCORE_ERROR = {80: 0.51, 96: 0.44, 112: 0.34, 160: 0.51}


@pytest.mark.parametrize("d, p, raw, rescaled, slope, singular", CUT)
def test_cut_off_padding_loses_before_anything_is_coded(
    d: int, p: int, raw: float, rescaled: float, slope: float, singular: dict[float, int]
) -> None:
    a, rng = kept_map(d, p), np.random.default_rng(d)
    x, q = rng.standard_normal((2, 4000, d))
    back = x @ a.T @ a
    energy = (x**2).sum()
    # The table is of random draws of the signs; a spread of a few percent lies between them.
    assert ((back - x) ** 2).sum() / energy == pytest.approx(raw, rel=0.08)
    assert ((back * p / d - x) ** 2).sum() / energy == pytest.approx(rescaled, rel=0.08)
    got, want = ((q @ a.T) * (x @ a.T)).sum(axis=1), (q * x).sum(axis=1)
    assert float(got @ want / (want @ want)) == pytest.approx(slope, abs=0.02)
    assert np.sqrt(((got - want) ** 2).mean() / (want**2).mean()) == pytest.approx(
        ROOT_SCORE_ERROR[d], abs=0.03
    )
    values = np.linalg.svd(a, compute_uv=False)
    assert {size: int((np.abs(values - size) < 2e-4).sum()) for size in singular} == singular


@pytest.mark.parametrize("d", [80, 96, 112, 160])
def test_the_paley_rotation_of_the_same_size_loses_nothing(d: int) -> None:
    x = np.random.default_rng(d).standard_normal((50, d)).astype(np.float32)
    rotate = StructuredRotation(d, 3)
    np.testing.assert_allclose(rotate.inverse(rotate.forward(x)), x, atol=2e-6)


def padded_error(d: int, p: int, levels: int, n: int = 6000) -> float:
    """Relative error with S = 1 of pad, signs, FWHT, code all p, transform back, cut."""
    x = np.random.default_rng(d).standard_normal((n, d))
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    padded = np.zeros((n, p), np.float32)
    padded[:, :d] = unit * rademacher(5, d)
    book = lloyd_max(levels)
    boundaries = (book.centroids[1:] + book.centroids[:-1]) / 2
    coded = book.centroids[nearest(fwht(padded), boundaries)].astype(np.float32)
    back = fwht(coded)[:, :d] / np.float32(p) * rademacher(5, d)
    return float(((back - unit) ** 2).sum() / n)


@pytest.mark.parametrize(
    "d, p, two_bits, three_bits",
    [
        (80, 128, 0.079, 0.0216),
        (96, 128, 0.090, 0.0257),
        (112, 128, 0.103, 0.0299),
        (160, 256, 0.080, 0.0220),
    ],
)
def test_padding_done_right_never_pays(d: int, p: int, two_bits: float, three_bits: float) -> None:
    """D^2 + D (1 - D) d / p: the shrink stays inside the subspace. More bits in an exact transform do better."""
    for levels, want in ((4, two_bits), (8, three_bits)):
        seen, distortion = padded_error(d, p, levels), lloyd_max(levels).distortion
        assert seen == pytest.approx(distortion**2 + distortion * (1 - distortion) * d / p, rel=0.03)
        assert seen == pytest.approx(want, rel=0.03)
        assert seen > 1.05 * at_rate(np.log2(levels) * p / d)


def at_rate(bits: float) -> float:
    """Error of an exact transform whose coordinates mix the two nearest whole rates."""
    low = int(bits)
    share = bits - low
    below, above = (lloyd_max(1 << b).distortion for b in (low, low + 1))
    return (1 - share) * below + share * above


def test_fast_turboquants_padding_buys_its_gain_with_bits() -> None:
    """768 -> 1024 channels: .3056 at "one bit" is 1.333 bits per channel, and mixed rates give .2814 for as many."""
    distortion = lloyd_max(2).distortion
    padded = distortion**2 + distortion * (1 - distortion) * 0.75
    assert padded == pytest.approx(0.3056, abs=2e-4) and padded_error(768, 1024, 2, 400) == pytest.approx(
        padded, rel=0.02
    )
    assert at_rate(4 / 3) == pytest.approx(0.2814, abs=2e-4)


def test_only_neighbouring_rates_are_worth_mixing() -> None:
    """After a rotation channels are alike, so half of the channels at each of two rates is time sharing on a convex curve."""
    d = {b: lloyd_max(1 << b).distortion for b in (1, 2, 3, 4)}
    mixed = {(2, 3): 0.0760, (3, 4): 0.02202}
    for (low, high), want in mixed.items():
        assert (d[low] + d[high]) / 2 == pytest.approx(want, rel=1e-3)
    assert (d[1] + d[4]) / 2 == pytest.approx(0.186, abs=1e-3)
    # Before a rotation a split pays by the energy that 32 of 128 channels hold.
    for share, want in ((0.25, 0.0967), (0.5, 0.0760), (0.77, 0.0536), (0.9, 0.0428)):
        assert share * d[3] + (1 - share) * d[2] == pytest.approx(want, abs=2e-4)
