"""The codecs of best-turbo on vectors whose best treatment is known."""

from __future__ import annotations

import numpy as np
import pytest

from tq_core.codecs.arms import get_arm
from tq_core.codecs.calibration import Calibration
from tq_core.codecs.fit import fit_arm
from tq_core.codecs.shaped import ShapedKeys, ShapedValues
from tq_core.codecs.shaped_fit import fit_shaped_keys, fit_shaped_values
from tq_core.codecs.turboquant import TurboKeys, TurboValues
from tq_core.errors import CodecError, DTypeError, ShapeError, ValueRangeError
from tq_core.tests.codecs.measure import decoded, gaussian, logit_error, relative_mse

D = 64
LOUD = np.exp(np.linspace(-1.5, 1.5, D)).astype(np.float32)  # channels of keys, from quiet to loud
ASKED = np.exp(1.5 * np.sin(np.arange(D))).astype(np.float32)  # channels that queries look at
OFFSET = np.where(np.arange(D) % 16 == 3, 12, 0).astype(np.float32)


def keys(n: int, seed: int) -> np.ndarray:
    """(n, 1, D) with loud channels and an offset."""
    return gaussian(n, 1, D, seed) * LOUD + OFFSET


def queries(n: int, seed: int) -> np.ndarray:
    return gaussian(n, 1, D, seed) * ASKED


CALIBRATION = fit_shaped_keys(keys(2000, 1)[None], queries(2000, 2)[None])


@pytest.mark.parametrize("bits", [2, 3, 4])
def test_scores_of_unseen_keys_are_several_times_better(bits: int) -> None:
    """Against structured TurboQuant at the same bits: the error's variance falls by over five."""
    x, q = keys(400, 3), queries(8, 4)[:, 0]
    shaped, plain = ShapedKeys(bits, CALIBRATION), TurboKeys(bits=bits)
    assert logit_error(shaped, x, q) ** 2 < logit_error(plain, x, q) ** 2 / 5
    assert shaped.streams(D) == plain.streams(D) and shaped.nominal_bits(D) == plain.nominal_bits(D)


def test_both_halves_and_the_offset_help() -> None:
    """Without the metric, without the map, without the offset: each time scores are worse."""
    x, q = keys(400, 3), queries(8, 4)[:, 0]
    best = logit_error(ShapedKeys(3, CALIBRATION), x, q)
    arrays = CALIBRATION.arrays
    identity = np.broadcast_to(np.eye(D, dtype=np.float32), arrays["map"].shape)
    second = (
        arrays["map"] @ arrays["metric"] @ np.swapaxes(arrays["map"], 2, 3)
    )  # what queries see of plain keys
    faults = {
        "metric": {**arrays, "metric": identity},
        "map": {
            **arrays,
            "map": identity,
            "query_map": identity,
            "metric": second / np.trace(second[0, 0]) * D,
        },
        "offset": {**arrays, "offset": 0 * arrays["offset"]},
    }
    for name, changed in faults.items():
        worse = logit_error(ShapedKeys(3, Calibration(CALIBRATION.method, D, changed)), x, q)
        assert worse > 1.1 * best, name


def test_every_head_is_fitted_to_its_own_queries_and_keys() -> None:
    """Two layers of two KV heads, three query heads each, all different: a mix-up of any of them costs its scores."""
    loud = [np.roll(LOUD, 16 * i) for i in range(4)]
    asked = [np.roll(ASKED, 5 * i) for i in range(4)]
    k = np.stack(
        [
            np.concatenate([gaussian(900, 1, D, 20 + i) * loud[i] for i in pair], 1)
            for pair in ((0, 1), (2, 3))
        ]
    )
    q = np.stack(
        [
            np.concatenate([gaussian(900, 3, D, 30 + i) * asked[i] for i in pair], 1)
            for pair in ((0, 1), (2, 3))
        ]
    )
    arrays = fit_shaped_keys(k, q).arrays
    for i in range(4):
        alone = fit_shaped_keys(
            k[i // 2, :, i % 2][None, :, None], q[i // 2, :, 3 * (i % 2) : 3 * (i % 2) + 3][None]
        ).arrays
        for name, array in alone.items():
            assert np.allclose(arrays[name][i // 2, i % 2], array[0, 0], rtol=1e-4, atol=1e-5), (name, i)
    metrics = arrays["metric"].reshape(4, D, D)
    assert all(not np.allclose(metrics[0], m, rtol=0.1, atol=0.1) for m in metrics[1:])


def test_values_are_closer_where_channels_differ() -> None:
    v = gaussian(2000, 1, D, 5) * LOUD
    codec = ShapedValues(3, fit_shaped_values(v[None]))
    unseen = gaussian(400, 1, D, 6) * LOUD
    assert relative_mse(codec, unseen) < 0.6 * relative_mse(TurboValues(bits=3), unseen)


def test_channels_that_were_dead_in_calibration_break_nothing() -> None:
    """A channel that was zero throughout, then is not: a defined, finite result of a sane size."""
    x = keys(200, 1)
    x[..., 5] = 0
    codec = ShapedKeys(4, fit_shaped_keys(x[None], queries(200, 2)[None]))
    alive = keys(64, 3)
    out = decoded(codec, alive)
    assert np.isfinite(out).all() and np.linalg.norm(out - alive) < np.linalg.norm(alive)


def test_bad_calibration_data_is_refused() -> None:
    k, q = keys(40, 1)[None], queries(40, 2)[None]
    with pytest.raises(ShapeError, match="32 tokens or more"):
        fit_shaped_keys(k[:, :31], q)
    with pytest.raises(ShapeError, match="^queries: expected"):
        fit_shaped_keys(np.repeat(k, 2, axis=2), np.repeat(q, 3, axis=2))
    with pytest.raises(DTypeError, match="float32"):
        fit_shaped_values(k.astype(np.float64))
    with pytest.raises(ValueRangeError, match="finite"):
        fit_shaped_values(np.where(np.arange(D) == 3, np.nan, k).astype(np.float32))
    with pytest.raises(CodecError, match="^queries: expected those that read the keys"):
        fit_arm("best-turbo", k, k)
    arm = fit_arm("best-turbo", k, k, queries=q)
    swapped = {"key_calibration": arm.value_codec.calibration, "value_calibration": arm.key_codec.calibration}
    with pytest.raises(CodecError, match="^calibration: expected a Calibration fitted for shaped-keys"):
        get_arm("best-turbo", **swapped)
    with pytest.raises(CodecError, match="^passes: expected 0..16 sweeps"):
        fit_arm("best-turbo", k, k, queries=q, passes=-1)
