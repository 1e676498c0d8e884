"""Sliders around a view: the only place that wires widgets.

A view computes and moves the artists of one persistent figure; the panel turns slider moves into
calls of it and puts the new SVG and a sentence into the page. ipywidgets keeps one message in
flight, so a move that takes a few ten milliseconds needs no debouncing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import ipywidgets as widgets
from matplotlib.artist import Artist
from matplotlib.figure import Figure

from tq_core.errors import TqError
from tq_core.show import html, plates
from tq_core.show.choice import Choice

Settings = dict[str, Any]


@dataclass(frozen=True)
class Control:
    """One slider over a few values; ``help`` is the sentence under its name."""

    name: str
    label: str
    options: tuple[Any, ...]
    default: Any
    help: str


class View(Protocol):
    """What a panel shows: ``figure`` is built once, ``update`` changes the artists listed in ``moving``."""

    title: str
    controls: tuple[Control, ...]
    presets: Sequence[Settings]
    figure: Figure
    moving: Sequence[Artist]

    def update(self, **settings: Any) -> Mapping[str, object]:
        """Numbers of these settings by column name; the figure then shows them."""

    def sentence(self, settings: Settings, numbers: Mapping[str, object]) -> str:
        """The result in words, short enough to be read out at each move."""

    def alt(self, settings: Settings, numbers: Mapping[str, object]) -> str:
        """What the figure shows at these settings."""


class Panel:
    """Sliders, a readout and a figure. ``set(name=value)`` moves sliders from code, as tests do.

    ``drawn`` are the settings that readout and figure show, or that the readout refuses.
    """

    def __init__(self, view: View) -> None:
        self.view = view
        self._choices = {control.name: _choice(control) for control in view.controls}
        self._readout = widgets.HTML()
        self._still, self._picture = (_layer() for _ in range(2))
        self._readout.add_class("tq-readout")
        self._still.add_class("tq-still")
        self._picture.add_class("tq-picture")
        self.alt = ""
        self.numbers: Mapping[str, object] = {}
        head = widgets.HTML(f"<b>{view.title}</b>")
        # Two layers in one cell of a grid: a move sends and draws the upper one alone.
        picture = widgets.GridBox(
            [self._still, self._picture], layout={"grid_template_columns": "minmax(0, 1fr)"}
        )
        self.widget = widgets.VBox([head, *self._choices.values(), self._readout, picture])
        for name in ("tq-panel", f"tq-{type(view).__name__}"):
            self.widget.add_class(name)
        self.moves = 0
        self.drawn: Settings = {}
        view.update(**self.settings)
        self._frames = plates.LiveSvg(view.figure, view.moving, salt=type(view).__name__)
        self._still.value = self._frames.still
        self._draw()
        for choice in self._choices.values():
            choice.observe(self._moved, names="value")

    @property
    def settings(self) -> Settings:
        """The sliders' values."""
        return {name: choice.value for name, choice in self._choices.items()}

    def set(self, **values: Any) -> None:
        """Move sliders; each one that changes redraws, as a hand on it does."""
        for name, value in values.items():
            self._choices[name].value = value

    def _moved(self, change: Any) -> None:
        self.moves += 1
        self._draw()

    def _draw(self) -> None:
        settings = self.settings
        try:
            self.numbers = self.view.update(**settings)
        except TqError as error:
            self._readout.value = html.status(str(error), alert=True)
        else:
            self.alt = self.view.alt(settings, self.numbers)
            self._readout.value = html.status(self.view.sentence(settings, self.numbers))
            self._picture.value = self._frames.frame(self.alt)
        self.drawn = settings

    def preset_table(self) -> tuple[list[str], list[list[object]]]:
        """Columns and rows of the view's presets; the figure shows the sliders' settings again afterwards."""
        labels = [control.label for control in self.view.controls]
        rows: list[list[object]] = []
        for preset in self.view.presets:
            rows.append([*preset.values(), *self.view.update(**preset).values()])
        self._draw()
        return [*labels, *self.numbers], rows

    def close(self) -> None:
        """Free the widgets, which ipywidgets keeps until they are closed, their layouts and styles too."""
        for choice in self._choices.values():
            choice.unobserve(self._moved, names="value")
        for widget in (*_descendants(self.widget), self.widget):
            for part in (getattr(widget, "style", None), widget.layout, widget):
                if part is not None:
                    part.close()


def _choice(control: Control) -> Choice:
    made = Choice(control.label, control.options, control.default, control.help, slider=True)
    made.add_class(f"tq-{control.name}")
    return made


def _descendants(box: Any) -> list[Any]:
    found: list[Any] = []
    for child in getattr(box, "children", ()):
        found += [*_descendants(child), child]
    return found


def _layer() -> widgets.HTML:
    return widgets.HTML(
        layout={"grid_area": "1 / 1", "max_width": "100%", "margin": "0", "overflow": "hidden"}
    )
