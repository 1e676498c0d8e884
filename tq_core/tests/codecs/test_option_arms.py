"""Sidecar, scales of one byte, books of the plane, centred values: each does what it costs its bits for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.arm import Arm
from tq_core.codecs.arms import get_arm
from tq_core.codecs.calibration import Calibration
from tq_core.codecs.lognorm import LogNormKeys, decode_scales, encode_scales
from tq_core.codecs.plane import PlaneKeys
from tq_core.codecs.sidecar import SidecarKeys
from tq_core.codecs.turboquant_mse import MseKeys
from tq_core.codecs.value_offset import OffsetValues, fit_value_offset, with_value_offset
from tq_core.errors import CodecError, ShapeError, TqError, ValueRangeError
from tq_core.kernels.backend import NumpyBackend
from tq_core.shapes import ModelShape
from tq_core.tests.cache.worlds import exact_attention
from tq_core.tests.codecs.vectors import gaussian, measure, reconstruct


def bits_all_in(codec: Any, head_dim: int = 128) -> float:
    return 8 * sum(n for _, n in codec.streams(head_dim)) / (codec.page_tokens * head_dim)


def relative_error(codec: Any, x: np.ndarray) -> float:
    return float(((reconstruct(codec, x) - x) ** 2).sum() / (x.astype(np.float64) ** 2).sum())


@pytest.mark.parametrize(
    "codec, want",
    [
        (SidecarKeys(3, outliers=n), 3 + 16 / 128 + 8 / 128 + n * 24 / 128) for n in (1, 2, 4, 8)
    ]  # the count byte is 0.0625, a place 0.1875
    + [(LogNormKeys(b), b + 8 / 128 + 8 / (32 * 128)) for b in (1, 4)]
    + [(PlaneKeys(b), b + 16 / 128) for b in (2.0, 2.5, 3.0, 3.5, 4.0)],
    ids=repr,
)  # fmt: skip
def test_every_bit_is_counted(codec: Any, want: float) -> None:
    assert bits_all_in(codec) == want
    if isinstance(codec, SidecarKeys):
        assert dict(codec.streams(128))["key_counts"] == codec.page_tokens
        assert dict(codec.streams(576))["key_outliers"] == codec.page_tokens * codec.outliers * 4


def with_outliers() -> np.ndarray:
    """Gaussian vectors at d = 128 with one channel of 20 and, in every second token, one of -30."""
    x = gaussian(128, 2016).copy()
    x[..., 17] = 20
    x[:, ::2, 100] = -30
    return x


def test_outliers_come_back_exactly_and_do_not_widen_the_rest() -> None:
    x, codec = with_outliers(), SidecarKeys(3)
    got, rows = reconstruct(codec, x), codec.encode(x)
    assert rows["counts"][0, :4, 0].tolist() == [2, 1, 2, 1]
    # What is left carries the error of 3-bit codes of Gaussian vectors, the outliers none but the codes of zeros beside them.
    rest = np.delete(np.arange(128), [17, 100])
    error = ((got - x)[..., rest] ** 2).sum() / (x[..., rest].astype(np.float64) ** 2).sum()
    assert error == pytest.approx(0.0338, rel=0.03)
    assert relative_error(codec, x) < 0.25 * relative_error(
        MseKeys(3, 1, "structured", "gauss", "matched"), x
    )


def test_the_largest_leave_and_gaussian_vectors_keep_all() -> None:
    x = np.ones((1, 3, 32), np.float32)
    x[0, 0, [3, 9, 20]] = [40, -50, 45]
    x[0, 1, 5] = 4
    rows = SidecarKeys(3).encode(x)
    assert rows["counts"][0, :, 0].tolist() == [2, 0, 0]
    assert rows["outliers"][0, 0, :2].tolist() == [9, 20]
    plain = SidecarKeys(3).encode(gaussian(128, 320))
    assert plain["counts"].mean() < 0.02 and not plain["outliers"][plain["counts"][..., 0] == 0].any()


def test_a_sidecar_reads_512_channels_and_foreign_bytes() -> None:
    """Indices of two bytes at head_dim 576; bytes of any page give finite vectors."""
    x = np.random.default_rng(1).standard_normal((1, 4, 576)).astype(np.float32)
    x[0, :, 500] = 90
    assert np.abs(reconstruct(SidecarKeys(3), x)[..., 500] - 90).max() < 0.6
    rows = SidecarKeys(3).encode(gaussian(48, 32))
    rows["outliers"][:] = 0x3C
    rows["counts"][:] = 255
    assert np.isfinite(SidecarKeys(3).vectors(rows, 48)).all()


def test_scales_of_one_byte_err_by_what_their_steps_allow() -> None:
    rng = np.random.default_rng(2)
    scales = np.exp(rng.normal(0, 0.4, (2, 3200)))
    got = decode_scales(*encode_scales(scales)).astype(np.float64)
    error = got / scales - 1
    assert np.sqrt((error**2).mean()) == pytest.approx(0.0063, abs=2e-4)
    assert np.abs(error).max() < 2 ** (1 / 64) - 1 + 1e-6
    sixteen = np.exp2(np.rint(np.log2(scales) * 16) / 16) / scales - 1  # one byte over sixteen octaves
    assert np.sqrt((sixteen**2).mean()) == pytest.approx(0.0126, abs=4e-4)


def test_scales_beside_a_long_vector_and_at_the_ends() -> None:
    scales = np.full((1, 64), 1.0)
    scales[0, 0], scales[0, 1], scales[0, 2] = 100.0, 0.3, 0.0
    got = decode_scales(*encode_scales(scales))
    assert got[0, :4] == pytest.approx([100, 0, 0, 1], rel=0.011) and (got[0, 1], got[0, 2]) == (0, 0)
    assert got[0, 32:] == pytest.approx(np.ones(32), rel=0.011)
    for size in (1e-45, 1e-38, 1e30):
        assert np.isfinite(decode_scales(*encode_scales(np.full((1, 32), size)))).all()
    with pytest.raises(ValueRangeError, match="^x: expected scales"):
        encode_scales(np.full((1, 32), 1e37))


@pytest.mark.parametrize("bits, least", [(2, 0.1189), (3, 0.0338), (4, 0.00918)])
def test_a_byte_for_the_norm_costs_little_error_and_moves_every_slope(bits: int, least: float) -> None:
    """The square of 0.63 % is nothing beside the codes' error, but it multiplies whole logits."""
    coded, exact = measure(LogNormKeys(bits)), measure(MseKeys(bits, 1, "structured", "gauss", "matched"))
    assert coded.error.mean() == pytest.approx(least + 0.0063**2, rel=0.012)
    moved = coded.slope / exact.slope - 1
    assert np.sqrt((moved**2).mean()) == pytest.approx(0.0063, rel=0.05)


