"""What a comparison runs: arms from the registry, the rates that each can have, one mask for all, amounts of text.

No list of arms is kept here. An arm is tried at every rate that is asked for and in every published form of its
options; what its factory refuses is not a form of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import lcm
from typing import Any

import numpy as np

from tq_core.codecs.aither import MODES
from tq_core.codecs.arm import Arm
from tq_core.codecs.arms import arm_names, arm_options, calibrated_arm_names, get_arm
from tq_core.codecs.fit import fit_arm
from tq_core.codecs.fp8 import FORMATS
from tq_core.codecs.qjl import RATIOS
from tq_core.codecs.vllm_turbo import PRESETS as VLLM_PRESETS
from tq_core.errors import TqError, ValueRangeError, check

RATES = (2.0, 2.5, 3.0, 3.5, 4.0)
# Options that set a rate by another name than bits, with the values that their source publishes.
FORMS: dict[str, tuple[Any, ...]] = {
    "preset": tuple(VLLM_PRESETS),
    "mode": tuple(MODES),
    "format": tuple(FORMATS),
    "ratio": tuple(RATIOS),
}
BITS = ("key_bits", "value_bits")
RATE = "rate"
POLICY = ("window", "sinks")


@dataclass(frozen=True)
class Preset:
    """What a model is read with when nothing else is asked for."""

    documents: int
    tokens: int
    calibration: int
    window: int
    sinks: int


PRESETS = {"tiny": Preset(documents=20, tokens=192, calibration=2, window=16, sinks=4)}
OTHER_MODELS = Preset(documents=20, tokens=512, calibration=12, window=32, sinks=4)


@dataclass(frozen=True)
class Entry:
    """One arm in one form: its options, without window and sinks, which all entries share."""

    name: str
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def label(self) -> str:
        """The arm and what sets its rate, such as "eden 3" or "eden 3.5/3"; the name alone when nothing does."""
        given = {**arm_options(self.name), **dict(self.options)}
        bits = [f"{given[b]:g}" for b in BITS if b in given]
        words = ["/".join(dict.fromkeys(bits))] if bits else []
        own = {k: given[k] for k in FORMS if k in given} | {k: v for k, v in self.options if k not in BITS}
        words += [v if isinstance(v, str) and k in FORMS else f"{k}={v}" for k, v in own.items()]
        return " ".join([self.name, *words])

    def options_with(self, window: int, sinks: int) -> dict[str, Any]:
        """All options, for ``get_arm`` or ``fit_arm``; the arm without coded tokens takes no window."""
        taken = arm_options(self.name)
        return dict(self.options) | {k: v for k, v in (("window", window), ("sinks", sinks)) if k in taken}


@lru_cache(maxsize=1)
def _stand_in() -> np.ndarray:
    """Queries, keys and values of one layer on which a calibrated arm shows which options it takes."""
    return np.random.default_rng(1).standard_normal((1, 256, 1, 64)).astype(np.float32)


def try_arm(name: str, **options: Any) -> Arm:
    """The arm, fitted on a stand-in when it must be fitted on something. Raises the errors of its factory."""
    if name in calibrated_arm_names():
        return fit_arm(name, _stand_in(), _stand_in(), None, _stand_in(), **options)
    return get_arm(name, **options)


def parse_arm(text: str) -> Entry:
    """An entry of "name" or "name:option=value:option=value". Raises CodecError or ValueRangeError."""
    name, *parts = text.strip().split(":")
    options: dict[str, Any] = {}
    for part in parts:
        key, sign, value = part.partition("=")
        check(bool(key and sign), "arms", "name:option=value", repr(text), ValueRangeError)
        try:
            options[key] = json.loads(value)
        except ValueError:
            options[key] = value
    check(
        not set(options) & set(POLICY), "arms", "window and sinks for all arms", repr(text), ValueRangeError
    )
    arm_options(name)
    return Entry(name, tuple(options.items()))


def forms(entry: Entry, rates: Sequence[float] = RATES) -> list[Entry]:
    """The entry as it stands and at every rate and published form that its arm accepts, each once.

    Rates apply to keys and values alike. An entry that says its bits itself stays as it is. Raises CodecError when
    the entry's own options are not accepted.
    """
    try_arm(entry.name, **dict(entry.options))
    known, given = arm_options(entry.name), dict(entry.options)
    if set(given) & {*BITS, RATE, *FORMS}:
        return [entry]
    trials: list[dict[str, Any]] = [{}]
    if RATE in known:
        trials += [{RATE: r} for r in rates]
    elif bits := [b for b in BITS if b in known]:
        trials += [dict.fromkeys(bits, int(r) if r == int(r) else r) for r in rates]
    trials += [{name: value} for name, values in FORMS.items() if name in known for value in values]
    found: dict[tuple[Any, ...], Entry] = {}
    for trial in trials:
        options = {**given, **trial}
        try:
            try_arm(entry.name, **options)
        except TqError:
            continue
        # 3 and 3.0 are equal and hash alike, so the defaults and the same rate given once more are one form.
        found.setdefault(
            tuple(options.get(k, known[k]) for k in known), Entry(entry.name, tuple(options.items()))
        )
    return list(found.values())


def entries(arms: Sequence[str] | None = None, rates: Sequence[float] = RATES) -> list[Entry]:
    """All arms of the registry (or those named, as ``parse_arm`` reads them) in all their forms.

    Raises ValueRangeError for a rate outside 1..16 and CodecError for an arm or option that does not exist.
    """
    for rate in rates:
        check(1 <= rate <= 16, "rates", "bits per channel in 1..16", rate, ValueRangeError)
    names = list(arms) if arms else [*arm_names(), *calibrated_arm_names()]
    found = [form for name in names for form in forms(parse_arm(name), rates)]
    return list(dict.fromkeys(found))


@dataclass(frozen=True)
class Plan:
    """Everything that decides a comparison's numbers but the model's weights and the code.

    flush_tokens: tokens that leave every arm's window together, so that no arm holds more of them in float16.
    """

    model: str
    entries: tuple[Entry, ...]
    documents: int
    tokens: int
    calibration: int
    window: int
    sinks: int
    flush_tokens: int

    @property
    def mask(self) -> str:
        """The common full-precision mask in words."""
        return (
            f"float16 for every arm: the first {self.sinks} tokens, the newest {self.window}, "
            f"and up to {self.flush_tokens - 1} more that wait for a group of {self.flush_tokens}"
        )

    def describe(self) -> dict[str, Any]:
        """JSON-able form, without the entries."""
        plain = {k: v for k, v in vars(self).items() if k != "entries"}
        return {**plain, "mask": self.mask}


def common_flush(chosen: Sequence[Entry], make: Callable[..., Arm] = try_arm) -> int:
    """The smallest number of tokens that is whole groups of every arm."""
    return lcm(*(make(e.name, **dict(e.options)).flush_tokens for e in chosen))


def make_plan(
    model: str = "tiny",
    arms: Sequence[str] | None = None,
    rates: Sequence[float] = RATES,
    **amounts: int | None,
) -> Plan:
    """A plan with the model's preset for every amount (documents, tokens, calibration, window, sinks) not given.

    Raises ValueRangeError or CodecError for what could not be run.
    """
    preset: Mapping[str, int] = vars(PRESETS.get(model, OTHER_MODELS))
    unknown = sorted(set(amounts) - set(preset))
    check(not unknown, "amounts", f"some of {', '.join(preset)}", ", ".join(unknown), ValueRangeError)
    full = {**preset, **{k: v for k, v in amounts.items() if v is not None}}
    for name, least in (("documents", 1), ("tokens", 2), ("calibration", 1), ("window", 0), ("sinks", 0)):
        check(full[name] >= least, name, f"{least} or more", full[name], ValueRangeError)
    chosen = entries(arms, rates)
    flush = common_flush(chosen)
    least = full["sinks"] + full["window"] + flush
    check(
        full["tokens"] >= least,
        "tokens",
        f"{least} or more, so that every arm compresses something (sinks, window and a group of {flush})",
        full["tokens"],
        ValueRangeError,
    )
    return Plan(model, tuple(chosen), flush_tokens=flush, **full)
