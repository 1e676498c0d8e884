"""Drift: every kind of difference is found and named with its cell, and what cannot be compared is said."""

from __future__ import annotations

import copy
import io
import re
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
from nbformat import v4
from PIL import Image

from tq_core.nbtools import pictures, runs
from tq_core.nbtools.__main__ import main
from tq_core.nbtools.depends import FAST, REAL, dependent
from tq_core.nbtools.drift import compare
from tq_core.nbtools.normalise import MACHINE_TEXT
from tq_core.paths import ROOT
from tq_core.tests.notebooks.test_nbtools import notebook, stream, with_outputs, write


def png(pixels: np.ndarray) -> str:
    buffer = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(buffer, "PNG")
    return b64encode(buffer.getvalue()).decode()


def shown(pixels: np.ndarray, alt: str = "a curve that rises") -> Any:
    data = {"image/png": png(pixels), "text/plain": alt}
    return v4.new_output("display_data", data=data, metadata={"image/png": {"alt": alt}})


def table(value: str) -> Any:
    html = f"<table><tbody><tr><td>turbo</td><td>{value}</td></tr></tbody></table>"
    return v4.new_output("display_data", data={"text/html": html, "text/plain": f"turbo  {value}"})


WHITE = np.full((100, 200, 3), 255)


def painted(count: int, level: int) -> np.ndarray:
    made = WHITE.copy()
    made.reshape(-1, 3)[:count] = level
    return made


@pytest.fixture(autouse=True)
def _drawn_here(monkeypatch):
    monkeypatch.setattr(pictures, "unlike_the_committed", lambda: "")


def test_the_same_outputs_are_no_drift():
    made = notebook(with_outputs(stream("a\n"), table("0.012"), shown(WHITE)))
    before = copy.deepcopy(made)
    drift = compare(made, made)
    assert (drift.found, drift.cells, drift.not_exercised()) == ([], 2, [])
    assert made == before


@pytest.mark.parametrize(
    ("new", "message"),
    [
        ([stream("b\n")], r"cell 3, output 1: stdout differs\n +-a\n +\+b$"),
        ([], "cell 3, 0 outputs, committed 1"),
        ([stream("a\n"), table("1")], "cell 3, 2 outputs, committed 1"),
        ([table("1")], "cell 3, output 1: holds text/html, text/plain, committed stdout"),
        ([stream("a\n"), stream("careful", "stderr")], "cell 3: the cell wrote to stderr: 'careful'"),
        ([stream("x" * 150_001)], "cell 3: an output of .* bytes, at most 150000"),
        ([stream("took 12 ms\n")], "cell 3: an output holds a time or a speed: '12 ms'"),
    ],
)
def test_a_difference_is_named_with_its_cell(new, message):
    found = compare(notebook(with_outputs(stream("a\n"))), notebook(with_outputs(*new))).found
    assert any(re.match(message, line) for line in found), found


def test_a_changed_number_in_html_is_one_line_of_the_difference():
    (plain, html) = reversed(
        compare(notebook(with_outputs(table("0.012"))), notebook(with_outputs(table("0.013")))).found
    )
    assert html.splitlines()[1:] == ["      -<td>0.012</td>", "      +<td>0.013</td>"]
    assert "-turbo  0.012" in plain


@pytest.mark.parametrize(
    ("pixels", "message"),
    [
        (painted(10, 0), ""),  # 10 of 20,000 pixels are the tolerance
        (painted(11, 0), "0.06% of the picture's pixels differ by more than 48 levels, at most 0.05%"),
        (painted(20_000, 207), ""),
        (painted(20_000, 206), "100.00% of the picture's pixels"),
        (np.full((100, 201, 3), 255), "the picture has 201 x 100 pixels, committed 200 x 100"),
    ],
)
def test_pictures_are_compared_by_their_pixels(pixels, message):
    found = compare(notebook(with_outputs(shown(WHITE))), notebook(with_outputs(shown(pixels)))).found
    assert [message in line for line in found] == ([True] if message else [])


def test_bytes_of_a_picture_do_not_matter():
    buffer = io.BytesIO()
    Image.fromarray(WHITE.astype(np.uint8)).save(buffer, "PNG", compress_level=0)
    assert (other := b64encode(buffer.getvalue()).decode()) != png(WHITE)
    assert pictures.difference(png(WHITE), other) == ""


def test_a_changed_text_alternative_is_drift():
    found = compare(
        notebook(with_outputs(shown(WHITE))), notebook(with_outputs(shown(WHITE, "it falls")))
    ).found
    assert any("alt of image/png differs" in line for line in found)


def test_where_pictures_are_drawn_otherwise_only_they_are_left_out(monkeypatch):
    monkeypatch.setattr(pictures, "unlike_the_committed", lambda: "drawn here by something else")
    old, new = with_outputs(shown(WHITE), table("1")), with_outputs(shown(painted(999, 0)), table("2"))
    drift = compare(notebook(old), notebook(new))
    assert drift.not_exercised() == ["cells 3: pictures, drawn here by something else"]
    assert len(drift.found) == 2 and all("text/" in line for line in drift.found)


def test_machine_cells_are_not_compared_but_their_stderr_counts():
    old = with_outputs(stream(MACHINE_TEXT), tags=("machine",))
    assert compare(notebook(old), notebook(with_outputs(stream("12 ms"), tags=("machine",)))).found == []
    loud = with_outputs(stream("12 ms"), stream("careful", "stderr"), tags=("machine",))
    assert "wrote to stderr" in compare(notebook(old), notebook(loud)).found[0]


