"""What an exercise is: its text, its specification, the inputs it is tried on, and the picture of what code touches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tq_core.exercises.draw import Drawing

Cases = list[tuple[Any, ...]]


def as_it_is(attempt: Any) -> Callable[..., Any]:
    """The learner's function, called as the specification is."""
    function: Callable[..., Any] = attempt
    return function


def in_place(attempt: Any) -> Callable[..., Any]:
    """A function that changes its first argument and returns nothing, as one that returns that argument."""

    def run(first: Any, *rest: Any) -> Any:
        attempt(first, *rest)
        return first

    return run


@dataclass(frozen=True)
class Exercise:
    """One exercise of a notebook.

    number: "2.1" for the first of notebook 02. attempt: the name that the learner's cell defines, a function or
    C++ text. difficulty, importance: 1 to 5. task, hint: markdown. spec: the slow and plain answer. cases: argument
    tuples for it. draw: from a callable like ``spec`` to a picture. tolerance: largest error allowed, relative to the
    largest magnitude of the specification's answer; 0 asks for the same bits. adapt: from the learner's object to a
    callable like ``spec``.
    """

    number: str
    name: str
    attempt: str
    difficulty: int
    importance: int
    minutes: int
    task: str
    hint: str
    spec: Callable[..., Any]
    cases: Callable[[], Cases]
    draw: Callable[[Callable[..., Any]], Drawing]
    tolerance: float = 0.0
    adapt: Callable[[Any], Callable[..., Any]] = as_it_is

    @property
    def notebook(self) -> str:
        """The two digits of its notebook."""
        return f"{int(self.number.split('.')[0]):02d}"
