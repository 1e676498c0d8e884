"""The study's form in the page: run, export, and the exported report opened as a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tq_core.browser.notebook import Notebook
from tq_core.browser.page import Record, open_page
from tq_core.tests.browser.reading import barriers, barriers_in_both_themes

pytestmark = [pytest.mark.slow, pytest.mark.browser]
FORM, RUN_SECONDS = ".tq-form", 900
RESULT = """
import json
print(json.dumps({"status": form.record.status, "verdict": form.record.verdict, "out": str(form.out), "arm": form.arm.value}))
"""


@pytest.fixture(scope="module")
def opened(lab: str, browser: Browser) -> Iterator[tuple[Notebook, Record]]:
    page, record = open_page(browser)
    notebook = Notebook(page, lab, "notebooks/12_validation_report.ipynb")
    notebook.run_all()
    notebook.show_cell("form.widget")
    page.locator(FORM).wait_for()
    yield notebook, record
    notebook.close()
    page.context.close()


@pytest.fixture(autouse=True)
def quiet(opened: tuple[Notebook, Record]) -> Iterator[None]:
    yield
    assert opened[1].problems == []


def test_every_cell_runs_without_a_complaint(opened: tuple[Notebook, Record]) -> None:
    assert opened[0].complaints() == []


def test_axe_finds_no_barrier_before_a_run(opened: tuple[Notebook, Record]) -> None:
    assert barriers(opened[0].page, FORM) == []


def test_the_menus_answer_the_keyboard(opened: tuple[Notebook, Record]) -> None:
    notebook, page = opened[0], opened[0].page
    menu = page.locator(f"{FORM} .tq-arm select")
    before = menu.locator("option:checked").inner_text()
    menu.focus()
    page.keyboard.press("ArrowDown")
    expect(menu.locator("option:checked")).not_to_have_text(before)
    chosen = menu.locator("option:checked").inner_text()
    assert notebook.ask("import json; print(json.dumps(form.arm.value))") == chosen
    page.keyboard.press("ArrowUp")
    assert notebook.ask("import json; print(json.dumps(form.arm.value))") == before


def press(page: Page, name: str) -> None:
    """By keyboard: the button must take Enter although JupyterLab binds it."""
    button = page.locator(f"{FORM} button.tq-{name}")
    expect(button).to_be_enabled(timeout=1000 * RUN_SECONDS)
    button.focus()
    page.keyboard.press("Enter")


def test_run_and_export_give_a_report_that_opens_by_itself(
    opened: tuple[Notebook, Record], browser: Browser
) -> None:
    notebook, page = opened[0], opened[0].page
    status = page.locator(f"{FORM} [role=status], {FORM} [role=alert]").first
    press(page, "run")
    expect(status).to_contain_text("Done:", timeout=1000 * RUN_SECONDS)
    told = notebook.ask(RESULT)
    for line in told["verdict"]:
        expect(page.locator(FORM)).to_contain_text(line)
    press(page, "export")
    expect(status).to_contain_text("report.html", timeout=1000 * RUN_SECONDS)
    assert barriers_in_both_themes(notebook, [FORM]) == []

    report, record = open_page(browser)
    report.goto((Path(told["out"]) / "report.html").as_uri())
    expect(report.locator("body")).to_contain_text(told["verdict"][0])
    assert barriers(report, "body") == []
    assert record.problems == []
    report.context.close()
