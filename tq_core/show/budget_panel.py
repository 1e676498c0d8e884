"""The budget sliders: bits, window, context and model to bytes by ledger line and the longest context."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from matplotlib.patches import Rectangle
from matplotlib.text import Text

from tq_core.cache.breakdown import Breakdown
from tq_core.codecs.arms import Arm, get_arm
from tq_core.math.books import RATES
from tq_core.model.outline import KNOWN
from tq_core.model.outline_bytes import longest_context, plain_bytes, planned_bytes
from tq_core.show import plates
from tq_core.show.panel import Control, Settings

GROUPS = {
    "codes": ("codes",),
    "scales, sidecars": ("scales", "sidecars"),
    "headers, padding, empty": ("headers", "padding", "empty slots"),
    "window and sinks": ("recent window", "sink tokens"),
    "idle, tables, scratch": ("idle pages", "block tables", "scratch", "fixed tables"),
}
COLOURS = ("#5b9bd5", "#56B4E9", "#999999", "#E69F00", "#dddddd", "#ffffff")
HATCHES = ("", "//", "xx", "..", "\\\\", "")
BUDGETS = {
    "64 MiB": 2**26,
    "256 MiB": 2**28,
    "1 GiB": 2**30,
    "4 GiB": 2**32,
    "16 GiB": 2**34,
    "64 GiB": 2**36,
}
CONTEXTS = (512, 2048, 8192, 32768, 131072, 1048576)
DEFAULTS: Settings = {
    "model": "llama-8b",
    "key_bits": 3.5,
    "value_bits": 3.0,
    "window": 128,
    "context": 32768,
    "budget": "4 GiB",
}
_MOST = 20.0  # bits per channel, the end of the left axis


@lru_cache(maxsize=len(KNOWN) * len(BUDGETS))
def longest_plain(model: str, budget: int) -> int | None:
    """Longest context of a known model in so many bytes, everything in float16."""
    return longest_context(KNOWN[model], get_arm("fp16"), budget)


def grouped(lines: Breakdown) -> dict[str, int]:
    """Bytes of the ledger's lines in the groups that the figure tells apart."""
    return {name: sum(lines.nbytes[line] for line in members) for name, members in GROUPS.items()}


