"""Calibrations are frozen and named by their content; bad data is a typed error that says what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.arms import get_arm
from tq_core.codecs.calibration import Calibration
from tq_core.codecs.fit import fit_arm
from tq_core.codecs.fp8 import Fp8Keys, fit_fp8
from tq_core.codecs.kvquant_fit import fit_kvquant_keys, fit_kvquant_values
from tq_core.codecs.offset import fit_offset, offset_of, with_key_offset
from tq_core.codecs.qserve import QServeKeys, fit_smoothing
from tq_core.codecs.spinquant import fit_spinquant
from tq_core.codecs.value_offset import fit_value_offset
from tq_core.errors import CodecError, DTypeError, ShapeError, TqError, ValueRangeError
from tq_core.kernels.backend import NumpyBackend
from tq_core.shapes import ModelShape
from tq_core.tests.codecs.measure import bench_for, gaussian

VECTORS = gaussian(256, 2, 32)[None]
FITS: dict[str, tuple[Any, int]] = {
    "fp8": (lambda x: fit_fp8(x, "key"), 1),
    "smoothing": (fit_smoothing, 32),
    "spinquant": (lambda x: fit_spinquant(x, steps=2), 32),
    "kvquant-keys": (lambda x: fit_kvquant_keys(x, None), 200),
    "kvquant-values": (fit_kvquant_values, 200),
    "offset": (fit_offset, 32),
    "value-offset": (fit_value_offset, 32),
}


@pytest.mark.parametrize("name", FITS)
def test_fits_refuse_bad_vectors(name: str) -> None:
    fit, rows = FITS[name]
    assert fit(VECTORS[:, :rows]).n_layers == 1
    if rows > 1:
        with pytest.raises(ShapeError, match=f"^vectors: expected {rows} tokens or more, got {rows - 1}"):
            fit(VECTORS[:, : rows - 1])
    with pytest.raises(ShapeError, match="^vectors: expected shape"):
        fit(VECTORS[0])
    with pytest.raises(ShapeError, match="^vectors: expected shape"):
        fit(VECTORS[:, :0])
    with pytest.raises(DTypeError, match="^vectors: expected a float32 array, got float64"):
        fit(VECTORS.astype(np.float64))
    with pytest.raises(DTypeError, match="^vectors: expected a float32 array, got list"):
        fit(VECTORS.tolist())
    with pytest.raises(ShapeError, match="^head_dim"):
        fit(np.ascontiguousarray(VECTORS[..., :24]))
    for bad in (np.nan, np.inf):
        broken = VECTORS.copy()
        broken[0, 7, 1, 3] = bad
        with pytest.raises(ValueRangeError, match="^vectors: expected finite"):
            fit(broken)


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("kind", ["zeros", "constant", "dead channel", "tiny", "huge"])
def test_fits_of_degenerate_vectors_are_finite(name: str, kind: str) -> None:
    """Nothing to learn from, but no NaN: Calibration itself refuses numbers that are not finite."""
    x = {
        "zeros": np.zeros_like(VECTORS),
        "constant": np.full_like(VECTORS, 3),
        "dead channel": VECTORS * (np.arange(32) != 5).astype(np.float32),
        "tiny": VECTORS * np.float32(1e-40),
        "huge": VECTORS * np.float32(1e4),
    }[kind]
    made = FITS[name][0](x)
    assert all(np.isfinite(a).all() for a in made.arrays.values())


@pytest.mark.parametrize("name", ["fp8", "qserve", "spinquant", "kvquant"])
@pytest.mark.parametrize("fitted", ["zeros", "dead channel"])
def test_degenerate_calibrations_still_store_real_tokens(name: str, fitted: str) -> None:
    mask = 0 if fitted == "zeros" else (np.arange(32) != 5).astype(np.float32)
    arm = fit_arm(name, VECTORS * np.float32(mask), VECTORS * np.float32(mask))
    x = 3 * gaussian(64, 2, 32, seed=4)
    for codec in (arm.key_codec, arm.value_codec):
        bench = bench_for(codec, x, 2)
        pages = bench.store(x)
        assert (
            np.isfinite(bench.decode(pages, 64)).all()
            and np.isfinite(bench.read(pages, 64, bench.question(64))).all()
        )


def test_digest_follows_content_and_arrays_are_frozen() -> None:
    a = Calibration("m", 32, {"x": np.ones((1, 2, 32)), "y": np.zeros((1, 1, 4))})
    assert (
        a == Calibration("m", 32, {"y": np.zeros((1, 1, 4)), "x": np.ones((1, 2, 32))}) and len({a, a}) == 1
    )
    for other in (
        Calibration("n", 32, a.arrays), Calibration("m", 48, a.arrays), Calibration("m", 32, {"x": a.arrays["x"]}),
        Calibration("m", 32, {"x": a.arrays["y"], "y": a.arrays["x"]}), *a.variants(),
        Calibration("m", 32, {"x": np.ones((1, 1, 64)), "y": a.arrays["y"]}),
    ):  # fmt: skip
        assert other != a and other.digest != a.digest
    assert a.nbytes == 4 * (64 + 4) and a.identity() == {"method": "m", "digest": a.digest}
    source = np.ones((1, 2, 32), np.float32)
    kept = Calibration("m", 32, {"x": source})
    source[:] = 5
    assert kept.arrays["x"].max() == 1
    with pytest.raises(ValueError, match="read-only"):
        kept.arrays["x"][0] = 2


@pytest.mark.parametrize(
    "arrays, error, names",
    [
        ({}, ShapeError, "arrays"),
        ({"x": np.ones(3)}, ShapeError, "x"),
        ({"x": np.ones((1, 0, 3))}, ShapeError, "x"),
        ({"x": np.ones((1, 2)), "y": np.ones((2, 2))}, ShapeError, "y"),
        ({"x": np.array([[np.nan]])}, ValueRangeError, "x"),
    ],
)
def test_bad_arrays(arrays: dict[str, Any], error: type[TqError], names: str) -> None:
    with pytest.raises(error, match=f"^{names}: expected .*, got "):
        Calibration("m", 32, arrays)


def test_a_calibration_of_another_method_or_size_is_refused() -> None:
    smooth = fit_smoothing(VECTORS)
    for wrong in (smooth, "scale", 3):
        with pytest.raises(CodecError, match="^calibration: expected a Calibration fitted for fp8"):
            Fp8Keys(calibration=wrong)  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="^calibration: expected one for head_dim 48, got 32"):
        QServeKeys(calibration=smooth).check(48)
    arm = get_arm("qserve", key_calibration=smooth, window=4)
    PagedCache(ModelShape(1, 4, 2, 32), arm, NumpyBackend())
    for shape in (ModelShape(2, 4, 2, 32), ModelShape(1, 4, 4, 32), ModelShape(1, 4, 2, 48)):
        with pytest.raises(ShapeError, match="^calibration: expected"):
            PagedCache(shape, arm, NumpyBackend())
    nested = with_key_offset(get_arm("int8"), offset_of(np.zeros((2, 2, 32), np.float32)))
    with pytest.raises(ShapeError, match="^calibration: expected"):
        PagedCache(ModelShape(1, 4, 2, 32), nested, NumpyBackend())


def test_pages_of_an_unknown_layer_are_refused_before_a_byte_changes() -> None:
    codec = QServeKeys(calibration=fit_smoothing(VECTORS))
    bench = bench_for(codec, VECTORS[0])
    pages = bench.pages(8)
    for layer, error in ((None, CodecError), (1, ShapeError)):
        with pytest.raises(error, match="^(pages|calibration): expected"):
            codec.append(
                NumpyBackend(),
                type(pages)(pages.pool, pages.table, pages.layout, layer, 0),
                0,
                VECTORS[0, :8],
            )
    assert not pages.pool.any()


def test_tables_are_counted_and_are_no_decoded_shadow() -> None:
    arm = fit_arm("spinquant", VECTORS, VECTORS, window=4)
    cache = PagedCache(ModelShape(1, 4, 2, 32), arm, NumpyBackend())
    cache.append(0, VECTORS[0, :40], VECTORS[0, :40])
    ledger = cache.ledger()
    assert ledger.fixed_tables == 2 * 2 * 32 * 32 * 4 and ledger.decoded_shadow == 0
    assert ledger.total == sum(cache.buffers().values())
