"""Exercises of the notebooks: ``exercises.show("2.1", fn)`` draws what code touches, ``exercises.check("2.1", fn)`` judges it.

Both print and never raise what the learner's code raises. An endless loop is not guarded: interrupt the kernel.
"""

from __future__ import annotations

from typing import Any

from tq_core.errors import BackendError, ValueRangeError
from tq_core.exercises import (
    ex01_cache_budget,
    ex02_math_prototype,
    ex03_one_layer_fixture,
    ex04_pages_and_bits,
    ex05_tiny_transformer,
    ex06_native_kernels,
    ex07_wasm_kernels,
)
from tq_core.exercises.check import TOLD, judge, told
from tq_core.exercises.exercise import Exercise
from tq_core.show import nb

_FILES = (
    ex01_cache_budget,
    ex02_math_prototype,
    ex03_one_layer_fixture,
    ex04_pages_and_bits,
    ex05_tiny_transformer,
    ex06_native_kernels,
    ex07_wasm_kernels,
)
EXERCISES: dict[str, Exercise] = {e.number: e for file in _FILES for e in file.EXERCISES}


def get(number: str) -> Exercise:
    """The exercise of that number. Raises ValueRangeError for an unknown one."""
    if number not in EXERCISES:
        raise ValueRangeError(f"number: expected one of {', '.join(EXERCISES)}, got {number!r}")
    return EXERCISES[number]


def show(number: str, attempt: Any) -> None:
    """Draw what an attempt touches; where it does not run yet, what the specification touches."""
    exercise = get(number)
    try:
        drawing, drawn = exercise.draw(exercise.adapt(attempt)), "your code"
        drawing.figure.draw_without_rendering()  # an answer that cannot be drawn shows up here, not later
    except NotImplementedError:
        drawing, drawn = exercise.draw(exercise.spec), "the specification, until there is code of yours"
    except BackendError as error:
        drawing, drawn = exercise.draw(exercise.spec), f"the specification: {error}"
    except TOLD as error:
        drawing = exercise.draw(exercise.spec)
        drawn = f"the specification: {told(error, attempt)}"
    print(f"Drawn: {drawn}")
    nb.show(drawing.figure, drawing.alt, drawing.columns, drawing.rows)


def check(number: str, attempt: Any) -> None:
    """Print NOT ATTEMPTED, PASS or FAIL with yours and the specification's value at the first difference."""
    print(judge(get(number), attempt))
