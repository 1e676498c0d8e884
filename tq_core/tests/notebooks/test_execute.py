"""Every notebook runs top to bottom in a fresh kernel and says what is committed; as shipped no exercise is attempted.

Notebooks in REDUCED run in reduced sizes ($TQ_NOTEBOOK_FAST=1): their cells that rest on sizes are not compared, which
the run says, cell by cell. `make drift` compares all of them in full.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

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


# In full sizes these take longer than all others together.
REDUCED = {"06_native_kernels", "07_wasm_kernels", "08_real_model", "09_codec_family", "12_validation_report"}
FILES = notebook_files([ROOT / "notebooks"])


# What a run left out, by notebook: filled by the first test, told by the second, so that every summary names it.
left_out: dict[str, list[str]] = {}


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_runs_top_to_bottom_and_says_what_is_committed(path: Path, tmp_path: Path) -> None:
    before = path.read_bytes()
    command = [
        sys.executable,
        "-m",
        "tq_core.nbtools",
        "execute",
        str(path),
        "--check",
        "--out",
        str(tmp_path),
    ]
    reduced = ["--fast"] if path.stem in REDUCED else []
    done = subprocess.run([*command, *reduced], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    left_out[path.stem] = re.findall(r"  not exercised: (.*)", done.stdout)
    ran = nbformat.read(tmp_path / path.name, as_version=4)
    assert [verdict for verdict in verdicts(ran) if verdict != "NOT ATTEMPTED"] == []
    assert path.read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_every_output_was_compared(path: Path) -> None:
    if missed := left_out.get(path.stem, ["all cells: it did not run"]):
        pytest.skip(f"not exercised: drift of {path.stem}, {'; '.join(missed)}")
