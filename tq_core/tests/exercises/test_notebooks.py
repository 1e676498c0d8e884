"""The notebooks' exercise cells: what the package says, as committed not attempted, and nothing after depends on them."""

from __future__ import annotations

import ast
from pathlib import Path

import nbformat
import pytest

from tq_core.exercises import EXERCISES, __main__, cells
from tq_core.exercises.__main__ import main, notebooks, placed
from tq_core.exercises.cells import solution
from tq_core.exercises.insert import solved
from tq_core.nbtools.lint import MAX_CELLS, problems
from tq_core.nbtools.normalise import tags

FILES = notebooks()


def test_there_are_enough_in_every_notebook() -> None:
    assert len(EXERCISES) >= 12
    assert len(FILES) == 7
    for path in FILES:
        assert sum(e.notebook == path.name[:2] for e in EXERCISES.values()) >= 2


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_the_reader_sees_what_the_package_has(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert placed(path) == text, "run `python -m tq_core.exercises`"
    seen = "\n".join(c.source for c in nbformat.reads(text, as_version=4).cells if c.cell_type == "markdown")
    for exercise in EXERCISES.values():
        if exercise.notebook == path.name[:2]:
            assert f"```python\n{solution(exercise)}\n```" in seen


def test_a_changed_solution_is_noticed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = [path.read_bytes() for path in FILES]
    assert main(["--check"]) == 0
    monkeypatch.setattr(cells, "solution", lambda exercise: solution(exercise).replace("2 *", "3 *"))
    assert main(["--check"]) == 1
    assert "01_cache_budget.ipynb: its exercises differ from the package" in capsys.readouterr().out
    assert [path.read_bytes() for path in FILES] == before


def test_a_rewritten_exercise_loses_its_output_and_the_others_keep_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / FILES[0].name
    notebook = nbformat.read(FILES[0], as_version=4)
    kept = {cell.id: cell.get("outputs") for cell in notebook.cells}
    changed = next(cell for cell in notebook.cells if cell.id == "ex-1-1-check")
    changed.source += "\n1"
    nbformat.write(notebook, path)
    monkeypatch.setattr(__main__, "notebooks", lambda: [path])
    assert main([]) == 0
    now = {cell.id: cell.get("outputs") for cell in nbformat.read(path, as_version=4).cells}
    assert now.pop("ex-1-1-check") == []
    kept.pop("ex-1-1-check")
    assert now == kept


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_committed_checks_are_not_attempted(path: Path) -> None:
    checks = [c for c in nbformat.read(path, as_version=4).cells if "check" in tags(c)]
    assert checks
    for cell in checks:
        text = "".join(o.text for o in cell.outputs if o.output_type == "stream")
        assert "Drawn: the specification, until there is code of yours" in text
        assert "NOT ATTEMPTED" in text


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_other_cells_do_not_use_what_a_learner_writes(path: Path) -> None:
    attempts = {e.attempt for e in EXERCISES.values()}
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code" and not cell.id.startswith("ex-"):
            used = {node.id for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.Name)}
            assert not used & attempts


def test_the_run_with_solutions_has_setup_exercises_and_checks_alone() -> None:
    notebook = nbformat.read(FILES[0], as_version=4)
    made = solved(notebook, [e for e in EXERCISES.values() if e.notebook == "01"])
    assert [cell.id for cell in made.cells] == [
        "c02",
        "ex-1-1-code",
        "ex-1-1-check",
        "ex-1-2-code",
        "ex-1-2-check",
    ]
    assert made.cells[1].source == solution(EXERCISES["1.1"])
    assert "NotImplementedError" in next(c for c in notebook.cells if c.id == "ex-1-1-code").source


def test_exercises_do_not_count_as_cells_of_the_story() -> None:
    notebook = nbformat.read(FILES[5], as_version=4)
    assert len(notebook.cells) > MAX_CELLS
    assert problems(notebook) == []
    notebook.cells += [nbformat.v4.new_markdown_cell("more") for _ in range(MAX_CELLS)]
    assert any("cells beside exercises" in problem for problem in problems(notebook))
