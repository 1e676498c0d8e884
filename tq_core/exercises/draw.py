"""Pictures of what code touches: elements read and written, bits that an input moves, bars beside the specification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from tq_core.show import plates

TWO = ("#eeeeee", "#0072B2")
YOURS, SPEC = plates.STYLES[0], plates.STYLES[1]


@dataclass(frozen=True)
class Drawing:
    """A figure, its text alternative and the table of its numbers."""

    figure: Figure
    alt: str
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[object]] = field(default_factory=list)


def bars_beside(
    names: Sequence[str],
    yours: Sequence[float],
    spec: Sequence[float],
    xlabel: str,
    alt: str,
    line: float = np.nan,
) -> Drawing:
    """A bar for yours and a marker for the specification per name; a dashed line at ``line``."""
    figure, (axes,) = plates.plate(6.8, 1.4 + 0.28 * len(names))
    places = np.arange(len(names))[::-1]
    axes.barh(places, yours, color="#8fb8d8", edgecolor="#1f4e79", label="drawn code")
    axes.plot(spec, places, "s", color=SPEC["color"], label="specification")
    if np.isfinite(line):
        axes.axvline(line, color="#222222", linestyle="--")
    axes.set_yticks(places, names)
    axes.set(xlabel=xlabel)
    axes.grid(axis="y", visible=False)
    figure.legend(loc="outside upper right", ncols=2)
    rows = [[name, float(a), float(b)] for name, a, b in zip(names, yours, spec, strict=True)]
    return Drawing(figure, alt, ["", "drawn code", "specification"], rows)


def maps(
    pictures: Mapping[str, np.ndarray], labels: tuple[str, str], alt: str, colours: Sequence[str] = TWO
) -> Figure:
    """Small integer matrices beside each other, a colour per number; cells that are 0 are light."""
    height = max(p.shape[0] for p in pictures.values())
    figure, axes = plates.plate(7.2, min(1.2 + 0.16 * height, 4.0), columns=len(pictures))
    for ax, (title, picture) in zip(axes, pictures.items(), strict=True):
        ax.imshow(picture, cmap=ListedColormap(colours), vmin=0, vmax=len(colours) - 1, aspect="auto")
        ax.set(title=title, xlabel=labels[0], ylabel=labels[1])
        ax.grid(visible=False)
    return figure


class Touched(np.ndarray):
    """An array that notes which elements are read and written through indexing; views of it note too.

    ``log`` holds (kind, flat indices) in order, kind "read" or "write". Only what goes through ``x[...]`` is seen.
    """

    log: list[tuple[str, np.ndarray]]
    where: np.ndarray | None

    def __new__(cls, values: np.ndarray) -> Touched:
        made = np.array(values).view(cls)
        made.log, made.where = [], np.arange(made.size).reshape(made.shape)
        return made

    def __array_finalize__(self, parent: Any) -> None:
        self.log = getattr(parent, "log", [])
        self.where = None

    def _note(self, kind: str, key: Any) -> np.ndarray | None:
        if self.where is None or np.shape(self.where) != self.shape:
            return None
        touched = self.where[key]
        self.log.append((kind, np.atleast_1d(touched).ravel()))
        return np.asarray(touched)

    def __getitem__(self, key: Any) -> Any:
        where, found = self._note("read", key), super().__getitem__(key)
        if isinstance(found, Touched):
            found.where = where if np.shares_memory(found, self) else None
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        self._note("write", key)
        self.view(np.ndarray)[key] = np.asarray(value)

    def reshape(self, *shape: Any, **options: Any) -> Any:
        found = super().reshape(*shape, **options)
        if isinstance(found, Touched) and self.where is not None and np.shares_memory(found, self):
            found.where = self.where.reshape(found.shape)
        return found


def accesses(log: Sequence[tuple[str, np.ndarray]], n: int, alt: str) -> Drawing:
    """Elements against the order in which they were read (hollow) and written (filled)."""
    figure, (axes,) = plates.plate(7.2, 2.8)
    total = {}
    for kind, marker, fill in (("read", "o", "none"), ("write", "s", "full")):
        found = [
            (i, element) for i, (what, elements) in enumerate(log) if what == kind for element in elements
        ]
        points = np.array(found, np.int64).reshape(-1, 2)
        colour = plates.STYLES[kind == "write"]["color"]
        axes.plot(points[:, 0], points[:, 1], marker, color=colour, fillstyle=fill, label=kind)
        total[kind] = len(found)
    axes.set(xlabel="access", ylabel="element", ylim=(n - 0.5, -0.5), yticks=range(0, n, 4))
    figure.legend(loc="outside upper right", ncols=2)
    return Drawing(figure, alt, ["accesses", "elements"], [[kind, count] for kind, count in total.items()])
