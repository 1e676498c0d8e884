"""`execute` over several notebooks: executed copies, committed outputs rewritten, or compared with the run's."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import nbformat

from tq_core.model.sources import SMOLLM2, model_path
from tq_core.nbtools.depends import FAST, REAL, dependent
from tq_core.nbtools.drift import Drift, compare
from tq_core.nbtools.execute import Outcome, execute
from tq_core.nbtools.lint import problems
from tq_core.nbtools.normalise import normal_text, strip_live, to_text

FAST_VARIABLE = "TQ_NOTEBOOK_FAST"
Say = Callable[[str], None]


def replace_file(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    temporary = path.with_name(f".{path.name}.part")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def absent() -> tuple[str, ...]:
    """What this process's runs do not have: full sizes, the real model. Asked after a run, which may fetch the model."""
    reduced = (FAST,) if os.environ.get(FAST_VARIABLE, "") not in ("", "0") else ()
    return reduced if model_path(SMOLLM2).exists() else (*reduced, REAL)


def _write(path: Path, outcome: Outcome, say: Say) -> str:
    """Put a run's outputs into the committed file; says what it did, or returns why it must not."""
    fresh = strip_live(outcome.notebook)
    if found := problems(fresh):
        return f"{path.name}: not rewritten: {'; '.join(found)}"
    if REAL in absent() and dependent(fresh, REAL):
        say(f"{path.stem}  not rewritten: its committed outputs are the real model's, which is not here")
        return ""
    before, after = path.read_text(encoding="utf-8"), normal_text(to_text(fresh))
    if before != after:
        replace_file(path, after)
    say(f"{path.stem}  {'outputs as committed' if before == after else 'rewritten'}")
    return ""


def _check(committed: str, outcome: Outcome, say: Say) -> list[str]:
    """Compare a run with the committed text; says what was not compared, and returns what differs."""
    path = outcome.path
    drift: Drift = compare(nbformat.reads(committed, as_version=4), outcome.notebook, absent())
    say(f"{path.stem}  {drift.cells} cells compared, {len(drift.found)} differences")
    for line in drift.not_exercised():
        say(f"{path.stem}  not exercised: {line}")
    return [f"{path.name}: {found}" for found in drift.found]


def run_execute(
    files: list[Path], out: Path | None, timeout: int, say: Say, write: bool = False, check: bool = False
) -> int:
    """Run the notebooks one after the other; one that fails does not stop the others. Returns the exit code.

    ``out`` takes the executed copies. ``write`` puts the outputs, normalised, into the originals; ``check`` compares
    them with the originals', which then stay as they are.
    """
    failures: list[str] = []
    ran = 0
    for path in files:
        committed = path.read_text(encoding="utf-8")
        outcome = execute(path, timeout, say)
        word = "FAILED" if outcome.failure else "ok"
        say(f"{path.stem}  {word}, {outcome.code_cells} code cells in {outcome.seconds:.0f} s")
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            replace_file(out / path.name, to_text(strip_live(outcome.notebook)))
        found = [outcome.failure] if outcome.failure else []
        ran += not outcome.failure
        if write and not outcome.failure:
            found += filter(None, [_write(path, outcome, say)])
        if check and not outcome.failure:
            found += _check(committed, outcome, say)
        for line in found:
            say(f"  {line}")
        failures += found
    say(f"{ran} of {len(files)} notebooks ran top to bottom")
    for failure in failures:
        say(f"  {failure}")
    if check and failures:
        say("if a change is meant, `make notebooks` writes the new outputs; read them before committing")
    return 1 if failures else 0
