"""Arms that show one option of the rotating codecs each: outlier sidecar, scales of one byte, books of the plane."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tq_core.codecs.arm import WINDOW, Arm, one_of
from tq_core.codecs.lognorm import LogNormKeys, LogNormValues
from tq_core.codecs.plane import PlaneKeys, PlaneValues
from tq_core.codecs.sidecar import PLACES, SidecarKeys, SidecarValues
from tq_core.codecs.turbo_arms import RULES
from tq_core.codecs.turboquant_mse import MSE_BITS
from tq_core.math.plane_books import PLANE_BITS
from tq_core.math.prng import check_seed


def _both(seed: int, key_norm: str, value_norm: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fields of keys and values; the values' rotation has the seed after the keys'."""
    check_seed(seed)
    keys = {"seed": int(seed), "norm": one_of("key_norm", key_norm, RULES)}
    return keys, {"seed": (int(seed) + 1) % 2**64, "norm": one_of("value_norm", value_norm, RULES)}


def _turbo_sidecar(
    key_bits: int = 3,
    value_bits: int = 3,
    outliers: int = 2,
    window: int = WINDOW,
    sinks: int = 0,
    seed: int = 1,
    key_norm: str = "matched",
    value_norm: str = "min_mse",
) -> Arm:
    k, v = _both(seed, key_norm, value_norm)
    places = one_of("outliers", outliers, PLACES)
    keys = SidecarKeys(one_of("key_bits", key_bits, MSE_BITS), outliers=places, **k)
    values = SidecarValues(one_of("value_bits", value_bits, MSE_BITS), outliers=places, **v)
    return Arm("turbo-sidecar", keys, values, window, sinks)


def _turbo_lognorm(
    key_bits: int = 3,
    value_bits: int = 3,
    window: int = WINDOW,
    sinks: int = 0,
    seed: int = 1,
    key_norm: str = "matched",
    value_norm: str = "min_mse",
) -> Arm:
    k, v = _both(seed, key_norm, value_norm)
    keys = LogNormKeys(one_of("key_bits", key_bits, MSE_BITS), **k)
    values = LogNormValues(one_of("value_bits", value_bits, MSE_BITS), **v)
    return Arm("turbo-lognorm", keys, values, window, sinks)


def _plane_turbo(
    key_bits: float = 3.5,
    value_bits: float = 2.5,
    window: int = WINDOW,
    sinks: int = 0,
    seed: int = 1,
    key_norm: str = "matched",
    value_norm: str = "min_mse",
) -> Arm:
    (k, v), rates = _both(seed, key_norm, value_norm), tuple(PLANE_BITS)
    keys = PlaneKeys(one_of("key_bits", key_bits, rates), **k)
    values = PlaneValues(one_of("value_bits", value_bits, rates), **v)
    return Arm("plane-turbo", keys, values, window, sinks)


OPTION_ARMS: dict[str, Callable[..., Arm]] = {
    "turbo-sidecar": _turbo_sidecar,
    "turbo-lognorm": _turbo_lognorm,
    "plane-turbo": _plane_turbo,
}
