"""Putting exercises into a notebook object, and solutions into its exercise cells for the run that must pass."""

from __future__ import annotations

import copy
from collections.abc import Sequence

from nbformat import NotebookNode

from tq_core.errors import ValueRangeError, check
from tq_core.exercises.cells import make, solution
from tq_core.exercises.exercise import Exercise
from tq_core.nbtools.normalise import tags


def place(notebook: NotebookNode, exercises: Sequence[Exercise], before: str) -> None:
    """Write the cells of ``exercises`` into a notebook, in place: over those that are there, else before the cell ``before``.

    A cell whose text did not change keeps its output. Raises ValueRangeError when there is no such cell.
    """
    made = [cell for exercise in exercises for cell in make(exercise)]
    present = {cell.id: cell for cell in notebook.cells}
    for cell in made:
        old = present.get(cell.id)
        if old is not None and old.cell_type == "code" and old.source == cell.source:
            cell.outputs = old.outputs
    ids = {cell.id for cell in made}
    others = [cell for cell in notebook.cells if cell.id not in ids]
    found = [i for i, cell in enumerate(others) if cell.id == before]
    check(len(found) == 1, "before", "the id of one cell", before, ValueRangeError)
    notebook.cells = [*others[: found[0]], *made, *others[found[0] :]]


def solved(notebook: NotebookNode, exercises: Sequence[Exercise]) -> NotebookNode:
    """A copy with what exercises need alone: the setup cell, and every exercise cell with its solution, its check after it."""
    answers = {f"ex-{e.number.replace('.', '-')}-code": solution(e) for e in exercises}
    made = copy.deepcopy(notebook)
    setup = next(cell for cell in made.cells if cell.cell_type == "code")
    parts = [cell for cell in made.cells if {"exercise", "check"} & set(tags(cell))]
    for cell in parts:
        cell.source = answers.get(cell.id, cell.source)
    made.cells = [setup, *parts]
    return made
