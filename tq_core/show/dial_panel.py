"""The first slider: one dial for bits, what attention sees of it, and what it saves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tq_core.codecs.arms import get_arm
from tq_core.math.books import RATES
from tq_core.show import plates
from tq_core.show.attention import LayerBench, Reading
from tq_core.show.panel import Control, Settings

BASELINES = {"float32": 32.0, "float16": 16.0, "q8_0": 34 * 8 / 32}
WINDOW = 32


class DialPanel:
    """Left: logits of one query head, exact against cached. Right: stored bits per channel beside plain formats."""

    title = "One dial: bits for keys and values"
    controls = (Control("bits", "bits", RATES, 3.0, "per channel, keys and values alike"),)
    presets = ({"bits": 2.0}, {"bits": 3.0}, {"bits": 4.0})

    def __init__(self, bench: LayerBench) -> None:
        self._bench = bench
        self._readings: dict[float, Reading] = {}
        self.figure, (left, right) = plates.plate(8.2, 2.9, columns=2)
        exact = bench.exact[-1][0]
        margin = 0.15 * float(exact.max() - exact.min())
        limits = (float(exact.min()) - margin, float(exact.max()) + margin)
        left.plot(limits, limits, color=plates.GREY, linewidth=1)
        (self._points,) = left.plot([0], [0], "o", markersize=3.5, color="#0072B2", fillstyle="none")
        left.set(xlabel="exact logit", ylabel="logit from the cache", xlim=limits, ylim=limits)
        names = [*BASELINES, "this cache"]
        bars = right.barh(
            names[::-1], [0.0, *list(BASELINES.values())[::-1]], color="#c8c8c8", edgecolor="#444444"
        )
        self._bar = bars.patches[0]
        self._bar.set_facecolor("#0072B2")
        self._label = right.text(0, 0, "", va="center")
        right.set(xlabel="stored bits per channel", xlim=(0, 34))
        right.grid(axis="y", visible=False)
        self.moving = (self._points, self._bar, self._label)

    def update(self, **settings: Any) -> Mapping[str, object]:
        bits = settings["bits"]
        if bits not in self._readings:
            arm = get_arm("structured-turbo", key_bits=bits, value_bits=bits, window=WINDOW)
            self._readings[bits] = self._bench.read(arm)
        reading = self._readings[bits]
        stored = reading.ledger.bits_per_channel_stored
        self._points.set_data(reading.exact[-1][0], reading.cached[-1][0])
        self._bar.set_width(stored)
        self._label.set_text(f" {stored:.2f}")
        self._label.set_position((stored, 0))
        return {
            "rank agreement": reading.rank,
            "output error": reading.mean_output_error,
            "stored bits per channel": stored,
            "smaller than float16": f"{16 / stored:.1f} x",
        }

    def sentence(self, settings: Settings, numbers: Mapping[str, object]) -> str:
        return (
            f"{settings['bits']} bits: logits keep {numbers['rank agreement']:.1%} rank agreement, the attention output is off by "
            f"{numbers['output error']:.1%}, full pages are {numbers['smaller than float16']} smaller than float16"
        )

    def alt(self, settings: Settings, numbers: Mapping[str, object]) -> str:
        return (
            "Left: logits read from the compressed cache lie around the diagonal of exact logits. Right: bars of stored bits per "
            "channel for float32, float16, q8_0 and this cache. " + self.sentence(settings, numbers)
        )
