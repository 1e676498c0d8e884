"""The notebooks as committed: their form, their links, their order, nothing of a machine in them."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

from tq_core.nbtools.lint import problems
from tq_core.nbtools.normalise import normal_text, notebook_files
from tq_core.paths import ROOT

FOLDER = ROOT / "notebooks"
FILES = notebook_files([FOLDER])
# The notebooks that every version has; more may be between them.
WANTED = (
    "00_start_here",
    "01_cache_budget",
    "02_math_prototype",
    "03_one_layer_fixture",
    "04_pages_and_bits",
    "05_tiny_transformer",
    "06_native_kernels",
    "07_wasm_kernels",
    "08_real_model",
    "09_codec_family",
    "10_failure_museum",
    "12_validation_report",
)
INTERACTIVE = (
    "00_start_here",
    "01_cache_budget",
    "02_math_prototype",
    "03_one_layer_fixture",
    "04_pages_and_bits",
    "08_real_model",
    "09_codec_family",
    "10_failure_museum",
)

PANELS = {"00_start_here": 2, "03_one_layer_fixture": 2}  # the others have one


def read(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def test_all_notebooks_are_there() -> None:
    assert set(WANTED) <= {path.stem for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_committed_form(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert normal_text(text) == text, "run `python -m tq_core.nbtools normalise`"
    assert problems(read(path)) == []


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_committed_with_outputs(path: Path) -> None:
    code = [cell for cell in read(path).cells if cell.cell_type == "code"]
    assert sum(bool(cell.outputs) for cell in code) >= len(code) / 2


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_links_lead_somewhere(path: Path) -> None:
    prose = "\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")
    links = re.findall(r"\]\(([^)#]+)\)", prose)
    assert links
    missing = [link for link in links if "://" not in link and not (FOLDER / link).exists()]
    assert missing == []


def test_next_and_previous_agree() -> None:
    follows, precedes = {}, {}
    for path in FILES:
        head = read(path).cells[0].source
        for word, found in (("next", follows), ("previous", precedes)):
            if match := re.search(word + r": \[[^]]*\]\((\w+)\.ipynb\)", head):
                found[path.stem] = match[1]
    stems = [path.stem for path in FILES]
    assert follows == dict(zip(stems[:-1], stems[1:], strict=True))
    assert precedes == dict(zip(stems[1:], stems[:-1], strict=True))


@pytest.mark.parametrize(("path", "after"), list(zip(FILES[:-1], FILES[1:])), ids=lambda p: p.stem)
def test_the_end_leads_on(path: Path, after: Path) -> None:
    prose = [cell.source for cell in read(path).cells if cell.cell_type == "markdown"]
    assert re.search(rf"\*\*Next:\*\* \[[^]]+\]\({after.stem}\.ipynb\): \S", prose[-1])


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_opening_and_closing(path: Path) -> None:
    cells = read(path).cells
    opening = cells[0].source
    assert re.search(r"\*\*Time\*\* \S.*\*\*Needs\*\* \S", opening), "time and needs"
    assert len(re.findall(r"^- ", opening, re.M)) >= 3, "three things to decide"
    assert "nb.claims(" in cells[-1].source, "claims, by how they are known"


@pytest.mark.parametrize("stem", INTERACTIVE)
def test_interactive_cells_keep_a_static_figure_and_a_table(stem: str) -> None:
    cells = read(FOLDER / f"{stem}.ipynb").cells
    panels = [c for c in cells if c.cell_type == "code" and "nb.panel(" in c.source]
    assert len(panels) == PANELS.get(stem, 1)
    for cell in panels:
        picture, words = (o for o in cell.outputs if o.output_type == "display_data")
        assert picture.metadata["image/png"]["alt"] == picture.data["text/plain"]
        assert "<table" in words.data["text/html"]
        assert not any("widget" in kind for o in cell.outputs for kind in o.data)


def test_the_dashboard_names_every_notebook_with_its_minutes() -> None:
    prose = "\n".join(cell.source for cell in read(FOLDER / "00_start_here.ipynb").cells[:3])
    rows = dict(re.findall(r"^\| \[.*\]\((\w+)\.ipynb\) \| .*\? \| (.*) \|$", prose, re.MULTILINE))
    stated = {}
    for path in FILES[1:]:
        time = re.search(r"\*\*Time\*\* (\d+) minutes(?: to read; (\w+) to run)?", read(path).cells[0].source)
        assert time is not None, path.stem
        stated[path.stem] = time[1] + (f", {time[2]} to run" if time[2] else "")
    assert rows == stated
