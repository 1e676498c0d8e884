"""K-bits, V-bits and window sliders over one layer's attention, through a real cache and real kernels."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np

from tq_core.codecs.arms import get_arm
from tq_core.math.books import RATES
from tq_core.show import plates
from tq_core.show.attention import LayerBench, Reading
from tq_core.show.panel import Control, Settings

KEPT_READINGS = 64
WINDOWS = (0, 16, 32, 64, 128, 256)


class LayerPanel:
    """Left: every token's logit, exact against cached, for one query head. Right: output error per head."""

    def __init__(self, bench: LayerBench, title: str = "Bits of keys, bits of values, recent window") -> None:
        self.title, self._bench = title, bench
        arms = ("structured-turbo", "kivi-control")
        heads = tuple(range(bench.shape.n_query_heads))
        windows = tuple(w for w in WINDOWS if w < bench.n_tokens)
        window = min(32, windows[-1])
        self.controls = (
            Control("arm", "arm", arms, arms[0], "kivi-control takes whole bits"),
            Control("key_bits", "K bits", RATES, 3.0, "per key channel, before scales"),
            Control("value_bits", "V bits", RATES, 3.0, "per value channel, before scales"),
            Control("window", "window", windows, window, "newest tokens kept in float16"),
            Control("head", "query head", heads, 0, "whose logits are drawn"),
        )
        base = {"arm": "structured-turbo", "key_bits": 3.0, "value_bits": 3.0, "window": window, "head": 0}
        self.presets = (
            {**base, "key_bits": 4.0, "value_bits": 4.0},
            base,
            {**base, "key_bits": 2.0, "value_bits": 2.0, "window": 0},
        )
        self._readings: OrderedDict[tuple[Any, ...], Reading] = OrderedDict()
        for arm in arms:  # kernels are compiled at their first call, not at somebody's first move
            self.reading(arm, 3.0, 3.0, window)
        self.figure, (self._left, self._right) = plates.plate(8.2, 3.2, columns=2)
        self._draw_once()

    def _draw_once(self) -> None:
        exact = self._bench.exact[-1]
        low, high = float(exact.min()), float(exact.max())
        margin = 0.15 * (high - low)
        limits = (low - margin, high + margin)
        self._left.plot(limits, limits, color=plates.GREY, linewidth=1)
        (self._coded,) = self._left.plot(
            [0], [0], "o", markersize=3.5, color="#0072B2", fillstyle="none", label="compressed"
        )
        (self._recent,) = self._left.plot(
            [0], [0], "x", markersize=4.5, color="#D55E00", label="in the window"
        )
        self._left.set(xlabel="exact logit", ylabel="logit from the cache", xlim=limits, ylim=limits)
        self._left.legend(loc="upper left", frameon=False)
        heads = np.arange(self._bench.shape.n_query_heads)
        (self._errors,) = self._right.semilogy(
            heads, np.ones(len(heads)), **{**plates.STYLES[0], "linestyle": ""}
        )
        (self._chosen,) = self._right.semilogy(
            [0], [1], "s", color="#D55E00", markersize=11, fillstyle="none", label="drawn head"
        )
        self._right.set(
            xlabel="query head", ylabel="relative error of the attention output", ylim=(3e-4, 2), xticks=heads
        )
        self._right.legend(loc="upper right", frameon=False)
        self.moving = (self._coded, self._recent, self._errors, self._chosen)

    def reading(self, arm: str, key_bits: float, value_bits: float, window: int) -> Reading:
        """The cache's answers at these settings; the last few settings are kept."""
        key = (arm, key_bits, value_bits, window)
        if key not in self._readings:
            made = get_arm(arm, key_bits=key_bits, value_bits=value_bits, window=window)
            self._readings[key] = self._bench.read(made)
            if len(self._readings) > KEPT_READINGS:
                self._readings.popitem(last=False)
        self._readings.move_to_end(key)
        return self._readings[key]

    def update(self, **settings: Any) -> Mapping[str, object]:
        head = settings["head"]
        reading = self.reading(
            settings["arm"], settings["key_bits"], settings["value_bits"], settings["window"]
        )
        exact, cached = reading.exact[-1][head], reading.cached[-1][head]
        split = len(exact) - reading.ledger.tokens_recent
        self._coded.set_data(exact[:split], cached[:split])
        self._recent.set_data(exact[split:], cached[split:])
        self._errors.set_ydata(np.maximum(reading.output_error, 4e-4))
        self._chosen.set_data([head], [max(float(reading.output_error[head]), 4e-4)])
        return {
            "rank agreement": reading.rank,
            "top-1 kept": reading.top1,
            f"top-{10} overlap": reading.top10,
            "KL, nats": reading.kl,
            "output error": reading.mean_output_error,
            "stored bits per channel": reading.ledger.bits_per_channel_stored,
            "bits per channel now": reading.ledger.bits_per_channel_now,
        }

    def sentence(self, settings: Settings, numbers: Mapping[str, object]) -> str:
        return (
            f"K {settings['key_bits']} bits, V {settings['value_bits']} bits, window {settings['window']}: rank agreement "
            f"{numbers['rank agreement']:.4f}, top-1 kept {numbers['top-1 kept']:.0%}, output error "
            f"{numbers['output error']:.2%}; {numbers['stored bits per channel']:.2f} bits per channel in full pages, "
            f"{numbers['bits per channel now']:.2f} at this length with the window"
        )

    def alt(self, settings: Settings, numbers: Mapping[str, object]) -> str:
        return (
            "Left: logits from the cache against exact logits, scattered around the diagonal for compressed tokens and "
            "on it for the recent window. Right: relative error of each query head's output. "
            + self.sentence(settings, numbers)
        )