PLANE = {2.0: 0.1074, 2.5: 0.0572, 3.0: 0.0298, 3.5: 0.0153, 4.0: 0.00788}


@pytest.mark.slow
@pytest.mark.parametrize("bits", PLANE)
def test_points_of_the_plane_beat_pairs_of_levels(bits: float) -> None:
    seen = measure(PlaneKeys(bits, norm="min_mse"))
    assert seen.error.mean() == pytest.approx(PLANE[bits], rel=0.03)
    scalar = {2.0: 0.1175, 2.5: 0.0690, 3.0: 0.0345, 3.5: 0.0192, 4.0: 0.0095}[bits]
    assert seen.error.mean() < 0.93 * scalar


def values_with_mean(n: int = 160) -> np.ndarray:
    """(1, n, 2, 32) values whose mean has nine tenths of the energy."""
    x = np.random.default_rng(3).standard_normal((1, n, 2, 32)) + 3 * np.sign(np.arange(32) - 15.5)
    return x.astype(np.float16).astype(np.float32)


def test_centred_values_lose_less_and_stay_on_one_scale_with_window_and_sinks() -> None:
    shape, rng, v = ModelShape(1, 4, 2, 32), np.random.default_rng(4), values_with_mean()
    k = rng.standard_normal(v.shape).astype(np.float32)
    q = rng.standard_normal((1, 4, 32)).astype(np.float32)
    plain = get_arm("structured-turbo", key_bits=4, value_bits=2, window=16, sinks=3)
    errors = {}
    for arm in (plain, with_value_offset(plain, fit_value_offset(v))):
        cache = PagedCache(shape, arm, NumpyBackend())
        cache.append(0, k[0, :-1], v[0, :-1])
        out = cache.attend(0, q, k[0, -1:], v[0, -1:])[0]
        decoded_k, decoded_v = cache.decode(0)
        assert np.abs(out - exact_attention(shape, q[0], decoded_k, decoded_v)).max() < 5e-4
        errors[arm.name] = np.abs(out - exact_attention(shape, q[0], decoded_k, v[0])).max()
        assert cache.ledger().fixed_tables - arm.key_codec.fixed_bytes(32) == arm.value_codec.fixed_bytes(32)
    assert errors["structured-turbo+values"] < 0.5 * errors["structured-turbo"]
    centred = with_value_offset(plain, fit_value_offset(v)).value_codec
    assert centred.fixed_bytes(32) - plain.value_codec.fixed_bytes(32) == 2 * 32 * 4
    assert centred.streams(32) == plain.value_codec.streams(32)


