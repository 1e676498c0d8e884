"""Arms for validation: those of the library, and a planted bad one that every quality gate must stop."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tq_core.codecs.arms import Arm, arm_names, calibrated_arm_names, get_arm
from tq_core.errors import CodecError, check
from validation.compare.plan import try_arm

REFERENCE = "fp16"
NO_OP = "no-op"
PLANTED_BAD = "planted-bad"
COMPARATORS = ("structured-turbo", "kivi-control")


def validation_arm_names() -> tuple[str, ...]:
    """Names that `arm_for` takes."""
    return (*arm_names(), *calibrated_arm_names(), PLANTED_BAD)


def arm_for(name: str, **options: Any) -> Arm:
    """An arm by name; options that are None are left to the arm's defaults.

    "planted-bad" is structured-turbo at 2 bits for keys and values without any recent window: a
    configuration that works as specified and ruins the model. An arm that must be fitted is fitted on a stand-in: good for
    its options alone, see ``fitted.arm_on``. Raises CodecError for an unknown name.
    """
    given = {k: v for k, v in options.items() if v is not None}
    if name == PLANTED_BAD:
        check(not given, "options", "none for planted-bad, which is fixed", ", ".join(given), CodecError)
        return replace(get_arm("structured-turbo", key_bits=2, value_bits=2, window=0), name=PLANTED_BAD)
    check(
        name in validation_arm_names(),
        "arm",
        f"one of {', '.join(validation_arm_names())}",
        repr(name),
        CodecError,
    )
    return try_arm(name, **given)
