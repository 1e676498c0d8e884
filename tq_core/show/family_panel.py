"""The budget slider of the codec family: which arm is best under so many bits, and what a context's float16 tail does to it.

Rows come from a comparison; nothing is measured here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tq_core.errors import ValueRangeError, check
from tq_core.show import plates
from tq_core.show.panel import Control, Settings

FULL_PAGES = "full pages"
BUDGETS = (2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 8.0)
Row = Mapping[str, Any]


class FamilyPanel:
    """Every arm and rate as a point; the budget is a vertical line, the best point left of it is named.

    ``rows`` have "label", "bits_all_in", "bits_at_length" (tokens as text to bits) and "kl_mean". Raises ValueRangeError
    without rows.
    """

    title = "Bits that you have, and the context they are for"

    def __init__(self, rows: Sequence[Row]) -> None:
        check(len(rows) > 0, "rows", "at least one", 0, ValueRangeError)
        self._rows = [r for r in rows if r["bits_all_in"] < 10]
        contexts = (FULL_PAGES, *sorted({n for r in self._rows for n in r["bits_at_length"]}, key=int))
        self.controls = (
            Control("budget", "bits", BUDGETS, 4.0, "per channel, all bytes counted"),
            Control("context", "context", contexts, FULL_PAGES, "tokens; its float16 tail is counted too"),
        )
        self.presets = tuple(
            {"budget": b, "context": c}
            for b, c in ((3.0, FULL_PAGES), (4.0, FULL_PAGES), (4.0, contexts[-1]))
        )
        self.figure, (self._axes,) = plates.plate(8.0, 4.0)
        kl = [max(float(r["kl_mean"]), 1e-7) for r in self._rows]
        look = {"facecolors": "none", "edgecolors": plates.STYLES[0]["color"]}
        self._points = self._axes.scatter([r["bits_all_in"] for r in self._rows], kl, s=26, **look)
        self._line = self._axes.axvline(4.0, color="#222222", linestyle="--")
        style = {"color": plates.STYLES[1]["color"], "marker": "X", "markersize": 11, "linestyle": ""}
        (self._best,) = self._axes.plot([4.0], [kl[0]], **style)
        self._name = self._axes.text(4.0, kl[0], "", fontsize=9, ha="left", va="bottom")
        self._axes.set(
            yscale="log",
            xlim=(1, 10.5),
            xlabel="bits per channel, keys and values",
            ylabel="mean next-token KL, nats",
        )
        self._kl = np.array(kl)
        self.moving = (self._points, self._line, self._best, self._name)

    def _bits(self, context: str) -> np.ndarray:
        if context == FULL_PAGES:
            return np.array([r["bits_all_in"] for r in self._rows])
        return np.array([r["bits_at_length"][context] for r in self._rows])

    def update(self, **settings: Any) -> Mapping[str, object]:
        bits, budget = self._bits(settings["context"]), settings["budget"]
        self._points.set_offsets(np.column_stack([bits, self._kl]))
        self._line.set_xdata([budget, budget])
        fits = np.flatnonzero(bits <= budget)
        self._best.set_visible(bool(fits.size))
        self._name.set_visible(bool(fits.size))
        if not fits.size:
            return {"best arm": "none", "its bits": "-", "KL": "-", "top-1 agreement": "-"}
        best = int(fits[self._kl[fits].argmin()])
        row = self._rows[best]
        self._best.set_data([bits[best]], [self._kl[best]])
        self._name.set_position((bits[best] + 0.12, self._kl[best]))
        self._name.set_text(row["label"])
        return {
            "best arm": row["label"],
            "its bits": f"{bits[best]:.2f}",
            "KL": f"{row['kl_mean']:.3g}",
            "top-1 agreement": f"{row['top1_agreement']:.1%}",
        }

    def sentence(self, settings: Settings, numbers: Mapping[str, object]) -> str:
        where = (
            "in full pages"
            if settings["context"] == FULL_PAGES
            else f"for a context of {settings['context']} tokens"
        )
        if numbers["best arm"] == "none":
            return f"nothing fits into {settings['budget']:g} bits per channel {where}"
        return (
            f"up to {settings['budget']:g} bits per channel {where}: {numbers['best arm']} with {numbers['its bits']} bits, "
            f"mean KL {numbers['KL']} nats, top-1 agreement {numbers['top-1 agreement']}"
        )

    def alt(self, settings: Settings, numbers: Mapping[str, object]) -> str:
        return (
            f"Scatter of mean next-token KL over bits per channel, {len(self._rows)} points, with the budget as a dashed line: "
            + self.sentence(settings, numbers)
        )
