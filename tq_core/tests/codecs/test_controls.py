"""int8, q8_0, q4_0 and FP8: bytes of other implementations, published errors, values at the ends of the formats."""

from __future__ import annotations

from typing import Any

import gguf
import ml_dtypes
import numpy as np
import pytest
from gguf.quants import dequantize, quantize

from tq_core.codecs.fp8 import Fp8Keys, Fp8Values, fit_fp8
from tq_core.codecs.ggml import Q4Keys, Q4Values, Q8Keys, Q8Values
from tq_core.codecs.int8 import Int8Keys, Int8Values
from tq_core.errors import CodecError, DTypeError, ValueRangeError
from tq_core.kernels.backend import NumpyBackend
from tq_core.tests.codecs.measure import all_in_bits, bench_for, decoded, gaussian, relative_mse

GGML = [
    (Q8Keys(), gguf.GGMLQuantizationType.Q8_0), (Q8Values(), gguf.GGMLQuantizationType.Q8_0),
    (Q4Keys(), gguf.GGMLQuantizationType.Q4_0), (Q4Values(), gguf.GGMLQuantizationType.Q4_0),
]  # fmt: skip


def blocks() -> np.ndarray:
    """(n, 2, 64) float32 that float16 holds: Gaussian of many sizes, ties, zeros, one-hot, constant, subnormal, huge."""
    x = gaussian(96, 2, 64) * np.float32(10) ** np.linspace(-4, 3.5, 96, dtype=np.float32)[:, None, None]
    x[0] = 0
    x[1] = np.eye(64, dtype=np.float32)[[3, 60]]
    x[2] = 2.5
    x[3] = 6e-8
    x[4] = np.where(np.arange(64) % 2, -8000, 8000)
    x[5] = (np.arange(64) - 32) / 2  # halves of a step: rounding away from zero shows
    x[6], x[6, :, 0] = 0.5, 127
    return x.astype(np.float16).astype(np.float32)


@pytest.mark.parametrize("codec, kind", GGML)
def test_bytes_are_those_of_gguf(codec: Any, kind: gguf.GGMLQuantizationType) -> None:
    x = blocks()
    bench = bench_for(codec, x)
    pages = bench.store(x)
    stream = next(name for name, _ in codec.streams(64))
    rows = np.swapaxes(
        pages.stack(stream, len(x)).reshape(
            -1, 2, codec.page_tokens, 64 * len(quantize(x[0], kind)[0]) // 64
        ),
        1,
        2,
    )
    want = quantize(x, kind)
    assert np.array_equal(rows.reshape(-1, *want.shape[1:])[: len(x)], want)
    assert np.array_equal(decoded(codec, x), dequantize(want, kind))


def test_the_other_nibble_order_would_be_seen() -> None:
    """Planted: llama.cpp's q4_0 has channels i and i + 16 in a byte, not i and i + 1."""
    want = quantize(blocks()[:, 0], gguf.GGMLQuantizationType.Q4_0)
    swapped = want.copy()
    swapped[..., 2:18] = want[..., 2:18] >> 4 | want[..., 2:18] << 4
    assert not np.array_equal(swapped, want)
    assert np.abs(dequantize(swapped, gguf.GGMLQuantizationType.Q4_0) - blocks()[:, 0]).max() > 1


def test_int8_is_off_by_half_a_step_and_half_a_float16_rounding() -> None:
    x = blocks()[10:]
    scale = np.abs(x).max(axis=2, keepdims=True) / 127
    assert (np.abs(decoded(Int8Keys(), x) - x) <= scale * (0.5 + 127 * 2.0**-11)).all()
    assert relative_mse(Int8Values(), gaussian(2000)) == pytest.approx(4.2e-5, rel=0.05)


@pytest.mark.parametrize(
    "codec, bits",
    [(Int8Keys(), 8.125), (Q8Keys(), 8.5), (Q4Values(), 4.5), (Fp8Keys(), 8.0), (Fp8Values("e5m2"), 8.0)],
)
def test_all_in_bits(codec: Any, bits: float) -> None:
    assert all_in_bits(codec, 128) == bits