def test_generated_text_may_differ_and_that_is_said():
    old, new = (with_outputs(stream(text), tags=("sample",)) for text in ("Paris.", "It is Paris."))
    drift = compare(notebook(old), notebook(new))
    assert (drift.found, drift.not_exercised()) == (
        [],
        ["cells 3: generated text, a sample of another machine"],
    )
    loud = with_outputs(stream("Paris."), stream("careful", "stderr"), tags=("sample",))
    assert "wrote to stderr" in compare(notebook(old), notebook(loud)).found[0]


SOURCES = (
    "import math\nn = 2 if nb.fast() else 4\nother = 7",
    "print(other, math.pi)",
    "total = []\nfor i in range(n):\n    total.append(i)",
    "def mean():\n    return sum(total)\ntry:\n    other = 3\n    print(other)\nexcept OSError:\n    pass",
    "print(nb.table(other))",
    "print(mean())",
    "n = 1\nprint(n)\nmodel, is_real = models.real_or_tiny()",
    "print(x.total, x.n)",
)


def test_what_rests_on_reduced_sizes_or_the_model_is_followed():
    made = notebook(*[v4.new_code_cell(source) for source in SOURCES])
    assert dependent(made, FAST) == {3, 5, 6, 8}
    assert dependent(made, REAL) == {9}
    other = copy.deepcopy(made)
    for cell in other.cells[2:]:
        cell.outputs = [stream("1\n")]
    loose = compare(made, other, (FAST, REAL))
    assert loose.cells == 4 and len(loose.found) == 3
    assert loose.not_exercised() == [
        "cells 3, 5, 6, 8: reduced sizes",
        "cells 9: the real model is not on this machine",
    ]


def test_a_cell_that_rests_on_reduced_sizes_may_differ_and_another_may_not():
    cells = [v4.new_code_cell("print(nb.fast())"), v4.new_code_cell("print(1)")]
    old, new = notebook(*cells), notebook(*copy.deepcopy(cells))
    for cell in new.cells[2:]:
        cell.outputs = [stream("1\n")]
    (found,) = compare(old, new, (FAST,)).found
    assert found == "cell 4, 1 outputs, committed 0"
    assert compare(old, old, (FAST,)).not_exercised() == []


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tq_core.nbtools", "execute", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.mark.slow
def test_write_makes_what_check_accepts_and_check_changes_nothing(tmp_path):
    path = write(tmp_path, "a.ipynb", "print(1)", "import sys", "x = 2\nx")
    assert run(path, "--check").returncode == 1
    done = run(path, "--write")
    assert done.returncode == 0 and "a  rewritten" in done.stdout, done.stdout
    written = path.read_bytes()
    assert "a  outputs as committed" in run(path, "--write").stdout
    done = run(path, "--check")
    assert done.returncode == 0 and "a  4 cells compared, 0 differences" in done.stdout, done.stdout
    path.write_bytes(written.replace(b'"1\\n"', b'"3\\n"'))
    changed = path.read_bytes()
    done = run(path, "--check")
    assert done.returncode == 1 and changed != written
    assert "a.ipynb: cell 3, output 1: stdout differs\n      -3\n      +1\n" in done.stdout
    assert path.read_bytes() == changed


@pytest.mark.slow
def test_what_must_not_be_committed_is_not_written(tmp_path, monkeypatch, capsys):
    loud = write(tmp_path, "a.ipynb", "import sys; print('careful', file=sys.stderr)")
    model = write(tmp_path, "b.ipynb", "def real_or_tiny(): return 1", "real_or_tiny()")
    before = [path.read_bytes() for path in (loud, model)]
    monkeypatch.setattr(runs, "absent", lambda: (REAL,))
    assert runs.run_execute([loud, model], None, 60, print, write=True) == 1
    said = capsys.readouterr().out
    assert "a.ipynb: not rewritten: cell 3: the cell wrote to stderr" in said
    assert "b  not rewritten: its committed outputs are the real model's" in said
    assert [path.read_bytes() for path in (loud, model)] == before


@pytest.mark.parametrize("fast", [["--fast"], []])
def test_reduced_sizes_are_not_written(fast, monkeypatch, capsys):
    if not fast:
        monkeypatch.setenv(runs.FAST_VARIABLE, "1")
    with pytest.raises(SystemExit, match="2"):
        main(["execute", "--write", *fast])
    assert "expected no --fast" in capsys.readouterr().err


def test_the_pinned_matplotlib_is_the_one_that_drew_the_committed_pictures():
    for name in ("py311.txt", "py312.txt"):
        pinned = re.search(r"^matplotlib==(\S+)", (ROOT / "requirements" / name).read_text(), re.M)
        assert pinned and pinned[1] == pictures.DRAWN_WITH[0], "run `make notebooks`, then change DRAWN_WITH"


def test_committed_notebooks_say_what_reduced_runs_compare():
    """Most cells of most notebooks hold at any size; were the analysis to lose its way, this would change."""
    files = sorted((ROOT / "notebooks").glob("*.ipynb"))
    read = {path.stem[:2]: nbformat.read(path, as_version=4) for path in files}
    assert all(not dependent(read[n], FAST) for n in ("00", "02", "04", "10"))
    assert all(dependent(read[n], FAST) for n in ("01", "03", "05", "06", "07", "08", "09", "12"))
    assert {n for n, made in read.items() if dependent(made, REAL)} == {"08", "12"}
