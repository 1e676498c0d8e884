"""Arms of the methods that rotate or sketch: TurboQuant's variants, EDEN, DRIVE, RaBitQ, QJL, PolarQuant and others.

Each factory takes plain options and returns an arm; ``arms`` registers them by name. Rates are those that the source
recommends or that stand beside structured-turbo's 3.5 and 3 bits. Values are rotated under the seed after the keys'.
"""

from __future__ import annotations

from collections.abc import Callable

from tq_core.codecs.aither import MODES, VERSIONS, AitherKeys, AitherValues
from tq_core.codecs.arm import WINDOW, Arm, one_of
from tq_core.codecs.eden import EDEN_RULES, DriveKeys, DriveValues
from tq_core.codecs.fp8 import Fp8Keys
from tq_core.codecs.kivi import KIVI_BITS, KiviValues
from tq_core.codecs.polarquant import PolarKeys, PolarValues
from tq_core.codecs.qjl import OUTLIERS, RATIOS, QjlKeys
from tq_core.codecs.rabitq import RABITQ_BITS, RaBitQKeys, RaBitQValues
from tq_core.codecs.turbo_arms import RULES, TURBO_VARIANTS
from tq_core.codecs.turboquant import TurboValues
from tq_core.codecs.turboquant_mse import MSE_BITS, MseKeys, MseValues
from tq_core.codecs.turboquant_prod import CODE_BITS, ProdKeys
from tq_core.codecs.turbovec import TABLE_BITS, TurboVecKeys, TurboVecValues
from tq_core.codecs.vllm_turbo import FP8_BITS, PRESETS, VllmTurboKeys, VllmTurboValues
from tq_core.math.books import RATES
from tq_core.math.maps import ROTATIONS
from tq_core.math.prng import check_seed

TOTAL_BITS = tuple(b + 1 for b in CODE_BITS)


def _seeds(seed: int) -> tuple[int, int]:
    """Seeds of keys and values. Raises ValueRangeError unless seed is in 0..2^64-1."""
    check_seed(seed)
    return int(seed), (int(seed) + 1) % 2**64


def _turboquant_mse(
    key_bits: int = 3,
    value_bits: int = 3,
    window: int = WINDOW,
    sinks: int = 0,
    seed: int = 1,
    key_norm: str = "paper",
    value_norm: str = "paper",
    rotation: str = "haar",
) -> Arm:
    (k, v), turn = _seeds(seed), one_of("rotation", rotation, ROTATIONS)
    keys = MseKeys(
        one_of("key_bits", key_bits, MSE_BITS), k, turn, "sphere", one_of("key_norm", key_norm, RULES)
    )
    values = MseValues(
        one_of("value_bits", value_bits, MSE_BITS), v, turn, "sphere", one_of("value_norm", value_norm, RULES)
    )
    return Arm("turboquant-mse", keys, values, window, sinks)


def _turboquant_prod(
    key_bits: int = 3,
    value_bits: int = 3,
    window: int = WINDOW,
    sinks: int = 0,
    seed: int = 1,
    sketch: str = "gaussian",
) -> Arm:
    """Keys of Algorithm 2, one of whose bits is the sketch; values of Algorithm 1, where unbiasedness buys nothing."""
    k, v = _seeds(seed)
    keys = ProdKeys(one_of("key_bits", key_bits, TOTAL_BITS) - 1, k, "haar", sketch)
    values = MseValues(one_of("value_bits", value_bits, MSE_BITS), v)
    return Arm("turboquant-prod", keys, values, window, sinks)


def _structured_turbo_qjl(
    key_bits: int = 3,
    value_bits: float = 3.0,
    window: int = WINDOW,
    sinks: int = 0,
    seed: int = 1,
    sketch: str = "structured",
) -> Arm:
    """The experiment beside structured-turbo: one bit of the keys is a structured sign sketch, values as there."""
    k, v = _seeds(seed)
    keys = ProdKeys(one_of("key_bits", key_bits, TOTAL_BITS) - 1, k, "structured", sketch)
    return Arm(
        "structured-turbo-qjl", keys, TurboValues(one_of("value_bits", value_bits, RATES), v), window, sinks
    )


