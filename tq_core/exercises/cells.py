"""An exercise's cells, made from its text and its solution: what the reader sees has one source."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from nbformat import NotebookNode, v4

from tq_core.errors import ValueRangeError, check
from tq_core.exercises.cpp import STUB
from tq_core.exercises.exercise import Exercise

SOLUTIONS = Path(__file__).with_name("solutions")
OF_FIVE = ("very low", "low", "medium", "high", "very high")


@cache
def _solutions(notebook: str) -> dict[str, str]:
    (path,) = SOLUTIONS.glob(f"{notebook}_*.py")
    parts = re.split(r"^# %% (\d+\.\d+)\n", path.read_text(encoding="utf-8"), flags=re.M)
    return {number: text.strip() for number, text in zip(parts[1::2], parts[2::2], strict=True)}


def solution(exercise: Exercise) -> str:
    """The cell that solves an exercise. Raises ValueRangeError when there is none."""
    found = _solutions(exercise.notebook)
    check(exercise.number in found, "solution", f"a part {exercise.number}", list(found), ValueRangeError)
    return found[exercise.number]


def stub(exercise: Exercise) -> str:
    """The solution's cell without the body of its last function: signature and docstring stay; C++ keeps its comment."""
    text = solution(exercise)
    last = ast.parse(text).body[-1]
    lines = text.splitlines()
    if isinstance(last, ast.FunctionDef):
        kept = lines[: last.body[0].end_lineno]
        return "\n".join([*kept, "    raise NotImplementedError"])
    opening = next(i for i, line in enumerate(lines) if line.endswith(") {") and not line.startswith("  for"))
    return "\n".join([*lines[: opening + 1], STUB, "}", '"""'])


def header(exercise: Exercise) -> str:
    """Title, ratings in words, and the task."""
    ratings = (
        f"Difficulty: {OF_FIVE[exercise.difficulty - 1]} ({exercise.difficulty} of 5) · "
        f"Importance: {OF_FIVE[exercise.importance - 1]} ({exercise.importance} of 5) · about {exercise.minutes} minutes"
    )
    section = "## Exercises\n\n" if exercise.number.endswith(".1") else ""
    return f"{section}### Exercise {exercise.number} - {exercise.name}\n\n> {ratings}\n\n{exercise.task}"


def check_cell(exercise: Exercise) -> str:
    """The cell that draws and judges."""
    arguments = f'"{exercise.number}", {exercise.attempt}'
    return f"from tq_core import exercises\n\nexercises.show({arguments})\nexercises.check({arguments})"


def folded(exercise: Exercise) -> str:
    """Hint and solution, folded away."""
    return (
        f"<details><summary>Hint</summary>\n\n{exercise.hint}\n\n</details>\n\n"
        f"<details><summary>Solution</summary>\n\n```python\n{solution(exercise)}\n```\n\n</details>"
    )


def make(exercise: Exercise) -> list[NotebookNode]:
    """The four cells as shipped."""
    name = "ex-" + exercise.number.replace(".", "-")
    exercise_cell = v4.new_code_cell(stub(exercise), id=f"{name}-code", metadata={"tags": ["exercise"]})
    judging = v4.new_code_cell(check_cell(exercise), id=f"{name}-check", metadata={"tags": ["check"]})
    return [
        v4.new_markdown_cell(header(exercise), id=f"{name}-text"),
        exercise_cell,
        judging,
        v4.new_markdown_cell(folded(exercise), id=f"{name}-help"),
    ]
