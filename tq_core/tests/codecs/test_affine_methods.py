"""KIVI, FlexGen, QuaRot and QServe against published errors and bit counts, and what their public versions get wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tq_core.codecs.flexgen import FlexGenKeys, FlexGenValues, swap_pairs
from tq_core.codecs.kivi import KiviKeys, KiviValues
from tq_core.codecs.qserve import QServeKeys, QServeValues, fit_smoothing
from tq_core.codecs.quarot import QuaRotKeys, QuaRotValues, hadamard
from tq_core.codecs.spinquant import SpinQuantKeys
from tq_core.errors import CodecError, ValueRangeError
from tq_core.math.rotary import Rotary
from tq_core.tests.codecs.measure import (
    all_in_bits,
    bench_for,
    decoded,
    gaussian,
    logit_error,
    offset_keys,
    relative_mse,
)


@pytest.mark.parametrize(
    "group, bits, mse",
    [(32, 2, 0.1544), (64, 2, 0.2027), (128, 2, 0.2507), (32, 3, 0.0281), (64, 3, 0.0369), (128, 3, 0.0457)]
    + [(32, 4, 0.00612), (64, 4, 0.00803), (128, 4, 0.00994)],
)
def test_kivi_error_on_gaussian_tokens(group: int, bits: int, mse: float) -> None:
    for codec in (KiviKeys(bits, group), KiviValues(bits, group)):
        assert relative_mse(codec, gaussian(4096)) == pytest.approx(mse, rel=0.02)
        assert all_in_bits(codec, 128) == bits + 32 / group


@pytest.mark.parametrize(
    "codec, mse",
    [
        (QuaRotKeys(), 0.00994),
        (QuaRotValues(clip=0.95), 0.00925),
        (SpinQuantKeys(), 0.00994),
        (QServeKeys(), 0.00994),
        (QServeValues(symmetric=True), 0.01377),
        (FlexGenKeys(), 0.00803),
        (FlexGenValues(128), 0.00994),
    ],
)
def test_four_bits_on_gaussian_tokens(codec: Any, mse: float) -> None:
    assert relative_mse(codec, gaussian(4096)) == pytest.approx(mse, rel=0.02)


@pytest.mark.parametrize(
    "codec, bits",
    [(QuaRotKeys(), 4.25), (QuaRotValues(3), 3.25), (SpinQuantKeys(), 4.25), (QServeKeys(), 4.25)]
    + [
        (QServeKeys(8), 8.25),
        (QServeValues(symmetric=True), 4.125),
        (FlexGenKeys(), 4.5),
        (FlexGenValues(32), 5.0),
    ],
)
def test_all_in_bits(codec: Any, bits: float) -> None:
    assert all_in_bits(codec, 128) == bits


def test_keys_with_offset_channels() -> None:
    """Per channel beats per token at half the bits; a rotation repairs the latter."""
    x, q = offset_keys(), gaussian(32, seed=3)[:, 0]
    assert relative_mse(QServeKeys(), x) == pytest.approx(0.0619, rel=0.05)
    assert relative_mse(QuaRotKeys(), x) < 0.0085
    per_channel, per_token = logit_error(KiviKeys(2), x, q), logit_error(QServeKeys(), x, q)
    assert per_channel == pytest.approx(0.41, rel=0.1) and per_token > 1.3 * per_channel
    assert logit_error(QuaRotKeys(), x, q) < per_token / 2.5


def test_a_group_of_one_token_is_not_possible() -> None:
    """Planted: keys coded one token at a time have equal minimum and maximum, so "2 bits" that lose nothing."""
    from tq_core.math.affine import dequantize_groups, quantize_groups

    x = gaussian(32)[:, 0].astype(np.float16).astype(np.float32)
    lossless = np.concatenate([dequantize_groups(*quantize_groups(row[None], 2, axis=0)) for row in x])
    assert np.array_equal(lossless, x)
    bench = bench_for(KiviKeys(2), gaussian(32))
    with pytest.raises(CodecError, match="^first: expected whole groups of 32 tokens"):
        KiviKeys(2).append(bench.backend, bench.pages(32), 0, gaussian(1))


def test_flexgen_survives_what_divides_by_zero_in_the_published_code() -> None:
    x = np.full((3, 1, 64), 2.5, np.float32)
    x[1, 0, 0] += 1e-4  # 15 / range leaves float16
    x[2, 0, :] = np.linspace(-60000, 60000, 64) / 8
    with np.errstate(all="ignore"):
        scale = (15 / (x.max(axis=2) - x.min(axis=2))).astype(np.float16).astype(np.float32)
        published = (
            np.rint((x - x.min(axis=2)[..., None]) * scale[..., None]) / scale[..., None]
            + x.min(axis=2)[..., None]
        )
    assert np.isnan(published[:2]).any(axis=(1, 2)).all()
    got = decoded(FlexGenKeys(), x)
    assert np.isfinite(got).all() and np.abs(got[:2] - 2.5).max() < 1e-3


def test_flexgen_last_group_is_not_padded_with_zeros() -> None:
    """head_dim 80 is 64 + 16: with zeros in its 48 missing channels the last group's range would begin at 0."""
    x = (100 + gaussian(64, 1, 80)).astype(np.float16).astype(np.float32)
    worst = np.abs(decoded(FlexGenValues(), x) - x)[..., 64:].max()
    assert worst < 0.3 < 0.5 * 100 / 15