def _qjl(
    ratio: int = 2,
    outlier_ratio: int = 2,
    outliers: int = 8,
    value_bits: int = 2,
    window: int = WINDOW,
    sinks: int = 0,
    seed: int = 1,
) -> Arm:
    keys = QjlKeys(
        one_of("ratio", ratio, RATIOS),
        one_of("outlier_ratio", outlier_ratio, RATIOS),
        one_of("outliers", outliers, OUTLIERS),
        _seeds(seed)[0],
    )
    return Arm("qjl", keys, KiviValues(one_of("value_bits", value_bits, KIVI_BITS)), window, sinks)


def _polarquant(window: int = WINDOW, sinks: int = 0, seed: int = 1, rotation: str = "haar") -> Arm:
    (k, v), turn = _seeds(seed), one_of("rotation", rotation, ROTATIONS)
    return Arm("polarquant", PolarKeys(k, turn), PolarValues(v, turn), window, sinks)


def _drive(
    window: int = WINDOW,
    sinks: int = 0,
    seed: int = 1,
    key_norm: str = "unbiased",
    value_norm: str = "min_mse",
) -> Arm:
    k, v = _seeds(seed)
    keys = DriveKeys(1, k, norm=one_of("key_norm", key_norm, EDEN_RULES))
    values = DriveValues(1, v, norm=one_of("value_norm", value_norm, EDEN_RULES))
    return Arm("drive", keys, values, window, sinks)


def _rabitq(
    key_bits: int = 3,
    value_bits: int = 3,
    window: int = WINDOW,
    sinks: int = 0,
    seed: int = 1,
    key_norm: str = "unbiased",
    value_norm: str = "min_mse",
    rotation: str = "haar",
) -> Arm:
    (k, v), turn = _seeds(seed), one_of("rotation", rotation, ROTATIONS)
    key_rule, value_rule = (
        one_of("key_norm", key_norm, EDEN_RULES),
        one_of("value_norm", value_norm, EDEN_RULES),
    )
    keys = RaBitQKeys(one_of("key_bits", key_bits, RABITQ_BITS), k, turn, key_rule)
    values = RaBitQValues(one_of("value_bits", value_bits, RABITQ_BITS), v, turn, value_rule)
    return Arm("rabitq", keys, values, window, sinks)


def _turbovec(
    key_bits: int = 4, value_bits: int = 4, window: int = WINDOW, sinks: int = 0, seed: int = 1
) -> Arm:
    k, v = _seeds(seed)
    keys = TurboVecKeys(one_of("key_bits", key_bits, TABLE_BITS), k)
    values = TurboVecValues(one_of("value_bits", value_bits, TABLE_BITS), v)
    return Arm("turbovec", keys, values, window, sinks)


def _vllm_turboquant(preset: str = "4bit_nc", window: int = WINDOW, sinks: int = 0) -> Arm:
    key_bits, value_bits = PRESETS[one_of("preset", preset, tuple(PRESETS))]
    keys = Fp8Keys() if key_bits == FP8_BITS else VllmTurboKeys(key_bits)
    return Arm("vllm-turboquant", keys, VllmTurboValues(value_bits), window, sinks)


def _aither_hybrid(
    mode: str = "tq35", version: str = "repaired", window: int = WINDOW, sinks: int = 0, seed: int = 1
) -> Arm:
    k, v = _seeds(seed)
    chosen = one_of("mode", mode, tuple(MODES)), one_of("version", version, VERSIONS)
    return Arm("aither-hybrid", AitherKeys(*chosen, k), AitherValues(*chosen, v), window, sinks)


ROTATION_ARMS: dict[str, Callable[..., Arm]] = {
    "turboquant-mse": _turboquant_mse,
    "turbo-two-rounds": TURBO_VARIANTS["turbo-two-rounds"],
    "turboquant-prod": _turboquant_prod,
    "structured-turbo-qjl": _structured_turbo_qjl,
    "qjl": _qjl,
    "polarquant": _polarquant,
    "eden": TURBO_VARIANTS["eden"],
    "drive": _drive,
    "rabitq": _rabitq,
    "turbovec": _turbovec,
    "vllm-turboquant": _vllm_turboquant,
    "aither-hybrid": _aither_hybrid,
}
