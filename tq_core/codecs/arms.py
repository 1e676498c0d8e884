"""Arms: a key codec, a value codec, a recent window and sink tokens, under a name.

An arm is what is compared with another arm. All tokens first enter the recent window as float16; those
that leave it are encoded from their float16 form.
"""

from __future__ import annotations

import inspect
from typing import Any

from tq_core.codecs.affine_arms import AFFINE_ARMS, NEEDS_CALIBRATION
from tq_core.codecs.arm import WINDOW, Arm, one_of
from tq_core.codecs.fp16 import HalfKeys, HalfValues
from tq_core.codecs.kivi import KIVI_BITS, KIVI_GROUPS, KiviKeys, KiviValues
from tq_core.codecs.option_arms import OPTION_ARMS
from tq_core.codecs.registry import Registry
from tq_core.codecs.rotation_arms import ROTATION_ARMS
from tq_core.codecs.shaped_arm import best_turbo
from tq_core.codecs.turbo_arms import TURBO_ARMS
from tq_core.errors import CodecError, check


def _fp16(sinks: int = 0) -> Arm:
    return Arm("fp16", HalfKeys(), HalfValues(), None, sinks)


def _kivi_control(
    key_bits: int = 3, value_bits: int = 3, window: int = WINDOW, sinks: int = 0, group: int = 32
) -> Arm:
    group = one_of("group", group, KIVI_GROUPS)
    keys = KiviKeys(one_of("key_bits", key_bits, KIVI_BITS), group)
    values = KiviValues(one_of("value_bits", value_bits, KIVI_BITS), group)
    return Arm("kivi-control", keys, values, window, sinks)


_ARMS: Registry[Arm] = Registry("arm")
_ARMS.register("fp16", _fp16)
for _name, _factory in TURBO_ARMS.items():
    _ARMS.register(_name, _factory)
_ARMS.register("kivi-control", _kivi_control)
for _name, _factory in (
    *AFFINE_ARMS.items(),
    *ROTATION_ARMS.items(),
    *OPTION_ARMS.items(),
    ("best-turbo", best_turbo),
):
    _ARMS.register(_name, _factory)
_ARMS.freeze()


def arm_names() -> tuple[str, ...]:
    """Names of the arms that need no calibration, the uncompressed one first."""
    return tuple(name for name in _ARMS.names() if name not in NEEDS_CALIBRATION)


def calibrated_arm_names() -> tuple[str, ...]:
    """Names of the arms that must be given calibrations: see ``fit.fit_arm``."""
    return NEEDS_CALIBRATION


def arm_options(name: str) -> dict[str, Any]:
    """Names of the options that an arm takes, with their defaults. Raises CodecError for an unknown name."""
    return {p.name: p.default for p in inspect.signature(_ARMS.get(name)).parameters.values()}


def get_arm(name: str, **options: Any) -> Arm:
    """The arm called ``name`` with options such as key_bits, value_bits, window, sinks, seed.

    Raises CodecError for an unknown name, option or value, ValueRangeError for a seed outside 0..2^64-1.
    """
    factory = _ARMS.get(name)
    known = tuple(inspect.signature(factory).parameters)
    unknown = sorted(set(options) - set(known))
    check(
        not unknown, "options", f"some of {', '.join(known)} for arm {name}", ", ".join(unknown), CodecError
    )
    return factory(**options)
