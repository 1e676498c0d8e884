"""The museum's panel: pick an exhibit, see what each metric says of the right and of the faulty result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tq_core.show import plates
from tq_core.show.panel import Control, Settings
from validation.museum.exhibit import BETTER_WHEN_HIGHER, Readings, Shown
from validation.museum.table import METRICS, MISSED, STOPPED

FLOOR, CEILING = 1e-6, 30.0
PRESETS = ("B2", "A10", "M2", "G2")
_WORDS = 110  # characters of the fault that the figure shows in a line


def distance(name: str, value: float | None) -> float:
    """How far a metric is from perfect: 1 minus a share, an error as it is, a perplexity ratio's excess over 1; nan for None."""
    if value is None:
        return float("nan")
    best = 1.0 if BETTER_WHEN_HIGHER[name] or name == "ppl_ratio" else 0.0
    away = best - value if BETTER_WHEN_HIGHER[name] else value - best
    return min(max(away, FLOOR), CEILING)


class MuseumPanel:
    """One row per metric: a circle for the right result, a cross for the faulty one, the farther right the worse."""

    title = "One exhibit, every metric"

    def __init__(self, every: Sequence[Shown]) -> None:
        self._every = {s.exhibit.id: s for s in every}
        names = tuple(self._every)
        chosen = next((n for n in PRESETS if n in names), names[0])
        self.controls = (
            Control("exhibit", "exhibit", names, chosen, "kind and number, as in the tables above"),
        )
        self.presets = tuple({"exhibit": n} for n in PRESETS if n in names) or ({"exhibit": chosen},)
        self.figure, (axes,) = plates.plate(8.2, 3.4)
        rows = np.arange(len(METRICS))[::-1]
        blank = np.full(len(METRICS), np.nan)
        (self._right,) = axes.semilogx(
            blank, rows + 0.12, "o", color="#0072B2", fillstyle="none", markersize=9, label="right"
        )
        (self._faulty,) = axes.semilogx(
            blank, rows - 0.12, "X", color="#D55E00", markersize=8, label="faulty"
        )
        axes.set(xlim=(FLOOR / 2, 2 * CEILING), ylim=(-0.7, len(METRICS) + 0.2))
        axes.set(xlabel="distance from perfect (left edge: a millionth or less, or better than perfect)")
        axes.set_yticks(rows, list(METRICS.values()))
        axes.legend(loc="upper right", ncols=2)
        self._text = axes.text(
            FLOOR / 1.6, len(METRICS) - 0.25, "", fontsize=8.5, va="center", color="#222222"
        )
        self.moving = (self._right, self._faulty, self._text)

    @staticmethod
    def _distances(readings: Readings) -> list[float]:
        return [distance(name, value) for name, value in readings.as_dict().items() if name in METRICS]

    def update(self, **settings: Any) -> Mapping[str, object]:
        s = self._every[settings["exhibit"]]
        self._right.set_xdata(self._distances(s.right))
        self._faulty.set_xdata(self._distances(s.faulty))
        silent = all(value is None for value in s.right.as_dict().values())
        self._text.set_text("no metric has anything to say here" if silent else s.exhibit.title)
        return {
            "fault": s.exhibit.title,
            "metrics that are fooled": ", ".join(METRICS[n] for n in s.blind()) or "none",
            "gate": s.exhibit.stop.name,
            "verdict": STOPPED if s.works else MISSED,
        }

    def sentence(self, settings: Settings, numbers: Mapping[str, object]) -> str:
        e = self._every[settings["exhibit"]].exhibit
        return (
            f"{e.id}, {e.title}. Fault: {e.fault} Right: {e.value} Metrics that are fooled: "
            f"{numbers['metrics that are fooled']}. {numbers['gate']}: {numbers['verdict']}."
        )

    def alt(self, settings: Settings, numbers: Mapping[str, object]) -> str:
        return (
            "One row per metric, a circle for the right result and a cross for the faulty one, farther right is worse. "
            + self.sentence(settings, numbers)
        )
