"""What the tests read from a page: a panel's words, the kernel's word for them, and what axe finds."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from tq_core.browser.notebook import DARK, LIGHT, Notebook
from tq_core.paths import BUILD

SHOTS = BUILD / "browser"
SECONDS = 60  # a move takes milliseconds; a loaded machine may take a while


@dataclass(frozen=True)
class Shown:
    """A panel in an opened notebook: the variable that holds it in the kernel, and its box in the page."""

    notebook: Notebook
    variable: str
    box: str

    @property
    def page(self) -> Page:
        return self.notebook.page

    def slider(self, name: str) -> Locator:
        return self.page.locator(f"{self.box} .tq-{name} input")

    def menu(self, name: str) -> Locator:
        return self.page.locator(f"{self.box} .tq-{name} select")

    def picture(self) -> str:
        return self.page.locator(f"{self.box} .tq-picture svg").inner_html()

    def state(self) -> dict[str, Any]:
        """The kernel's word: settings, options and number of moves."""
        return self.notebook.ask(
            f"import json\np = {self.variable}\n"
            'print(json.dumps({"settings": p.settings, "drawn": p.drawn, "moves": p.moves, "alt": p.alt, "refused": "alert" in p._readout.value,'
            ' "options": {c.name: c.options for c in p.view.controls}}))'
        )

    def words(self) -> str:
        """The text under the sliders in one line."""
        return " ".join(self.page.locator(f"{self.box} .tq-readout").inner_text().split())

    def settle(self, name: str, wanted: Any) -> str:
        """Wait until the kernel has drawn control ``name`` at ``wanted`` and the page shows it; returns words and picture.

        JupyterLab hands moves to a thread of the kernel's, so that an answer may come before the drawing is done. The
        picture's alternative text ends with the words; settings that are refused keep the picture.
        """
        expect(self.slider(name)).to_have_attribute("aria-valuetext", str(wanted), timeout=1000 * SECONDS)
        picture, late = self.page.locator(f"{self.box} .tq-picture svg"), time.monotonic() + SECONDS
        while (state := self.state())["drawn"][name] != wanted:
            assert time.monotonic() < late, f"{name}: expected {wanted} drawn, got {state['drawn']}"
        if not state["refused"]:
            expect(picture).to_have_attribute("aria-label", state["alt"], timeout=1000 * SECONDS)
            assert self.words() in " ".join(state["alt"].split()), "words and picture are of the same move"
        return self.words() + self.picture()


def barriers(page: Page, box: str) -> list[str]:
    """What axe calls serious or critical inside ``box``, one line each."""
    found = Axe().run(page, context=box).response["violations"]
    return [
        f"{v['id']}: {v['help']}: {node['html'][:200]}"
        for v in found
        if v["impact"] in ("serious", "critical")
        for node in v["nodes"]
    ]


def barriers_in_both_themes(opened: Notebook, boxes: list[str], what: str = "page") -> list[str]:
    """Barriers in the light and in the dark theme, with a picture of each in build/browser."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    found = []
    for theme in (DARK, LIGHT):
        opened.theme(theme)
        word = theme.split()[-1].lower()
        opened.page.screenshot(
            path=SHOTS / f"{opened.name.rpartition('/')[2].split('.')[0]}-{what}-{word}.png"
        )
        for box in boxes:
            found += [f"{word}: {line}" for line in barriers(opened.page, box)]
    return found