@pytest.mark.parametrize(
    "kind, sd, mse, rel",
    [("e4m3", sd, 7.0e-4, 0.02) for sd in (0.1, 1, 10, 100)]
    + [("e4m3", 0.01, 3.2e-3, 0.03), ("e4m3", 0.001, 0.31, 0.05), ("e4m3", 300, 0.048, 0.05)]
    + [("e5m2", sd, 2.8e-3, 0.03) for sd in (0.001, 1, 300)],
)
def test_fp8_error_by_size(kind: str, sd: float, mse: float, rel: float) -> None:
    """A float does not care about the scale until subnormals or saturation."""
    assert relative_mse(Fp8Keys(kind), np.float32(sd) * gaussian(3000)) == pytest.approx(mse, rel=rel)


@pytest.mark.parametrize("kind, largest", [("e4m3", 448), ("e5m2", 57344)])
def test_fp8_saturates_where_a_plain_cast_does_not(kind: str, largest: float) -> None:
    x = np.zeros((4, 1, 16), np.float32)
    x[:, 0, 3] = (60000, -60000, largest, 2.0**-20)
    got = decoded(Fp8Values(kind), x)
    assert got[:3, 0, 3].tolist() == [largest, -largest, largest] and np.isfinite(got).all()
    plain = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}[kind]
    with np.errstate(over="ignore"):
        assert not np.isfinite(np.float32(1e5).astype(plain).astype(np.float32))


def test_fp8_scale_rules() -> None:
    x = gaussian(500, 2, 32)[None]
    x[0, 3, 1, 5] = -40
    scale = lambda *rule: fit_fp8(x, *rule).arrays["scale"].ravel()  # noqa: E731
    assert scale("key", "warmup").tolist() == [np.float32(40 / 200)]
    assert scale("value", "warmup").tolist() == [np.float32(40 / 100)]
    assert scale("key", "layer").tolist() == [np.float32(40 / 448)]
    first = np.abs(x[0, :, 0]).max()
    assert scale("key", "head").tolist() == [np.float32(first / 448), np.float32(40 / 448)]
    assert scale("key", "layer", "e5m2").tolist() == [np.float32(40 / 57344)]
    small = np.float32(1e-3) * gaussian(500)
    assert (
        relative_mse(Fp8Keys(calibration=fit_fp8(small[None], "key", "head")), small)
        < 8e-4
        < relative_mse(Fp8Keys(), small)
    )
    for bad in ({"side": "query"}, {"rule": "tensor"}, {"format": "e3m4"}):
        with pytest.raises(CodecError, match=f"^{next(iter(bad))}: expected one of"):
            fit_fp8(x, **{"side": "key", **bad})
    with pytest.raises(CodecError, match="^format: expected one of"):
        Fp8Keys("e3m4")


@pytest.mark.parametrize("codec", [Int8Keys(), Q4Keys(), Q8Values(), Fp8Keys()])
def test_what_float16_cannot_hold_is_refused_and_nothing_written(codec: Any) -> None:
    x = gaussian(4, 1, 32)
    bench = bench_for(codec, x)
    pages = bench.pages(4)
    for bad in (70000.0, np.nan, np.inf, -np.inf):
        broken = x.copy()
        broken[2, 0, 7] = bad
        with pytest.raises(ValueRangeError, match="^x: expected finite vectors of norm at most 65504"):
            codec.append(NumpyBackend(), pages, 0, broken)
    with pytest.raises(DTypeError, match="^x: expected float32"):
        codec.append(NumpyBackend(), pages, 0, x.astype(np.float64))
    assert not pages.pool.any()


@pytest.mark.parametrize("codec", [Int8Keys(), Q4Keys(), Q8Values(), Fp8Keys("e5m2")])
def test_float32_subnormals_are_zeros(codec: Any) -> None:
    x = np.full((3, 1, 32), 1e-41, np.float32)
    x[1] *= -1
    assert not decoded(codec, x).any()
