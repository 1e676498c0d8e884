"""Every notebook runs top to bottom in a fresh kernel, in its reduced size ($TQ_NOTEBOOK_FAST=1).

The full sizes run in `make workbook`. As shipped no exercise is attempted; with the solutions put in, all pass.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tq_core.errors import BackendError
from tq_core.exercises import EXERCISES
from tq_core.exercises.__main__ import notebooks as exercised
from tq_core.exercises.insert import solved
from tq_core.kernels.cling import load_cppyy
from tq_core.kernels.hosts import preferred_wasmer
from tq_core.nbtools.execute import execute
from tq_core.nbtools.lint import problems
from tq_core.nbtools.normalise import notebook_files, tags
from tq_core.paths import ROOT

VERDICT = re.compile(r"^(NOT ATTEMPTED|PASS|FAIL|NOT EXERCISED): \d+\.\d+ ", re.M)


def verdicts(notebook: Any) -> list[str]:
    """What the cells tagged ``check`` printed, in order."""
    checks = [cell for cell in notebook.cells if "check" in tags(cell)]
    text = "\n".join(o.text for cell in checks for o in cell.outputs if o.output_type == "stream")
    found: list[str] = VERDICT.findall(text)
    assert len(found) == len(checks), text
    return found


def missing() -> str:
    """Why the C++ exercises cannot run here; empty when they can."""
    try:
        load_cppyy()
        preferred_wasmer()
    except BackendError as error:
        return str(error)
    return ""


FILES = notebook_files([ROOT / "notebooks"])


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_runs_top_to_bottom(path: Path, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "tq_core.nbtools",
        "execute",
        str(path),
        "--fast",
        "--out",
        str(tmp_path),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    ran = nbformat.read(tmp_path / path.name, as_version=4)
    assert problems(ran) == []
    assert [verdict for verdict in verdicts(ran) if verdict != "NOT ATTEMPTED"] == []


@pytest.mark.slow
@pytest.mark.kernels
@pytest.mark.parametrize("path", exercised(), ids=lambda p: p.stem)
def test_solutions_pass_in_their_notebook(path: Path, tmp_path: Path) -> None:
    exercises = [e for e in EXERCISES.values() if e.notebook == path.name[:2]]
    made = tmp_path / path.name
    nbformat.write(solved(nbformat.read(path, as_version=4), exercises), made)
    outcome = execute(made, 600, lambda line: None)
    assert outcome.failure == ""
    found = verdicts(outcome.notebook)
    assert len(found) == len(exercises)
    allowed = {"PASS", "NOT EXERCISED"} if missing() else {"PASS"}
    assert set(found) <= allowed, found
