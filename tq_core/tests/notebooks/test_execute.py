"""Every notebook runs top to bottom in a fresh kernel, in its reduced size ($TQ_NOTEBOOK_FAST=1).

The full sizes run in `make workbook`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from tq_core.nbtools.lint import problems
from tq_core.nbtools.normalise import notebook_files
from tq_core.paths import ROOT

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
    noise = problems(nbformat.read(tmp_path / path.name, as_version=4))
    assert noise == []
