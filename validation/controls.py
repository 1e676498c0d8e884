"""Arms for validation: those of the library, a planted bad one that every quality gate must stop, and the controls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tq_core.codecs.arm import Arm
from tq_core.codecs.arms import arm_names, arm_options, calibrated_arm_names, get_arm
from tq_core.codecs.fp16 import RECENT_PAGE_TOKENS, HalfKeys, HalfValues
from tq_core.errors import CodecError, check
from validation.compare.plan import try_arm
from validation.engine.cell import SOURCE, Seat

REFERENCE = "fp16"
NO_OP = "no-op"
PLANTED_BAD = "planted-bad"

# Control -> what it is there to tell.
CONTROLS: dict[str, str] = {
    PLANTED_BAD: "must fail the budget",
    NO_OP: "must be zero",
    "source": "rounding of fp16 storage alone: the model's float32 cache against the fp16 cache",
    "keys-only": "the arm's keys, values in fp16",
    "values-only": "the arm's values, keys in fp16",
    "sinks-0": "no protected first token",
    "sinks-1": "one protected first token",
    "sinks-4": "four protected first tokens",
    "rotation-seeds": "other random rotations of the same arm",
    "same-mask": "the arm with as many tokens in fp16 as those beside it",
}
CONTROL_NAMES = tuple(CONTROLS)


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


@dataclass(frozen=True)
class PagedHalfKeys(HalfKeys):
    """float16 keys in pages as long as the values'."""

    page_tokens: int = RECENT_PAGE_TOKENS


@dataclass(frozen=True)
class PagedHalfValues(HalfValues):
    """float16 values in pages as long as the keys'."""

    page_tokens: int = RECENT_PAGE_TOKENS


def one_side(arm: Arm, side: str) -> Arm:
    """The arm with only its keys or only its values compressed. side: "keys" or "values"."""
    pages = arm.key_codec.page_tokens
    if side == "keys":
        return replace(arm, name=f"{arm.name}, keys only", value_codec=PagedHalfValues(pages))
    return replace(arm, name=f"{arm.name}, values only", key_codec=PagedHalfKeys(pages))


def control_seats(
    names: Sequence[str], tested: Arm, options: Mapping[str, Any], beside: Mapping[str, Arm], reference: Arm,
    seeds: Sequence[int], make: Callable[..., Arm] = arm_for,
) -> list[tuple[str, Seat]]:  # fmt: skip
    """(control, seat) for every control that is a reading of its own; a control may have several seats or none.

    beside: the arms beside the one under test; their masks are borrowed. seeds: of the rotation. A control that would
    repeat the arm under test, or that it has no option for, has no seat.
    """
    out: list[tuple[str, Seat]] = []
    coded = tested.window is not None
    for name in names:
        if name == PLANTED_BAD:
            out.append((name, Seat(name, arm_for(PLANTED_BAD), "paged", replies=False)))
        elif name == NO_OP:
            out.append((name, Seat(name, reference, "paged")))
        elif name == "source":
            out.append((name, Seat(SOURCE, reference, "source")))
        elif name in ("keys-only", "values-only") and coded:
            arm = one_side(tested, name.removesuffix("-only"))
            out.append((name, Seat(name, arm, "simulated")))
        elif name.startswith("sinks-") and coded and int(name[6:]) != tested.sinks:
            out.append((name, Seat(name, replace(tested, sinks=int(name[6:])), "simulated")))
        elif name == "rotation-seeds" and tested.name in arm_names() and "seed" in arm_options(tested.name):
            for seed in seeds:
                other = make(tested.name, **{**options, "seed": seed})
                if other.digest != tested.digest:
                    out.append((name, Seat(f"rotation seed {seed}", other, "simulated")))
        elif name == "same-mask" and coded:
            for label, arm in beside.items():
                groups = arm.flush_tokens
                if (
                    groups > tested.flush_tokens
                    and groups % tested.flush_tokens == 0
                    and arm.window is not None
                ):
                    masked = replace(tested, window=arm.window, sinks=arm.sinks)
                    out.append((name, Seat(f"mask of {label}", masked, "simulated", groups)))
    return out
