"""KVQuant: points, thresholds, outliers, RoPE undone, and why each of them is there."""

from __future__ import annotations

import numpy as np
import pytest

from tq_core.codecs.kivi import KiviKeys
from tq_core.codecs.kvquant import FREE, KVQuantKeys, largest_excesses
from tq_core.codecs.kvquant_fit import fit_kvquant_keys, fit_kvquant_values
from tq_core.codecs.kvquant_values import KVQuantValues, outliers_per_token, split_outliers
from tq_core.codecs.rows import halves
from tq_core.errors import CodecError, ShapeError, ValueRangeError
from tq_core.math.nuq import fit_points, nearest
from tq_core.math.rotary import Rotary
from tq_core.model.rope import RopeTable
from tq_core.tests.codecs.measure import all_in_bits, bench_for, decoded, gaussian, logit_error, relative_mse

ROTARY = Rotary()


def rope_keys(ratio: float, n: int = 1024, seed: int = 4) -> np.ndarray:
    """(n, 1, 128) Gaussian keys with an offset in six channels, ``ratio`` times as long as they, after RoPE."""
    offset = np.zeros(128, np.float32)
    offset[[3, 20, 50, 70, 100, 120]] = [1, -1, 1, -1, 1, 1]
    offset *= np.float32(ratio * np.sqrt(128 / 6))
    return ROTARY.rotate(gaussian(n, seed=seed) + offset, np.arange(n))


@pytest.mark.parametrize("pairing", ["adjacent", "half"])
def test_rotary_is_the_models_and_its_inverse(pairing: str) -> None:
    x, table = gaussian(40, 3, 64), RopeTable.build(100, 64, 1e5)
    rotary = Rotary(1e5, pairing)
    want = {"adjacent": table.rotate_adjacent, "half": table.rotate_half_split}[pairing](x, 7)
    got = rotary.rotate(x, 7 + np.arange(40))
    assert np.array_equal(got, want)
    assert np.allclose(rotary.rotate(got, 7 + np.arange(40), inverse=True), x, atol=2e-6)
    assert not np.allclose(
        Rotary(1e5, {"half": "adjacent"}.get(pairing, "half")).rotate(x, 7 + np.arange(40)), want
    )
    for bad in ({"theta": 0}, {"theta": np.inf}, {"pairing": "x"}, {"theta": True}):
        with pytest.raises(ValueRangeError, match="^(theta|pairing)"):
            Rotary(**bad)  # type: ignore[arg-type]


def test_points_on_gaussian_data_are_lloyd_maxs() -> None:
    x = np.random.default_rng(1).standard_normal(400_000)
    for count, largest, distortion in ((4, 1.5104, 0.11748), (8, 2.1519, 0.034548)):
        points = fit_points(x, count)
        assert points[-1] == pytest.approx(largest, rel=0.02)
        assert ((points[nearest(x, points)] - x) ** 2).mean() == pytest.approx(distortion, rel=0.01)


def test_weights_pull_points_and_bad_ones_are_refused() -> None:
    x = np.concatenate([np.linspace(0, 1, 1000), np.linspace(9, 10, 1000)])
    heavy = np.where(x > 5, 100.0, 1.0)
    assert (fit_points(x, 4, heavy) > 5).sum() > 2 == (fit_points(x, 4) > 5).sum()
    assert fit_points(np.full(10, 3.0), 4).tolist() == [3.0] * 4
    with pytest.raises(ShapeError, match="^values: expected 4"):
        fit_points(x[:3], 4)
    with pytest.raises(ShapeError, match="^weights"):
        fit_points(x, 4, heavy[:5])
    for bad in (-heavy, 0 * heavy, heavy * np.nan):
        with pytest.raises(ValueRangeError, match="^weights"):
            fit_points(x, 4, bad)
    with pytest.raises(ShapeError, match="^weights"):
        fit_kvquant_keys(gaussian(200)[None], None, gaussian(100)[None])


@pytest.mark.parametrize("bits", [2, 3, 4])
def test_bits_all_in(bits: int) -> None:
    vectors = gaussian(256)[None]
    keys, values = (
        KVQuantKeys(fit_kvquant_keys(vectors, None), bits),
        KVQuantValues(fit_kvquant_values(vectors), bits),
    )
    assert all_in_bits(keys, 128) == bits + 32 * 40 / (32 * 128)  # 1 % of each 32 tokens: 0.3125
    assert outliers_per_token(128) == 2 and all_in_bits(values, 128) == bits + (32 + 2 * 32) / 128


