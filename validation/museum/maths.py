"""Kind A: the formula is nearly right."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tq_core.codecs.aither import AitherKeys
from tq_core.codecs.arm import Arm
from tq_core.codecs.base import F32
from tq_core.codecs.checklist import (
    check_distortion_falls_with_bits,
    check_read_equals_decode,
    check_scale_equivariance,
)
from tq_core.codecs.checklist_bias import check_unbiased_scores
from tq_core.codecs.int8 import Int8Keys, Int8Values
from tq_core.codecs.mapped import Rows, halves
from tq_core.codecs.rows import Parts, half_bytes
from tq_core.codecs.turboquant import TurboKeys
from tq_core.codecs.turboquant_prod import ProdKeys
from tq_core.kernels.backend import NumpyBackend
from tq_core.math.bitpack import unpack_bits
from tq_core.math.grids import Grid
from tq_core.math.scalar import scalar_book
from validation.museum.exhibit import Exhibit, Readings, always
from validation.museum.rows import RowKeys, RowValues
from validation.museum.stops import conformance
from validation.museum.study import (
    WINDOW,
    Layer,
    fixture_layer,
    gaussian_layer,
    trial,
    trial_readings,
    vector_readings,
)


def with_keys(codec: Any, values: Any = None) -> Arm:
    """An arm around a codec under study; values are kept well enough to be no part of the story."""
    return Arm("exhibit", codec, values or RowValues(4, rotation="structured"), WINDOW, 0)


def read_keys(layer: Layer, codec: Any) -> Readings:
    """The metrics of an arm with these keys."""
    return trial_readings(layer, trial(layer, with_keys(codec)))


class FixedStepValues(Int8Values):
    """int8 with one step for every token and side, chosen for the largest key."""

    def encode(self, x: F32, pages: Any, position: int | None) -> Parts:
        step = np.full((*x.shape[:2], 1), 70 * 20 * 4 / 127)
        codes = np.clip(np.rint(x / step), -127, 127).astype(np.int8)
        return {"scales": half_bytes(step), "codes": codes.view(np.uint8)}


def unequal_layer() -> Layer:
    """Keys N(0, 1) * 70 with six channels twenty times as large, values N(0, 1) * 0.4."""
    plain = gaussian_layer(3, gain=0.004)
    keys = 70 * plain.keys
    keys[..., :6] *= 20
    return Layer(plain.queries / np.float32(20), keys, np.float32(0.4) * plain.values, 3)


def read_values(layer: Layer, codec: Any) -> Readings:
    """The metrics of an arm with these values; error and cosine are those of the values."""
    made = trial(layer, with_keys(Int8Keys(), codec))
    of_values = vector_readings(layer.values, made.values)
    whole = trial_readings(layer, made)
    return Readings(**{**whole.as_dict(), "mse": of_values.mse, "cosine": of_values.cosine})


class DeadStageKeys(ProdKeys):
    """TurboQuant_prod whose residual stage is stored and never added."""

    def grids(self, head_dim: int) -> tuple[Grid, ...]:
        main, signs = super().grids(head_dim)
        return main, Grid(signs.levels, np.float32(0))


class SpreadKeys(RowKeys):
    """Codes of TurboQuant_mse read with a book that belongs to another deviation."""

    def coordinates(self, rows: Rows, head_dim: int) -> tuple[F32, ...]:
        centroids, _ = scalar_book(self.book, self.bits, head_dim)
        wide = np.float32(1.3) * centroids
        return (halves(rows["scales"]) * wide[unpack_bits(rows["codes"], self.bits, head_dim)],)


class TwoBitMask(NumpyBackend):
    """Kernels that take two bits of every code, whatever the book says."""

    name = "numpy, codes & 3"

    def call(self, kernel: str, **arguments: Any) -> None:
        if kernel == "score_keys_f32":
            levels = arguments["levels"]
            arguments["levels"] = np.ascontiguousarray(levels[:, np.arange(levels.shape[1]) & 3])
        super().call(kernel, **arguments)


def read_backend(layer: Layer, result: tuple[Any, Any]) -> Readings:
    """The metrics of keys that this backend scores."""
    codec, backend = result
    return trial_readings(layer, trial(layer, with_keys(codec), backend=backend))


_layer = partial(fixture_layer, n_tokens=80)
_unbiased = conformance(check_unbiased_scores)

EXHIBITS = (
    Exhibit(
        "A1", "One step size for keys and values", "turboquant_plus 45, turboquant-pytorch 8",
        "Values share the step of keys that are thousands of times larger.",
        "A step per token and side: four times the token, the same codes.",
        unequal_layer, always(Int8Values()), always(FixedStepValues()),
        conformance(check_scale_equivariance), read_values,
        "The metrics of the keys see nothing; those of the values see everything.",
    ),
    Exhibit(
        "A4", "A stage that does nothing", "quant.cpp 14",
        "The sketch of the residual is stored and multiplied by zero: switching it off changes no byte of the output.",
        "An estimator that is promised to be unbiased has slope 1, which needs the stage.",
        _layer, always(ProdKeys(sketch="orthogonal", rotation="structured")),
        always(DeadStageKeys(sketch="orthogonal", rotation="structured")), _unbiased, read_keys,
        "Divergence falls without the stage: the sketch pays for its missing bias with variance.",
    ),
    Exhibit(
        "A5", "The Gaussian constant on an orthogonal sketch", "llama-cpp-turboquant 77, aither-kvcache 2.4.1 (repeated here)",
        "sqrt(pi/2)/d belongs to Gaussian rows; on orthonormal ones the residual comes back sqrt(d) too small.",
        "1/(d E|u|) for orthonormal rows.",
        partial(fixture_layer, n_tokens=80), always(AitherKeys("tq35", "repaired")), always(AitherKeys("tq35", "published")),
        conformance(check_unbiased_scores, 128), read_keys,
    ),
    Exhibit(
        "A6", "A bias that independent vectors hide", "workglow libs 781",
        "S = 1 at 2 bits, found unbiased by a test whose pairs were independent, so that every product was near 0.",
        "The unbiased scale; the slope is measured on <x, x_hat>.",
        _layer, always(RowKeys(2, rotation="structured", norm="unbiased")),
        always(RowKeys(2, rotation="structured")), _unbiased, read_keys,
        "Squared error prefers the biased scale: shrinking is what least squares does.",
    ),
    Exhibit(
        "A8", "The kernel knows another width than the codes", "vLLM 38479",
        "A mask of two bits is compiled in while the configuration says three.",
        "Scores over the codes equal scores over the decoded tokens.",
        _layer, always((TurboKeys(3.0, arithmetic="f32"), NumpyBackend())),
        always((TurboKeys(3.0, arithmetic="f32"), TwoBitMask())),
        conformance(check_read_equals_decode), read_backend,
        "The stored keys are flawless, so their error and cosine are too.",
    ),
    Exhibit(
        "A9", "Which error is normal", "turboquant-mlx 3",
        "Codes are read with a book of another deviation: a third of the norm is lost at 3 bits.",
        "sqrt(0.0345) = 0.186 of the norm at 3 bits is theory and no defect; the window around it is what is checked.",
        _layer, always(RowKeys(3, rotation="structured")), always(SpreadKeys(3, rotation="structured")),
        conformance(check_distortion_falls_with_bits), read_keys,
        "A factor common to all keys leaves cosine and ranking alone.",
    ),
)  # fmt: skip
