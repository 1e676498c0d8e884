"""The workbench: codec, bits, window, context, page size, model and budget, through real caches and the best kernels here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tq_core.errors import TqError
from tq_core.math.books import RATES
from tq_core.model.outline import KNOWN
from tq_core.model.outline_bytes import longest_context, plain_bytes, planned_bytes
from tq_core.show import plates
from tq_core.show.attention import Reading
from tq_core.show.budget_panel import longest_plain
from tq_core.show.page_size import PAGE_SIZES
from tq_core.show.panel import Control, Settings
from tq_core.show.workbench import LIMITS, Setting, Workbench

WINDOWS = (0, 16, 32, 64, 128)
BUDGETS = {"16 MiB": 2**24, "256 MiB": 2**28, "4 GiB": 2**32, "16 GiB": 2**34}
SPAN = (256, 4096, 65536, 1048576)  # contexts of the memory curve
DRAWN = 240  # points of a scatter, evenly picked: more would slow the page and show nothing
DEFAULTS: Settings = {
    "codec": "structured-turbo",
    "key_bits": 3.0,
    "value_bits": 3.0,
    "window": 32,
    "context": 1024,
    "page_tokens": 128,
    "model": "llama-8b",
    "budget": "4 GiB",
}
_LOW = 3e-4


class BenchPanel:
    """Left: logits, exact against cached. Middle: output error per query head. Right: the whole model's memory against context."""

    title = "The workbench: what a setting costs, and what it saves"

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        slow = sorted({n for c in bench.codecs if (n := LIMITS[c]) < max(bench.contexts)})
        note = (
            f"the slower ones up to {', '.join(map(str, slow))} tokens" if slow else "how vectors are stored"
        )
        base = {
            **DEFAULTS,
            "model": DEFAULTS["model"] if DEFAULTS["model"] in bench.models else bench.models[0],
        }
        base["context"] = min(base["context"], max(bench.contexts))
        sides = "per channel, before scales; of codecs that have a choice"
        choices = {
            "codec": ("codec", bench.codecs, note),
            "key_bits": ("K bits", RATES, sides),
            "value_bits": ("V bits", RATES, sides),
            "window": ("window", WINDOWS, "newest tokens kept in float16"),
            "context": ("context", bench.contexts, "tokens that the cache is filled with"),
            "page_tokens": ("page size", PAGE_SIZES, "tokens; moves memory, not quality"),
            "model": (
                "model",
                bench.models,
                "its head_dim and query heads per KV head; memory of all layers",
            ),
            "budget": ("budget", tuple(BUDGETS), "memory for the whole cache"),
        }
        self.controls = tuple(
            Control(name, label, options, base[name], words)
            for name, (label, options, words) in choices.items()
        )
        self.presets = (
            base,
            {**base, "key_bits": 2.0, "value_bits": 2.0},
            {**base, "codec": "kivi-control"} if "kivi-control" in bench.codecs else {**base, "window": 0},
        )
        self.figure, axes = plates.plate(10.2, 3.3, columns=3)
        self._draw_logits(axes[0])
        self._draw_errors(axes[1])
        self._draw_memory(axes[2])
        self.moving = (
            self._coded,
            self._recent,
            self._errors,
            self._mean,
            self._plain,
            self._cache,
            self._limit,
            self._here,
        )

    def _draw_logits(self, axes: Any) -> None:
        # Softmax looks at differences only, so logits are drawn below the largest exact one.
        span = max(float(np.ptp(bench.exact[-1][0])) for bench in self._bench.benches.values())
        self._limits = (-1.1 * span, 0.15 * span)
        axes.plot(self._limits, self._limits, color=plates.GREY, linewidth=1)
        look = {"markersize": 3.5, "fillstyle": "none", "color": "#0072B2"}
        (self._coded,) = axes.plot([0], [0], "o", label="compressed", **look)
        (self._recent,) = axes.plot([0], [0], "x", markersize=4.5, color="#D55E00", label="in the window")
        axes.set(
            xlabel="exact logit below the largest",
            ylabel="from the cache",
            xlim=self._limits,
            ylim=self._limits,
        )
        axes.legend(loc="upper left", frameon=False, fontsize=8)

    def _draw_errors(self, axes: Any) -> None:
        (self._errors,) = axes.semilogy([0], [1], label="a head", **{**plates.STYLES[0], "linestyle": ""})
        (self._mean,) = axes.semilogy([-1, 9], [1, 1], "--", color="#222222", label="mean")
        most = max(bench.shape.n_query_heads for bench in self._bench.benches.values())
        axes.set(xlabel="query head", ylabel="relative error of the output")
        axes.set(xlim=(-0.5, most - 0.5), ylim=(_LOW, 2), xticks=range(most))
        axes.legend(loc="upper right", frameon=False, fontsize=8)

    def _draw_memory(self, axes: Any) -> None:
        (self._plain,) = axes.loglog(SPAN, SPAN, label="plain fp16", **plates.STYLES[1])
        (self._cache,) = axes.loglog(SPAN, SPAN, label="this cache", **plates.STYLES[0])
        (self._limit,) = axes.loglog(SPAN, SPAN, color="#222222", linestyle=":", label="budget")
        (self._here,) = axes.loglog([1], [1], "X", color="#A3478C", markersize=10, label="context, longest")
        axes.set(
            xlabel="context (tokens)", ylabel="whole model's cache (MiB)", xlim=(200, 4e6), ylim=(0.1, 1e6)
        )
        axes.set_xticks(SPAN, ["256", "4K", "64K", "1M"])
        axes.minorticks_off()
        axes.legend(loc="upper left", frameon=False, fontsize=8)

    def update(self, **settings: Any) -> Mapping[str, object]:
        model, context, budget = settings["model"], settings["context"], settings["budget"]
        names = ("codec", "key_bits", "value_bits", "window", "page_tokens")
        setting = Setting(*[settings[name] for name in names])
        try:
            reading = self._bench.reading(model, context, setting)
        except TqError as error:
            raise self._bench.refusal(setting, error) from error
        outline, arm = KNOWN[model], self._bench.planned_arm(model, setting)
        lines, most = planned_bytes(outline, arm, context), longest_context(outline, arm, BUDGETS[budget])
        self._show_quality(reading)
        self._plain.set_ydata([plain_bytes(outline, n)["fp16"] / 2**20 for n in SPAN])
        self._cache.set_ydata([planned_bytes(outline, arm, n).total / 2**20 for n in SPAN])
        self._limit.set_ydata([BUDGETS[budget] / 2**20] * len(SPAN))
        self._here.set_data([context, max(most or 1, 1)], [lines.total / 2**20, BUDGETS[budget] / 2**20])
        return {
            "rank agreement": reading.rank,
            "top-1 kept": reading.top1,
            "output error": reading.mean_output_error,
            "bits per channel, full pages": reading.ledger.bits_per_channel_stored,
            "whole model, MiB": lines.total / 2**20,
            "of fp16": lines.total / plain_bytes(outline, context)["fp16"],
            "longest context": most,
            "longest as fp16": longest_plain(model, BUDGETS[budget]),
        }

    def _show_quality(self, reading: Reading) -> None:
        top = reading.exact[-1][0].max()
        exact, cached = (np.clip(x[-1][0] - top, *self._limits) for x in (reading.exact, reading.cached))
        split = len(exact) - reading.ledger.tokens_recent
        some = np.unique(np.linspace(0, split - 1, min(split, DRAWN)).astype(int)) if split else slice(0, 0)
        self._coded.set_data(exact[:split][some], cached[:split][some])
        self._recent.set_data(exact[split:], cached[split:])
        errors = np.maximum(reading.output_error, _LOW)
        self._errors.set_data(np.arange(len(errors)), errors)
        self._mean.set_ydata([float(errors.mean())] * 2)

    def sentence(self, settings: Settings, numbers: Mapping[str, object]) -> str:
        longest = numbers["longest context"]
        return (
            f"{settings['codec']}, {settings['model']}, {settings['context']:,} tokens: rank agreement of logits "
            f"{numbers['rank agreement']:.4f}, output error {numbers['output error']:.2%}; the model's cache takes "
            f"{numbers['whole model, MiB']:,.1f} MiB, {numbers['of fp16']:.0%} of plain fp16; {settings['budget']} hold "
            f"{longest:,} tokens (fp16: {numbers['longest as fp16']:,})"
        )

    def alt(self, settings: Settings, numbers: Mapping[str, object]) -> str:
        return (
            "Left: logits from the cache against exact ones, circles for compressed tokens, crosses on the diagonal for the "
            "window. Middle: relative error of each query head's output. Right: memory of the whole model against context, "
            "with fp16 above and the budget as a level line. " + self.sentence(settings, numbers)
        )
