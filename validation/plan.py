"""The settings of a run, fixed before it starts: model, arms, amount of text, budgets, seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tq_core.codecs.arms import Arm
from tq_core.errors import ValueRangeError, check
from validation.controls import COMPARATORS, arm_for

PARITY_SCOPES = ("full", "quick", "off")


@dataclass(frozen=True)
class Preset:
    """What a model is read with when nothing else is asked for, and the budgets that go with it."""

    tokens: int
    length: int
    kl_budget: float
    top1_budget: float
    kl_why: str
    top1_why: str


PRESETS: dict[str, Preset] = {}


@dataclass(frozen=True)
class Plan:
    """tokens: least number of scored tokens; length: tokens per document; budgets: limits of the quality gates.

    Raises ValueRangeError for a budget or seed outside its range or an unknown parity scope.
    """

    model: str
    arm: str
    comparators: tuple[str, ...]
    options: Mapping[str, Any]
    tokens: int
    length: int
    kl_budget: float
    top1_budget: float
    budgets_from: str
    kl_why: str
    top1_why: str
    backend: str | None = None
    parity: str = "quick"
    seed: int = 0
    asked_for: str = ""
    not_exercised: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        check(
            0 < self.kl_budget < float("inf"),
            "kl_budget",
            "nats, more than 0",
            self.kl_budget,
            ValueRangeError,
        )
        check(
            0 < self.top1_budget <= 1,
            "top1_budget",
            "a share in 0..1, not 0",
            self.top1_budget,
            ValueRangeError,
        )
        check(
            self.parity in PARITY_SCOPES,
            "parity",
            f"one of {', '.join(PARITY_SCOPES)}",
            self.parity,
            ValueRangeError,
        )
        check(self.seed >= 0, "seed", "0 or more", self.seed, ValueRangeError)
        check(self.tokens >= 1, "tokens", "at least 1 scored token", self.tokens, ValueRangeError)

    def arms(self, make: Callable[..., Arm] = arm_for) -> dict[str, Arm]:
        """The arm under test first, then those it is compared with, as ``make(name, **options)`` has them.

        Raises CodecError.
        """
        window = {k: v for k, v in self.options.items() if k in ("window", "sinks")}
        tested = make(self.arm, **self.options)
        return {self.arm: tested, **{n: make(n, **window) for n in self.comparators if n != self.arm}}

    def describe(self) -> dict[str, Any]:
        """JSON-able form."""
        plain = asdict(self)
        plain["options"] = dict(self.options)
        return plain


def make_plan(model: str = "tiny", arm_names: Sequence[str] | None = None, **settings: Any) -> Plan:
    """A plan with the model's preset for everything that is not given (or given as None).

    The first of ``arm_names`` is under test, the others are compared with it. ``settings`` are fields of
    Plan. Raises ValueRangeError or CodecError for what a run could not use.
    """
    check(model in PRESETS, "model", f"one of {', '.join(PRESETS)}", repr(model), ValueRangeError)
    preset = PRESETS[model]
    names = tuple(arm_names) if arm_names else COMPARATORS
    given = {k: v for k, v in settings.items() if v is not None}
    if len(names) == 1:
        names += tuple(n for n in COMPARATORS if n != names[0])
    own = [n for n in ("kl_budget", "top1_budget") if n in given and given[n] != getattr(preset, n)]
    defaults = {
        "options": {},
        "tokens": preset.tokens,
        "length": preset.length,
        "kl_budget": preset.kl_budget,
        "top1_budget": preset.top1_budget,
        "kl_why": "set by the caller" if "kl_budget" in own else preset.kl_why,
        "top1_why": "set by the caller" if "top1_budget" in own else preset.top1_why,
        "budgets_from": "caller" if own else "preset",
        "asked_for": model,
    }
    plan = Plan(model=model, arm=names[0], comparators=names[1:], **{**defaults, **given})
    plan.arms()
    return plan


# The figures below are means over the first documents of each model, repeated by `tq validate` with the
# options named; README.md has the table.
PRESETS["tiny"] = Preset(
    tokens=20 * 319,
    length=320,
    kl_budget=0.01,
    top1_budget=0.9,
    kl_why="Several times what the default arm measures on these episodes (0.002), and a quarter of what the planted bad arm does (0.04).",
    top1_why="Most words of an episode are filler that nothing determines, so near-ties flip; the planted bad arm falls to 0.82.",
)
PRESETS["smollm2"] = Preset(
    tokens=2_000,
    length=512,
    kl_budget=0.02,
    top1_budget=0.9,
    kl_why="On the first two texts the default arm measures 0.006, the same arm at 2.5 bits 0.023, at 2 bits 0.050, and without its "
    "window 0.13: the limit notices the loss of one bit of the keys.",
    top1_why="One changed word in ten is taken as the most that a reader may overlook, which is a judgement; the same arm at 2 bits "
    "keeps 88 % on the first two texts.",
)
PRESETS["gemma"] = Preset(
    tokens=2_000,
    length=512,
    kl_budget=0.02,
    top1_budget=0.9,
    kl_why="The limit of smollm2: one measure for both models. On the first two texts the default arm measures 0.045 and does not "
    "meet it.",
    top1_why="One changed word in ten is taken as the most that a reader may overlook, which is a judgement; the default arm keeps "
    "89 % on the first two texts.",
)
