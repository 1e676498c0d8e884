"""What the tests read from a page: a panel's words, the kernel's word for them, and what axe finds."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tq_core.browser.notebook import DARK, LIGHT, Notebook
from tq_core.paths import BUILD

SHOTS = BUILD / "browser"
SECONDS = 60  # a move takes milliseconds; a loaded machine may take a while
STATE = """
import json
print(json.dumps({"settings": panel.settings, "moves": panel.moves, "options": {c.name: c.options for c in panel.view.controls}}))
"""
SAID = """
import json
print(json.dumps(panel.view.sentence(panel.settings, panel.view.update(**panel.settings))))
"""


def words(page: Page, box: str = ".tq-panel .tq-readout") -> str:
    """The text of a part of the page in one line."""
    return " ".join(page.locator(box).inner_text().split())


def settle(opened: Notebook, name: str, wanted: Any) -> str:
    """Wait until the panel's control ``name`` has the value and the page says what the view says; returns that."""
    slider = opened.page.locator(f".tq-panel .tq-{name} input")
    expect(slider).to_have_attribute("aria-valuetext", str(wanted), timeout=1000 * SECONDS)
    state = opened.ask(STATE)
    assert state["settings"][name] == wanted, "the kernel follows the page"
    said = opened.ask(SAID)
    expect(opened.page.locator(".tq-panel .tq-readout")).to_contain_text(said, timeout=1000 * SECONDS)
    return said


def barriers(page: Page, box: str) -> list[str]:
    """What axe calls serious or critical inside ``box``, one line each."""
    found = Axe().run(page, context=box).response["violations"]
    return [
        f"{v['id']}: {v['help']}: {node['html'][:200]}"
        for v in found
        if v["impact"] in ("serious", "critical")
        for node in v["nodes"]
    ]


def barriers_in_both_themes(opened: Notebook, boxes: list[str]) -> list[str]:
    """Barriers in the light and in the dark theme, with a picture of each in build/browser."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    found = []
    for theme in (DARK, LIGHT):
        opened.theme(theme)
        word = theme.split()[-1].lower()
        opened.page.screenshot(path=SHOTS / f"{opened.name.rpartition('/')[2].split('.')[0]}-{word}.png")
        for box in boxes:
            found += [f"{word}: {line}" for line in barriers(opened.page, box)]
    return found
