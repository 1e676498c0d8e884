"""best-turbo: the arm of the TurboQuant family that measured best here, fitted to a model."""

from __future__ import annotations

from typing import Any

from tq_core.codecs.arm import WINDOW, Arm, one_of
from tq_core.codecs.calibration import Calibration
from tq_core.codecs.shaped import KEY_METHOD, PASSES, VALUE_METHOD, ShapedKeys, ShapedValues
from tq_core.math.books import RATES
from tq_core.shapes import ModelShape

BEST_SINKS = 4


def best_turbo(
    key_bits: float = 3.5,
    value_bits: float = 3.5,
    key_calibration: Calibration | None = None,
    value_calibration: Calibration | None = None,
    window: int = WINDOW,
    sinks: int = BEST_SINKS,
    arithmetic: str = "exact",
    passes: int = PASSES,
) -> Arm:
    """Keys and values by ``shaped``; without calibrations (see ``fit.fit_arm``) a CodecError says what is missing."""
    key_rate, value_rate = one_of("key_bits", key_bits, RATES), one_of("value_bits", value_bits, RATES)
    keys = ShapedKeys(key_rate, key_calibration, passes, arithmetic)  # type: ignore[arg-type]  # None is refused there
    values = ShapedValues(value_rate, value_calibration, passes, arithmetic)  # type: ignore[arg-type]
    return Arm("best-turbo", keys, values, window, sinks)


class _Size(Calibration):
    """As many bytes as tables for a model have, and nothing in them."""

    def __init__(self, method: str, shape: ModelShape, entries: int) -> None:
        self.method, self.head_dim, self.digest = method, shape.head_dim, ""
        self._nbytes = 4 * entries * shape.n_layers * shape.n_kv_heads

    @property
    def nbytes(self) -> int:
        return self._nbytes


def planned_best_turbo(shape: ModelShape, **options: Any) -> Arm:
    """The arm for a plan of memory: its tables have a size but no content, so nothing can be stored with it.

    Options and errors as ``best_turbo``.
    """
    d = shape.head_dim
    keys, values = _Size(KEY_METHOD, shape, 3 * d * d + d), _Size(VALUE_METHOD, shape, 3 * d * d)
    return best_turbo(key_calibration=keys, value_calibration=values, **options)