def test_undoing_rope_makes_the_offset_harmless() -> None:
    """Post-RoPE thresholds must span the turned offset; before RoPE it is a constant per channel."""
    q, plain = gaussian(32, seed=6)[:, 0], None
    for ratio in (0, 5, 15):
        x = rope_keys(ratio)
        before = logit_error(KVQuantKeys(fit_kvquant_keys(x[None], ROTARY), 3, ROTARY), x, q)
        plain = plain or before
        assert before == pytest.approx(plain, rel=0.05)
        if ratio:
            after = logit_error(KVQuantKeys(fit_kvquant_keys(x[None], None), 3), x, q)
            assert after > 2 * before
            assert logit_error(KiviKeys(2), x, q) > 1.5 * before


def test_outliers_are_kept_exactly_and_the_room_goes_to_the_largest() -> None:
    vectors = gaussian(512)
    codec = KVQuantKeys(fit_kvquant_keys(vectors[None], None), 3)
    x = gaussian(64, seed=9)
    x[5, 0, 17], x[40, 0, 100] = 30, -50
    got = decoded(codec, x)
    assert (got[5, 0, 17], got[40, 0, 100]) == (30, -50)
    crowded = x.copy()
    crowded[3, 0, :] = np.arange(128) + 20  # more than there is room for: 40 in a group
    got = decoded(codec, crowded)
    assert np.array_equal(got[3, 0, -39:], crowded[3, 0, -39:]) and got[3, 0, 0] < 5
    without = relative_mse(codec, x)
    x[5, 0, 17] = x[40, 0, 100] = 0
    assert without < 1.2 * relative_mse(codec, x)


def test_largest_excesses_layout() -> None:
    x = np.arange(8, dtype=np.float32).reshape(1, 1, 8)
    excess = np.array([[[0, 0, 5, 0, 0, 1, 9, 0]]], np.float32)
    kept, indices = largest_excesses(x, excess, 4, 5)
    assert halves(kept)[0, 0].tolist() == [2, 5, 6, 0, 0]
    index = indices.view(np.uint16)[0, 0]
    assert index.tolist() == [2, 1 << 10 | 1, 1 << 10 | 2, FREE, FREE]
    kept, indices = largest_excesses(x, excess, 4, 2)
    assert halves(kept)[0, 0].tolist() == [2, 6]


def test_value_outliers_do_not_widen_the_range() -> None:
    x = gaussian(512)
    x[:, 0, 7] = 40
    channels, low, high = split_outliers(x)
    assert (channels == 7).any(axis=-1).all() and high.max() < 6 and low.min() > -6
    codec = KVQuantValues(fit_kvquant_values(x[None]), 3)
    got = decoded(codec, x)
    assert (got[:, 0, 7] == 40).all()
    assert float(((got - x)[:, 0, :7] ** 2).mean()) < 0.04


def test_points_beat_even_steps_and_q_norm_keeps_the_deviation() -> None:
    x = gaussian(2048)
    calibration = fit_kvquant_values(x[None])
    assert relative_mse(KVQuantValues(calibration, 3), x) < 0.8 * 0.0457  # KIVI's even steps, groups of 128
    points, outputs = (calibration.arrays[f"{k}_2"][0, 0] for k in ("points", "outputs"))
    assert np.ptp(outputs) > np.ptp(points) and np.array_equal(
        calibration.arrays["points_3"], calibration.arrays["outputs_3"]
    )
    got = decoded(KVQuantValues(calibration, 2), x)
    assert float(got.std()) == pytest.approx(float(x.std()), rel=0.02)


def test_bad_codecs() -> None:
    calibration = fit_kvquant_values(gaussian(256, 1, 32)[None])
    for build in (
        lambda: KVQuantValues(calibration, 5), lambda: KVQuantKeys(calibration, 3), lambda: KVQuantValues(None, 3),  # type: ignore[arg-type]
    ):  # fmt: skip
        with pytest.raises(CodecError, match="^(bits|calibration): expected"):
            build()
    bench = bench_for(KVQuantValues(calibration), gaussian(4, 1, 48))
    with pytest.raises(ShapeError, match="^calibration: expected one for head_dim 48, got 32"):
        bench.store(gaussian(4, 1, 48))