class Forgets(OffsetValues):
    """Planted: the sum of what is stored, without what it was stored without."""

    def weighted_sum(self, *arguments: Any) -> None:
        self.inner.weighted_sum(*arguments)


class CountsAll(OffsetValues):
    """Planted: the offset is added once, as if no weight lay on window and sinks."""

    def weighted_sum(self, backend: Any, weights: Any, pages: Any, n: int, offset: int, out: Any) -> None:
        self.inner.weighted_sum(backend, weights, pages, n, offset, out)
        out += np.repeat(self.calibration.table("offset", pages), len(out) // pages.layout.n_kv_heads, axis=0)


@pytest.mark.parametrize("fault", [Forgets, CountsAll])
def test_an_offset_that_is_not_given_back_by_its_weight_is_seen(fault: type[OffsetValues]) -> None:
    shape, v = ModelShape(1, 4, 2, 32), values_with_mean()
    arm = get_arm("structured-turbo", window=16, sinks=3)
    wrong = Arm("faulty", arm.key_codec, fault(arm.value_codec, fit_value_offset(v)), 16, 3)
    cache = PagedCache(shape, wrong, NumpyBackend())
    cache.append(0, v[0, :-1], v[0, :-1])
    out = cache.attend(0, v[0, :1].repeat(2, axis=1), v[0, -1:], v[0, -1:])[0]
    assert np.abs(out - exact_attention(shape, v[0, 0].repeat(2, axis=0), *cache.decode(0))).max() > 0.3


def test_value_offsets_check_what_they_are_given() -> None:
    inner, made = get_arm("int8").value_codec, fit_value_offset(values_with_mean())
    with pytest.raises(CodecError, match="^inner: expected a value codec"):
        OffsetValues(get_arm("int8").key_codec, made)  # type: ignore[arg-type]
    with pytest.raises(CodecError, match="^calibration: expected a Calibration fitted for value-offset"):
        OffsetValues(inner, Calibration("key-offset", 32, {"offset": np.ones((1, 2, 32))}))
    with pytest.raises(ShapeError, match="^calibration: expected one for head_dim 48"):
        OffsetValues(inner, made).check(48)
    with pytest.raises(ShapeError, match="^vectors: expected 32 tokens or more, got 31"):
        fit_value_offset(values_with_mean(31))


@pytest.mark.parametrize(
    ("name", "options", "named"),
    [
        ("turbo-sidecar", {"outliers": 3}, "outliers"),
        ("turbo-sidecar", {"key_bits": 5}, "key_bits"),
        ("turbo-lognorm", {"value_norm": "best"}, "value_norm"),
        ("plane-turbo", {"key_bits": 1.5}, "key_bits"),
        ("plane-turbo", {"seed": -1}, "seed"),
        ("vllm-turboquant", {"preset": "k4v8"}, "preset"),
    ],
)
def test_bad_options(name: str, options: dict[str, Any], named: str) -> None:
    with pytest.raises(TqError, match=rf"^{named}: expected .*, got "):
        get_arm(name, **options)
    with pytest.raises(CodecError, match="^limit"):
        SidecarKeys(limit=0.5)
    with pytest.raises(CodecError, match="^bits"):
        LogNormKeys(5)