class BudgetPanel:
    """Left: bits per channel, ledger line upon ledger line, beside plain formats. Right: bytes against context, with the budget."""

    title = "What a cache takes, and how far a budget reaches"
    controls = (
        Control(
            "model", "model", tuple(KNOWN), "llama-8b", "attention shape; local layers keep their window"
        ),
        Control("key_bits", "K bits", RATES, 3.5, "per key channel, before scales"),
        Control("value_bits", "V bits", RATES, 3.0, "per value channel, before scales"),
        Control("window", "window", (0, 32, 128, 512, 2048), 128, "newest tokens kept in float16"),
        Control("context", "context", CONTEXTS, 32768, "tokens in the cache"),
        Control("budget", "budget", tuple(BUDGETS), "4 GiB", "memory for the whole cache"),
    )
    presets = (
        DEFAULTS,
        {**DEFAULTS, "key_bits": 2.0, "value_bits": 2.0, "window": 0},
        {**DEFAULTS, "model": "smollm2", "context": 2048, "budget": "64 MiB"},
    )

    def __init__(self) -> None:
        self.figure, (self._left, self._right) = plates.plate(9.2, 3.4, columns=2)
        rows = [*GROUPS, "all"]
        self._parts: list[Rectangle] = []
        self._texts: list[Text] = []
        for row, (colour, hatch) in enumerate(zip(COLOURS, HATCHES)):
            bar = Rectangle((0, row - 0.4), 1, 0.8, facecolor=colour, edgecolor="#222222", hatch=hatch)
            self._parts.append(self._left.add_patch(bar))
            self._texts.append(self._left.text(0, row, "", va="center", fontsize=8.5))
        plain = plain_bytes(KNOWN["llama-8b"], 1)
        for name, height in (("fp16", -0.75), ("q8_0", -0.75), ("fp8", -1.15)):
            bits = 16 * plain[name] / plain["fp16"]
            self._left.axvline(bits, color=plates.GREY, linestyle="--", linewidth=1)
            self._left.text(bits, height, f" {name}", fontsize=8, color="#444444")
        self._left.set(
            xlabel="bits per channel, line upon line", xlim=(0, _MOST), ylim=(len(rows) - 0.5, -1.6)
        )
        self._left.set_yticks(range(len(rows)), rows, fontsize=8.5)
        self._left.grid(axis="y", visible=False)
        (self._fp16,) = self._right.loglog(CONTEXTS, CONTEXTS, label="plain fp16", **plates.STYLES[1])
        (self._cache,) = self._right.loglog(CONTEXTS, CONTEXTS, label="this cache", **plates.STYLES[0])
        (self._limit,) = self._right.loglog(
            CONTEXTS, CONTEXTS, color="#222222", linestyle=":", label="budget"
        )
        (self._here,) = self._right.loglog([1], [1], "X", color="#A3478C", markersize=11, label="context")
        self._right.set(xlabel="context (tokens)", ylabel="cache (MiB)", xlim=(400, 1.4e6), ylim=(0.3, 1e6))
        self._right.set_xticks(CONTEXTS, ["512", "2K", "8K", "32K", "128K", "1M"])
        self._right.minorticks_off()
        self._right.legend(fontsize=7.5, loc="upper left")
        self.moving = (*self._parts, *self._texts, self._fp16, self._cache, self._limit, self._here)

    @staticmethod
    def arm(settings: Settings) -> Arm:
        """The arm of these settings."""
        options = {name: settings[name] for name in ("key_bits", "value_bits", "window")}
        return get_arm("structured-turbo", **options)

    def update(self, **settings: Any) -> Mapping[str, object]:
        outline, arm, tokens = KNOWN[settings["model"]], self.arm(settings), settings["context"]
        budget, lines = BUDGETS[settings["budget"]], planned_bytes(outline, arm, tokens)
        plain = plain_bytes(outline, tokens)["fp16"]
        per_channel, at = lines.total / (lines.n_tokens * lines.channels), 0.0
        for patch, text, nbytes in zip(self._parts, self._texts, [*grouped(lines).values(), lines.total]):
            width, start = 8 * per_channel * nbytes / lines.total, 0.0 if nbytes == lines.total else at
            patch.set_x(min(start, _MOST))
            patch.set_width(min(width, _MOST - patch.get_x()))
            text.set_text(f" {width:.3f}")
            text.set_x(min(start + width, 0.85 * _MOST))
            at += width
        self._fp16.set_ydata([plain_bytes(outline, n)["fp16"] / 2**20 for n in CONTEXTS])
        self._cache.set_ydata([planned_bytes(outline, arm, n).total / 2**20 for n in CONTEXTS])
        self._limit.set_ydata([budget / 2**20] * len(CONTEXTS))
        self._here.set_data([tokens], [lines.total / 2**20])
        return {
            "MiB": lines.total / 2**20,
            "of fp16": lines.total / plain,
            **{f"{name}, MiB": nbytes / 2**20 for name, nbytes in grouped(lines).items()},
            "longest context": longest_context(outline, arm, budget),
            "longest as fp16": longest_plain(settings["model"], budget),
        }

    def sentence(self, settings: Settings, numbers: Mapping[str, object]) -> str:
        fits = "fits" if numbers["longest context"] >= settings["context"] else "does not fit"  # type: ignore[operator]
        return (
            f"{settings['model']}, K {settings['key_bits']} bits, V {settings['value_bits']} bits, window "
            f"{settings['window']}: {settings['context']:,} tokens take {numbers['MiB']:,.1f} MiB, "
            f"{numbers['of fp16']:.0%} of plain fp16; {settings['budget']} {fits}, and holds "
            f"{numbers['longest context']:,} tokens (fp16 arm: {numbers['longest as fp16']:,})"
        )

    def alt(self, settings: Settings, numbers: Mapping[str, object]) -> str:
        return (
            "Left: bits per channel as bars, each ledger line beginning where the one before ends, with plain formats as "
            "upright lines. Right: cache size "
            "against context for fp16 and this cache on logarithmic axes, with the budget as a level line. "
            + self.sentence(settings, numbers)
        )
