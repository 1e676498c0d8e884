"""The notebooks as a reader has them: JupyterLab in Chromium, sliders under the mouse and under the keyboard.

Nothing may raise in the page, no request may leave the machine, and axe may find no serious barrier.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Browser

from tq_core.browser.moves import Mover, counts
from tq_core.browser.notebook import Notebook
from tq_core.browser.page import Record, open_page
from tq_core.show.book_panel import BookPanel
from tq_core.tests.browser.reading import STATE, barriers_in_both_themes, settle, words

pytestmark = [pytest.mark.slow, pytest.mark.browser]
WITH_PANEL = ("00_start_here", "02_math_prototype", "03_one_layer_fixture", "08_real_model")


@dataclass
class Opened:
    notebook: Notebook
    record: Record


@pytest.fixture(scope="module", params=WITH_PANEL)
def opened(request: Any, lab: str, browser: Browser) -> Iterator[Opened]:
    """A notebook of which all cells were run, scrolled to its panel."""
    page, record = open_page(browser)
    notebook = Notebook(page, lab, f"notebooks/{request.param}.ipynb")
    notebook.run_all()
    notebook.show_cell("nb.panel(")
    page.locator(".tq-panel .tq-picture svg").wait_for()
    yield Opened(notebook, record)
    notebook.close()
    page.context.close()


@pytest.fixture(autouse=True)
def quiet(opened: Opened) -> Iterator[None]:
    yield
    assert opened.record.problems == []


def test_every_cell_runs_without_a_complaint(opened: Opened) -> None:
    assert opened.notebook.complaints() == []


def test_every_slider_answers_the_keyboard(opened: Opened) -> None:
    page = opened.notebook.page
    before = opened.notebook.ask(STATE)
    for name, options in before["options"].items():
        start = options.index(before["settings"][name])
        there = start + (1 if start + 1 < len(options) else -1)
        first = words(page)
        slider = page.locator(f".tq-panel .tq-{name} input")
        slider.focus()
        page.keyboard.press("ArrowRight" if there > start else "ArrowLeft")
        try:
            assert settle(opened.notebook, name, options[there]) != first, f"{name}: the words change"
        finally:
            page.keyboard.press("ArrowLeft" if there > start else "ArrowRight")
        settle(opened.notebook, name, options[start])
    assert opened.notebook.ask(STATE)["moves"] == before["moves"] + 2 * len(before["options"])


def test_a_slider_follows_the_mouse(opened: Opened) -> None:
    page, state = opened.notebook.page, opened.notebook.ask(STATE)
    name = next(n for n in ("bits", "key_bits") if n in state["options"])
    options, slider = state["options"][name], page.locator(f".tq-panel .tq-{name} input")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    assert box is not None
    x, y = box["x"], box["y"] + box["height"] / 2
    share = options.index(state["settings"][name]) / (len(options) - 1)
    page.mouse.move(x + 8 + share * (box["width"] - 16), y)
    page.mouse.down()
    page.mouse.move(x + box["width"] - 2, y, steps=12)
    page.mouse.up()
    highest = settle(opened.notebook, name, options[-1])
    page.mouse.click(x + 3, y)
    assert settle(opened.notebook, name, options[0]) != highest


def test_the_menu_answers_the_keyboard(opened: Opened) -> None:
    page, state = opened.notebook.page, opened.notebook.ask(STATE)
    name = next(n for n in ("bits", "key_bits") if n in state["options"])
    options = state["options"][name]
    at = options.index(state["settings"][name])
    menu = page.locator(f".tq-panel .tq-{name} select")
    menu.focus()
    page.keyboard.press("ArrowDown" if at + 1 < len(options) else "ArrowUp")
    settle(opened.notebook, name, options[at + (1 if at + 1 < len(options) else -1)])


def test_the_page_says_what_the_view_computes_here(opened: Opened) -> None:
    if "02_" not in opened.notebook.name:
        pytest.skip("not exercised: the other panels are compared with the view in their kernel")
    view, page = BookPanel(), opened.notebook.page
    settings = dict(opened.notebook.ask(STATE)["settings"])
    for bits, key in ((2.0, "Home"), (4.0, "End")):
        page.locator(".tq-panel .tq-bits input").focus()
        page.keyboard.press(key)
        settle(opened.notebook, "bits", bits)
        settings["bits"] = bits
        assert words(page) == view.sentence(settings, view.update(**settings))


def test_200_moves_leave_no_figures_widgets_or_nodes_behind(opened: Opened) -> None:
    if "02_" not in opened.notebook.name:
        pytest.skip(
            "not exercised: one panel stands for all, they share the code that could leave things behind"
        )
    mover = Mover(opened.notebook)
    for _ in range(30):
        mover.move()
    before = counts(opened.notebook)
    for _ in range(200):
        mover.move()
    after = counts(opened.notebook)
    for name in ("figures", "widgets", "listeners"):
        assert after[name] <= before[name], name
    assert after["nodes"] - before["nodes"] < 200, "less than a node per move"
    assert after["resident_bytes"] - before["resident_bytes"] < 16 * 2**20


def test_axe_finds_no_barrier_in_either_theme(opened: Opened) -> None:
    assert barriers_in_both_themes(opened.notebook, [".tq-panel"]) == []
