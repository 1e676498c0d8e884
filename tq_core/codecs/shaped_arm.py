"""best-turbo: the arm of the TurboQuant family that measured best here, fitted to a model."""

from __future__ import annotations

from tq_core.codecs.arm import WINDOW, Arm, one_of
from tq_core.codecs.calibration import Calibration
from tq_core.codecs.shaped import PASSES, ShapedKeys, ShapedValues
from tq_core.math.books import RATES

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
