"""A panel that computes nothing: what JupyterLab, the kernel's messages and the measuring itself take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tq_core.show import plates
from tq_core.show.panel import Control, Settings


class EchoPanel:
    """One slider, and its value as the only text of a small figure."""

    title = "Echo"
    controls = (Control("n", "n", tuple(range(11)), 5, "a number"),)
    presets = ({"n": 5},)

    def __init__(self) -> None:
        self.figure, (axes,) = plates.plate(2.0, 1.0)
        self._text = axes.text(0.5, 0.5, "")
        self.moving = (self._text,)

    def update(self, **settings: Any) -> Mapping[str, object]:
        self._text.set_text(str(settings["n"]))
        return {"n": settings["n"]}

    def sentence(self, settings: Settings, numbers: Mapping[str, object]) -> str:
        return f"n is {numbers['n']}"

    def alt(self, settings: Settings, numbers: Mapping[str, object]) -> str:
        return f"An empty figure with one number: n is {numbers['n']}"
