"""Arms of the affine, floating-point and calibrated methods, and of the controls.

Each factory takes plain options and calibrations and returns an arm; ``arms`` registers them by name. Rates are the
published ones. ``fit.fit_arm`` makes the calibrations that a method can use.
"""

from __future__ import annotations

from collections.abc import Callable

from tq_core.codecs.arm import WINDOW, Arm, one_of
from tq_core.codecs.calibration import Calibration
from tq_core.codecs.flexgen import GROUPS, FlexGenKeys, FlexGenValues
from tq_core.codecs.fp8 import FORMATS, Fp8Keys, Fp8Values
from tq_core.codecs.ggml import Q4Keys, Q4Values, Q8Keys, Q8Values
from tq_core.codecs.int8 import Int8Keys, Int8Values
from tq_core.codecs.kvquant import NUQ_BITS, KVQuantKeys
from tq_core.codecs.kvquant_values import KVQuantValues
from tq_core.codecs.qserve import QSERVE_BITS, QServeKeys, QServeValues
from tq_core.codecs.quarot import ROTATED_BITS, QuaRotKeys, QuaRotValues
from tq_core.codecs.spinquant import SpinQuantKeys, SpinQuantValues
from tq_core.math.rotary import Rotary

NEEDS_CALIBRATION = ("kvquant", "best-turbo")


def _int8(window: int = WINDOW, sinks: int = 0) -> Arm:
    return Arm("int8", Int8Keys(), Int8Values(), window, sinks)


def _q8_0(window: int = WINDOW, sinks: int = 0) -> Arm:
    return Arm("q8_0", Q8Keys(), Q8Values(), window, sinks)


def _q4_0(window: int = WINDOW, sinks: int = 0) -> Arm:
    return Arm("q4_0", Q4Keys(), Q4Values(), window, sinks)


def _fp8(
    format: str = "e4m3",
    key_calibration: Calibration | None = None,
    value_calibration: Calibration | None = None,
    window: int = WINDOW,
    sinks: int = 0,
) -> Arm:
    kind = one_of("format", format, tuple(FORMATS))
    return Arm("fp8", Fp8Keys(kind, key_calibration), Fp8Values(kind, value_calibration), window, sinks)


def _flexgen(group: int = 64, window: int = WINDOW, sinks: int = 0) -> Arm:
    group = one_of("group", group, GROUPS)
    return Arm("flexgen", FlexGenKeys(group), FlexGenValues(group), window, sinks)


def _quarot(
    key_bits: int = 4,
    value_bits: int = 4,
    zero: str = "float",
    clip: float = 1.0,
    window: int = WINDOW,
    sinks: int = 0,
) -> Arm:
    keys = QuaRotKeys(one_of("key_bits", key_bits, ROTATED_BITS), zero, clip)
    values = QuaRotValues(one_of("value_bits", value_bits, ROTATED_BITS), zero, clip)
    return Arm("quarot", keys, values, window, sinks)


def _spinquant(
    key_bits: int = 4,
    value_bits: int = 4,
    key_calibration: Calibration | None = None,
    value_calibration: Calibration | None = None,
    window: int = WINDOW,
    sinks: int = 0,
) -> Arm:
    keys = SpinQuantKeys(one_of("key_bits", key_bits, ROTATED_BITS), calibration=key_calibration)
    values = SpinQuantValues(one_of("value_bits", value_bits, ROTATED_BITS), calibration=value_calibration)
    return Arm("spinquant", keys, values, window, sinks)


def _qserve(
    key_bits: int = 4,
    value_bits: int = 4,
    symmetric: bool = False,
    key_calibration: Calibration | None = None,
    window: int = WINDOW,
    sinks: int = 0,
) -> Arm:
    keys = QServeKeys(one_of("key_bits", key_bits, QSERVE_BITS), symmetric, key_calibration)
    values = QServeValues(one_of("value_bits", value_bits, QSERVE_BITS), symmetric)
    return Arm("qserve", keys, values, window, sinks)


def _kvquant(
    key_bits: int = 3,
    value_bits: int = 3,
    key_calibration: Calibration | None = None,
    value_calibration: Calibration | None = None,
    rotary: Rotary | None = None,
    window: int = WINDOW,
    sinks: int = 1,
) -> Arm:
    keys = KVQuantKeys(key_calibration, one_of("key_bits", key_bits, NUQ_BITS), rotary)  # type: ignore[arg-type]
    values = KVQuantValues(value_calibration, one_of("value_bits", value_bits, NUQ_BITS))  # type: ignore[arg-type]
    return Arm("kvquant", keys, values, window, sinks)


AFFINE_ARMS: dict[str, Callable[..., Arm]] = {
    "int8": _int8,
    "q8_0": _q8_0,
    "q4_0": _q4_0,
    "fp8": _fp8,
    "flexgen": _flexgen,
    "quarot": _quarot,
    "spinquant": _spinquant,
    "qserve": _qserve,
    "kvquant": _kvquant,
}