def test_flexgen_even_channel_is_in_the_high_nibble() -> None:
    x = np.arange(16, dtype=np.float32)[None, None]
    bench = bench_for(FlexGenKeys(), x)
    row = bench.store(x).stack("key_codes", 1)[0, 0, :8]
    assert row.tolist() == [16 * 2 * i + 2 * i + 1 for i in range(8)]
    assert swap_pairs(np.arange(6, dtype=np.uint8)).tolist() == [1, 0, 3, 2, 5, 4]


def test_quarot_zero_points_differ_by_up_to_half_a_step() -> None:
    x = gaussian(400)
    exact, whole = decoded(QuaRotKeys(), x), decoded(QuaRotKeys(zero="integer"), x)
    rotated = np.stack([hadamard(a) for a in (exact, whole)])
    step = np.ptp(hadamard(x), axis=2, keepdims=True) / 15
    difference = np.abs(rotated[0] - rotated[1]) / step
    assert 0.3 < difference.max() < 1.2  # half a step in the grid, and then the other rounding


def test_quarot_constant_becomes_one_spike_and_stays() -> None:
    x = np.full((2, 1, 128), 2.5, np.float32)
    spike = hadamard(x)
    assert spike[0, 0, 0] == pytest.approx(2.5 * np.sqrt(128)) and np.abs(spike[..., 1:]).max() < 1e-5
    assert np.allclose(decoded(QuaRotKeys(), x), x, rtol=2e-3)


@pytest.mark.parametrize("head_dim", [48, 80, 112, 128])
def test_hadamard_is_orthogonal(head_dim: int) -> None:
    h = hadamard(np.eye(head_dim, dtype=np.float32))
    assert np.allclose(h @ h.T, np.eye(head_dim), atol=1e-6)
    assert np.allclose(
        hadamard(hadamard(gaussian(3, 1, head_dim)), inverse=True), gaussian(3, 1, head_dim), atol=1e-5
    )


@pytest.mark.parametrize(
    "bad", [{"bits": 5}, {"zero": "half"}, {"clip": 0.2}, {"clip": 0.95, "bits": 8}, {"bits": "4"}]
)
def test_bad_fields(bad: dict[str, Any]) -> None:
    with pytest.raises(CodecError, match="^(bits|zero|clip): expected"):
        QuaRotKeys(**bad)
    for build in (
        lambda: QServeKeys(3),
        lambda: FlexGenKeys(48),
        lambda: KiviKeys(2, 16),
        lambda: QServeValues(4, 1),
    ):  # type: ignore[arg-type]
        with pytest.raises(CodecError, match="^(bits|group|symmetric): expected"):
            build()


def test_qserve_zero_point_that_leaves_float16() -> None:
    """A range far smaller than the minimum: the published z is infinite, or 32 codes coarse."""
    x = np.full((4, 1, 64), 2.5, np.float32)
    x[1] += np.linspace(0, 5e-4, 64, dtype=np.float32)
    x[2] = -x[1]
    x[3] = 0
    got = decoded(QServeKeys(), x)
    assert np.isfinite(got).all() and np.abs(got - x).max() < 2e-3 and not got[3].any()


@pytest.mark.parametrize("pairing", ["adjacent", "half"])
def test_smooth_attention_is_exact_before_quantization(pairing: str) -> None:
    """<q lambda, k / lambda> = <q, k>; and folded before RoPE only because pairs share lambda."""
    rotary, n, d = Rotary(10000.0, pairing), 50, 64
    x = offset_keys(n)[..., :d] * np.float32(3)
    lam = fit_smoothing(x[None], pairing=pairing).arrays["lambda"][0]
    q, at = gaussian(n, 1, d, seed=5), np.arange(n)
    plain = np.einsum("qhd,khd->qk", rotary.rotate(q, at), rotary.rotate(x, at))
    folded = np.einsum("qhd,khd->qk", rotary.rotate(q * lam, at), rotary.rotate(x / lam, at))
    assert np.allclose(plain, folded, atol=2e-3)
    unequal = np.maximum(np.abs(x).max(axis=0), 1e-3) ** np.float32(0.5)
    broken = np.einsum("qhd,khd->qk", rotary.rotate(q * unequal, at), rotary.rotate(x / unequal, at))
    assert np.abs(plain - broken).max() > 1


def test_smoothing_helps_keys_with_outlier_channels() -> None:
    x, q = offset_keys(1024), gaussian(32, seed=3)[:, 0]
    smooth = fit_smoothing(offset_keys(512, seed=9)[None])
    assert logit_error(QServeKeys(calibration=smooth), x, q) < 0.7 * logit_error(QServeKeys(), x, q)
    with pytest.raises(CodecError, match="^alpha"):
        fit_smoothing(x[None], alpha=2)
    with pytest.raises(ValueRangeError, match="^pairing"):
        fit_smoothing(x[None], pairing="odd")


def test_smoothed_keys_that_leave_float16_are_clipped() -> None:
    tiny = np.full((1, 32, 1, 64), 1e-6, np.float32)
    codec = QServeKeys(calibration=fit_smoothing(tiny))
    assert np.isfinite(decoded(codec, np.full((1, 1, 64), 8000, np.float32))).all()
