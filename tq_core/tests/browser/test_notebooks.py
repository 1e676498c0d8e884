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
from tq_core.tests.browser.reading import Shown, barriers_in_both_themes

pytestmark = [pytest.mark.slow, pytest.mark.browser]
# Notebook -> variable and class of each of its panels.
PANELS = {
    "00_start_here": (("panel", "DialPanel"), ("front_panel", "FamilyPanel")),
    "02_math_prototype": (("panel", "BookPanel"),),
    "03_one_layer_fixture": (("panel", "LayerPanel"), ("workbench_panel", "BenchPanel")),
    "08_real_model": (("panel", "LayerPanel"),),
}


@dataclass
class Opened:
    notebook: Notebook
    record: Record
    panels: list[Shown]


@pytest.fixture(scope="module", params=PANELS)
def opened(request: Any, lab: str, browser: Browser) -> Iterator[Opened]:
    """A notebook of which all cells were run."""
    page, record = open_page(browser)
    notebook = Notebook(page, lab, f"notebooks/{request.param}.ipynb")
    notebook.run_all()
    yield Opened(notebook, record, [Shown(notebook, v, f".tq-{c}") for v, c in PANELS[request.param]])
    notebook.close()
    page.context.close()


def in_view(opened: Opened) -> Iterator[Shown]:
    """Each panel of the notebook in turn, scrolled to: JupyterLab renders what is on the screen."""
    for shown in opened.panels:
        opened.notebook.show_cell(f"{shown.variable} = nb.panel(")
        shown.page.locator(f"{shown.box} .tq-picture svg").wait_for()
        yield shown


@pytest.fixture(autouse=True)
def quiet(opened: Opened) -> Iterator[None]:
    yield
    assert opened.record.problems == []


def test_every_cell_runs_without_a_complaint(opened: Opened) -> None:
    assert opened.notebook.complaints() == []


def test_the_layers_of_a_picture_lie_upon_each_other(opened: Opened) -> None:
    for shown in in_view(opened):
        still, moving = (
            shown.page.locator(f"{shown.box} .{layer} svg").bounding_box()
            for layer in ("tq-still", "tq-picture")
        )
        assert still is not None and moving is not None
        assert still["width"] > 200 and all(abs(still[side] - moving[side]) < 1 for side in still)
        texts = shown.page.locator(f"{shown.box} .tq-still svg text").all_text_contents()
        assert any(text.strip() for text in texts), "axes have words"


def test_every_slider_answers_the_keyboard(opened: Opened) -> None:
    for shown in in_view(opened):
        before = shown.state()
        for name, options in before["options"].items():
            start = options.index(before["settings"][name])
            there = start + (1 if start + 1 < len(options) else -1)
            first = shown.words() + shown.picture()
            shown.slider(name).focus()
            shown.page.keyboard.press("ArrowRight" if there > start else "ArrowLeft")
            try:
                assert shown.settle(name, options[there]) != first, f"{name}: words or picture change"
            finally:
                shown.page.keyboard.press("ArrowLeft" if there > start else "ArrowRight")
            shown.settle(name, options[start])
        assert shown.state()["moves"] == before["moves"] + 2 * len(before["options"])


def test_a_slider_follows_the_mouse(opened: Opened) -> None:
    for shown in in_view(opened):
        page, state = shown.page, shown.state()
        name = next(n for n in ("bits", "key_bits", "budget") if n in state["options"])
        options, slider = state["options"][name], shown.slider(name)
        slider.scroll_into_view_if_needed()
        box = slider.bounding_box()
        assert box is not None
        x, y = box["x"], box["y"] + box["height"] / 2
        share = options.index(state["settings"][name]) / (len(options) - 1)
        page.mouse.move(x + 8 + share * (box["width"] - 16), y)
        page.mouse.down()
        page.mouse.move(x + box["width"] - 2, y, steps=12)
        page.mouse.up()
        highest = shown.settle(name, options[-1])
        page.mouse.click(x + 3, y)
        assert shown.settle(name, options[0]) != highest


def test_the_menu_answers_the_keyboard(opened: Opened) -> None:
    for shown in in_view(opened):
        state = shown.state()
        name = next(n for n in ("bits", "key_bits", "budget") if n in state["options"])
        options = state["options"][name]
        at = options.index(state["settings"][name])
        shown.menu(name).focus()
        shown.page.keyboard.press("ArrowDown" if at + 1 < len(options) else "ArrowUp")
        shown.settle(name, options[at + (1 if at + 1 < len(options) else -1)])


def test_the_page_says_what_the_view_computes_here(opened: Opened) -> None:
    if "02_" not in opened.notebook.name:
        pytest.skip("not exercised: the other panels are compared with the view in their kernel")
    view, (shown,) = BookPanel(), in_view(opened)
    settings = dict(shown.state()["settings"])
    for bits, key in ((2.0, "Home"), (4.0, "End")):
        shown.slider("bits").focus()
        shown.page.keyboard.press(key)
        shown.settle("bits", bits)
        settings["bits"] = bits
        assert shown.words() == view.sentence(settings, view.update(**settings))


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
    for shown in in_view(opened):
        assert barriers_in_both_themes(opened.notebook, [shown.box], shown.variable) == []
