"""The bits slider of the codec family: the best arm under so many bits, on the Pareto front of all, and one codec beside it.

Rows come from a comparison; nothing is measured here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_core.errors import ValueRangeError, check
from tq_core.show import plates
from tq_core.show.panel import Control, Settings

FULL_PAGES, ANY = "full pages", "any"
BUDGETS = (2.3, 2.5, 2.8, 3.0, 3.3, 3.5, 3.8, 4.0, 4.3, 4.5, 5.0, 6.0, 8.0, 8.6)
F64 = npt.NDArray[np.float64]
Row = Mapping[str, Any]


def front(bits: F64, loss: F64) -> tuple[F64, F64]:
    """Corners of the Pareto front: fewest bits first, each with less loss than all that take fewer bits."""
    order = np.lexsort((loss, bits))
    ahead = np.concatenate([[np.inf], np.minimum.accumulate(loss[order])[:-1]])
    corners = order[loss[order] < ahead]
    return bits[corners], loss[corners]


class FamilyPanel:
    """Every arm and rate as a point, the front as a staircase; the budget is a vertical line, the best left of it is named.

    ``rows`` have "codec", "label", "bits_all_in", "bits_at_length" (tokens as text to bits), "kl_mean" and
    "top1_agreement". Raises ValueRangeError without rows.
    """

    def __init__(self, rows: Sequence[Row], title: str = "Bits that you have, and what they buy") -> None:
        check(len(rows) > 0, "rows", "at least one", 0, ValueRangeError)
        self.title = title
        self._rows = [r for r in rows if r["bits_all_in"] < 10]
        contexts = (FULL_PAGES, *sorted({n for r in self._rows for n in r["bits_at_length"]}, key=int))
        codecs = (ANY, *dict.fromkeys(r["codec"] for r in self._rows))
        self.controls = (
            Control("budget", "bits", BUDGETS, 4.0, "per channel, all bytes counted"),
            Control("codec", "codec", codecs, ANY, "set one beside the best of all"),
            Control("context", "context", contexts, FULL_PAGES, "tokens; its float16 tail is counted too"),
        )
        self.presets = tuple(
            {"budget": b, "codec": ANY, "context": c}
            for b, c in ((3.0, FULL_PAGES), (4.0, FULL_PAGES), (4.0, contexts[-1]))
        )
        self._kl = np.array([max(float(r["kl_mean"]), 1e-7) for r in self._rows])
        self.figure, (self._axes,) = plates.plate(8.0, 4.0)
        self._draw_once()

    def _draw_once(self) -> None:
        start = self._bits(FULL_PAGES)
        look = {"facecolors": "none", "edgecolors": plates.STYLES[0]["color"], "label": "an arm at one rate"}
        self._points = self._axes.scatter(start, self._kl, s=26, **look)
        (self._front,) = self._axes.step(
            *front(start, self._kl), where="post", color="#444444", linewidth=1.2, label="Pareto front"
        )
        self._line = self._axes.axvline(4.0, color="#222222", linestyle="--", label="your bits")
        style = {"color": plates.STYLES[1]["color"], "linestyle": ""}
        (self._best,) = self._axes.plot([4], [1], marker="X", markersize=11, label="best that fits", **style)
        (self._own,) = self._axes.plot(
            [4], [1], "s", color="#A3478C", markersize=11, fillstyle="none", label="this codec"
        )
        self._name = self._axes.text(4.0, 1.0, "", fontsize=9, ha="left", va="bottom")
        self._axes.set(yscale="log", xlim=(1, 10.5), ylim=(self._kl.min() / 2, self._kl.max() * 2))
        self._axes.set(xlabel="bits per channel, keys and values", ylabel="mean next-token KL, nats")
        self._axes.legend(loc="upper right", fontsize=8, frameon=False)
        self.moving = (self._points, self._front, self._line, self._best, self._own, self._name)

    def _bits(self, context: str) -> F64:
        if context == FULL_PAGES:
            return np.array([r["bits_all_in"] for r in self._rows])
        return np.array([r["bits_at_length"][context] for r in self._rows])

    def _least(self, among: Any) -> int | None:
        found = np.flatnonzero(among)
        return int(found[self._kl[found].argmin()]) if found.size else None

    def update(self, **settings: Any) -> Mapping[str, object]:
        bits, budget, codec = self._bits(settings["context"]), settings["budget"], settings["codec"]
        self._points.set_offsets(np.column_stack([bits, self._kl]))
        self._front.set_data(*front(bits, self._kl))
        self._line.set_xdata([budget, budget])
        best = self._least(bits <= budget)
        own = self._least((bits <= budget) & np.array([r["codec"] == codec for r in self._rows]))
        for artist, row in ((self._best, best), (self._name, best), (self._own, own)):
            artist.set_visible(row is not None)
        numbers: dict[str, object] = {
            "best arm": "none",
            "its bits": "-",
            "KL": "-",
            "top-1 agreement": "-",
            "this codec": "-",
        }
        if best is not None:
            self._best.set_data([bits[best]], [self._kl[best]])
            self._name.set_position((bits[best] + 0.12, self._kl[best]))
            self._name.set_text(self._rows[best]["label"])
            numbers |= {"best arm": self._rows[best]["label"], "its bits": f"{bits[best]:.2f}"}
            numbers |= {
                "KL": f"{self._kl[best]:.3g}",
                "top-1 agreement": f"{self._rows[best]['top1_agreement']:.1%}",
            }
        if own is not None:
            self._own.set_data([bits[own]], [self._kl[own]])
            label = self._rows[own]["label"]
            numbers["this codec"] = f"{label}, {bits[own]:.2f} bits, KL {self._kl[own]:.3g}"
        return numbers

    def sentence(self, settings: Settings, numbers: Mapping[str, object]) -> str:
        where = (
            "in full pages"
            if settings["context"] == FULL_PAGES
            else f"for a context of {settings['context']} tokens"
        )
        if numbers["best arm"] == "none":
            return f"nothing fits into {settings['budget']:g} bits per channel {where}"
        said = (
            f"up to {settings['budget']:g} bits per channel {where}: {numbers['best arm']} with {numbers['its bits']} bits, "
            f"mean KL {numbers['KL']} nats, top-1 agreement {numbers['top-1 agreement']}"
        )
        if settings["codec"] == ANY:
            return said
        own = numbers["this codec"]
        return f"{said}; {settings['codec']}: " + ("nothing that fits" if own == "-" else str(own))

    def alt(self, settings: Settings, numbers: Mapping[str, object]) -> str:
        return (
            f"Scatter of mean next-token KL over bits per channel, {len(self._rows)} points, their Pareto front as a falling "
            "staircase, the budget as a dashed line, the best that fits as a cross: "
            + self.sentence(settings, numbers)
        )
