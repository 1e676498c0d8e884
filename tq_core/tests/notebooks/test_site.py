"""The site: whole, without requests, its formulas as MathML; and every fault that its check must find, planted."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import pytest
from nbformat import v4
from PIL import Image

from tq_core.browser.chromium import BrowserMissing, find_chromium
from tq_core.errors import ValueRangeError
from tq_core.nbtools import site, site_check
from tq_core.nbtools.__main__ import main
from tq_core.nbtools.site_math import mathml
from tq_core.nbtools.site_render import markdown_body
from tq_core.paths import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


@pytest.fixture
def small(tmp_path):
    """Two small notebooks and pages of words in a folder: (notebooks, words)."""
    notebooks, words = tmp_path / "notebooks", tmp_path / "words"
    notebooks.mkdir()
    words.mkdir()
    texts = {
        "00_a": r"# First"
        + "\n\n> About $x^2$\n\n## Part\n\n$$\\frac{a}{b}$$\n\n[next](01_b.ipynb#part-two)",
        "01_b": "# Second\n\n> More\n\n## Part two\n\n[a file](../tq_core/errors.py)",
    }
    for name, text in texts.items():
        output = v4.new_output(
            "display_data", {"image/png": PIXEL}, metadata={"image/png": {"alt": "one dot"}}
        )
        cells = [v4.new_markdown_cell(text), v4.new_code_cell("1 + 1", outputs=[output])]
        nbformat.write(v4.new_notebook(cells=cells), notebooks / f"{name}.ipynb")
    for name in site.WORDS:
        (words / name).write_text(f"# {name}\n\n> x\n\n## A\n\ntext\n")
    return notebooks, words


def make(small, out: Path, report: Path = Path("none")) -> list[Path]:
    return site.build(out, *small, report=report)


def add(small, text: str) -> None:
    path = small[0] / "00_a.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.append(v4.new_markdown_cell(text))
    nbformat.write(notebook, path)


def test_small_site_is_whole(small, tmp_path):
    out = tmp_path / "site"
    names = [path.relative_to(out).as_posix() for path in make(small, out)]
    assert {"00_a.html", "01_b.html", "index.html", "glossary.html", "source/tq_core/errors.py.html"} <= set(
        names
    )
    first, index = (out / "00_a.html").read_text(), (out / "index.html").read_text()
    assert 'rel="next" href="01_b.html"' in first and 'rel="prev"' not in first
    assert 'href="01_b.html#part-two"' in first and first.count("<math") == 2
    assert 'lang="en"' in first and 'alt="one dot"' in first
    assert 'href="01_b.html#part-two"' in index and "report.html" not in index
    assert "class TqError" in re.sub("<[^>]+>", "", (out / "source/tq_core/errors.py.html").read_text())


def test_report_is_linked_when_there_is_one(small, tmp_path):
    report = tmp_path / "report.html"
    report.write_text('<html lang="en"><title>r</title><h1>r</h1></html>')
    make(small, tmp_path / "site", report)
    assert 'href="report.html"' in (tmp_path / "site/index.html").read_text()
    assert (tmp_path / "site/report.html").read_bytes() == report.read_bytes()


def test_foreign_folder_is_left_alone_and_an_earlier_site_replaced(small, tmp_path):
    foreign = tmp_path / "mine"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("x")
    with pytest.raises(ValueRangeError, match="out: expected a new folder or an earlier site"):
        make(small, foreign)
    assert [p.name for p in foreign.iterdir()] == ["thesis.txt"]
    make(small, tmp_path / "site")
    (tmp_path / "site/old.html").write_text("x")
    make(small, tmp_path / "site")
    assert not (tmp_path / "site/old.html").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (r"$\frac{1}{$", "formula"),
        (r"$\frac{1$", "mfrac with 2 parts, got 1"),
        (r"$\nosuchcommand x$", "nosuchcommand"),
        (r"$a}b$", "commands that are known"),
        (r"\\frac{1}{2} without dollars", "LaTeX that was not converted"),
        ("[x](../tq_core/no_such_file.py)", "no_such_file"),
        ("[x](../../outside.py)", "outside"),
        ("[x](01_b.ipynb#nowhere)", "nothing has that name"),
        ("![](../validation/pages/family.svg)", "without a text alternative"),
        ('<script src="https://example.org/x.js"></script>', "<script> asks for"),
        ('<img alt="x" src="//example.org/x.png">', "<img> asks for"),
        ("![x](https://example.org/x.png)", "<img> asks for"),
        ('<link rel="stylesheet" href="https://example.org/x.css">', "<link> asks for"),
        ('<p style="background:url(https://example.org/x.png)">x</p>', "a style that asks"),
        ("<style>@import 'https://example.org/x.css';</style>", "a style sheet that asks"),
        ('<svg><image xlink:href="https://example.org/x.png"/></svg>', "<image> asks for"),
        ('<img alt="x" src="data:," srcset="a.png 1x, https://example.org/x.png 2x">', "<img> asks for"),
        ('<p onclick="x()">x</p>', "a script in onclick"),
        ("# A second title", "main heading"),
        ("#### Far below", "level 2 is followed by 4"),
        ('<a id="part"></a>', "the id 'part' twice"),
    ],
)
def test_planted_fault_is_found_and_the_earlier_site_stays(small, tmp_path, text, message):
    out = tmp_path / "site"
    make(small, out)
    before = (out / "00_a.html").read_bytes()
    add(small, text)
    with pytest.raises(ValueRangeError, match=re.escape(message)):
        make(small, out)
    assert (out / "00_a.html").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".site")] == []


def test_picture_without_words_in_an_output_is_found(small, tmp_path):
    path = small[0] / "01_b.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[1].outputs[0].metadata = {}
    nbformat.write(notebook, path)
    with pytest.raises(ValueRangeError, match="01_b.html: a picture without a text alternative"):
        make(small, tmp_path / "site")


def test_drawings_may_name_their_parts_alike(small, tmp_path):
    add(small, '<svg role="img" aria-label="x"><g id="axes_1"><text>$5$</text></g></svg>\n' * 2)
    make(small, tmp_path / "site")


def test_command_says_where_to_begin_and_refuses_bad_input(small, tmp_path, capsys):
    out = ["--out", str(tmp_path / "site"), "--report", "none"]
    add(small, r"$\nosuchcommand$")
    assert main(["site", "--notebooks", str(small[0]), *out]) == 1
    assert "00_a.ipynb: formula" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        main(["site", "--notebooks", str(tmp_path / "none"), *out])


def test_formula_keeps_its_latex_as_text():
    root = ElementTree.fromstring(mathml(r"\langle q,\, k \rangle / \sqrt d", block=True))
    assert root.tag == "{http://www.w3.org/1998/Math/MathML}math" and root.get("display") == "block"
    assert root.get("alttext") == r"\langle q,\, k \rangle / \sqrt d"
    assert root.find(".//{*}msqrt") is not None


def test_markdown_inside_details_is_rendered_and_code_keeps_its_dollars():
    body = markdown_body(
        "<details><summary>Hint</summary>\n\n$x_1$\n\n```sh\necho $HOME $PATH\n```\n\n</details>"
    )
    assert body.count("<math") == 1 and "HOME" in body
    assert site_check.facts(f'<html lang="en"><title>t</title><h1>t</h1>{body}').problems == []


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "site"
    site.build(out, report=Path("none"))
    return out


@pytest.mark.slow
def test_whole_site_has_every_notebook_and_every_formula(whole):
    assert site_check.problems(whole) == []
    for path in NOTEBOOKS:
        cells = nbformat.read(path, as_version=4).cells
        prose = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
        prose = re.sub(r"```.*?```|`[^`\n]*`", "", prose, flags=re.S)
        wanted = len(re.findall(r"\$\$.+?\$\$|\$[^$\n]+\$", prose, flags=re.S))
        assert (whole / f"{path.stem}.html").read_text().count("<math") == wanted, path.name
    index = (whole / "index.html").read_text()
    for name in [*(path.stem for path in NOTEBOOKS), "glossary", "family", "claims"]:
        assert f'href="{name}.html"' in index


@pytest.mark.slow
def test_chromium_draws_a_page_light_and_dark(whole, tmp_path):
    try:
        browser = find_chromium()
    except BrowserMissing as error:
        pytest.skip(f"not exercised: {error}")
    corners, ink = [], []
    for scheme in (1, 0):  # light, dark
        shot = tmp_path / f"{scheme}.png"
        options = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--window-size=900,900",
        ]
        options += [
            f"--user-data-dir={tmp_path / 'profile'}",
            f"--blink-settings=preferredColorScheme={scheme}",
        ]
        page = (whole / "01_cache_budget.html").as_uri()
        subprocess.run(
            [browser, *options, f"--screenshot={shot}", page], check=True, capture_output=True, timeout=120
        )
        with Image.open(shot) as picture:
            grey = picture.convert("L")
            corners.append(grey.getpixel((2, 890)))
            ink.append(sum(n for level, n in enumerate(grey.histogram()) if abs(level - corners[-1]) > 100))
    assert corners[0] > 240 and corners[1] < 40, "the page's background follows the theme"
    assert min(ink) > 5_000, "text stands out from the background in both themes"
