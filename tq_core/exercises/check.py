"""Comparing an attempt with its specification. Nothing that the learner's code does is raised from here.

A loop that never ends is not guarded: it runs until the kernel is interrupted, and so is C++ that writes outside
its arrays.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tq_core.errors import BackendError
from tq_core.exercises.exercise import Exercise

NOT_ATTEMPTED, PASS, FAIL, NOT_EXERCISED = "NOT ATTEMPTED", "PASS", "FAIL", "NOT EXERCISED"
TOLD = (Exception, SystemExit)


@dataclass(frozen=True)
class Outcome:
    """A verdict (one of the four words above) and the lines that explain it."""

    number: str
    verdict: str
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([f"{self.verdict}: {self.lines[0]}", *[f"  {line}" for line in self.lines[1:]]])


def _shown(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, (float, np.floating)) else str(value)


def _bits(array: np.ndarray) -> np.ndarray:
    return array.view(f"u{array.dtype.itemsize}") if array.dtype.kind == "f" else array


def _unequal(yours: np.ndarray, spec: np.ndarray, tolerance: float) -> np.ndarray:
    """Where two arrays of one shape differ, bool."""
    if tolerance == 0:
        return _bits(yours) != _bits(spec)
    limit = tolerance * np.abs(spec).max(initial=0)
    return ~(np.abs(yours.astype(np.float64) - spec) <= limit)


def difference(yours: Any, spec: Any, tolerance: float) -> list[str]:
    """Lines that say how ``yours`` differs from ``spec``; empty when it does not. A tuple is compared part by part."""
    if isinstance(spec, tuple):
        if not isinstance(yours, (tuple, list)) or len(yours) != len(spec):
            return [f"expected a tuple of {len(spec)} parts, got {type(yours).__name__}"]
        for i, (part, wanted) in enumerate(zip(yours, spec, strict=True)):
            if lines := difference(part, wanted, tolerance):
                return [f"part {i} of the answer:", *lines]
        return []
    if yours is None:
        return ["expected an answer, got None: is there a return?"]
    got, want = np.asarray(yours), np.asarray(spec)
    if got.dtype.kind not in "biuf":
        return [f"expected numbers, got {type(yours).__name__} of {got.dtype}"]
    if got.shape != want.shape:
        return [f"expected shape {want.shape}, got {got.shape}"]
    if tolerance == 0 and isinstance(spec, np.ndarray) and got.dtype != want.dtype:
        return [f"expected dtype {want.dtype}, got {got.dtype}"]
    if tolerance == 0 and got.dtype != want.dtype:  # Python numbers: equal is equal
        wrong = got != want
    else:
        wrong = _unequal(got, want, tolerance)
    if not wrong.any():
        return []
    if got.ndim == 0:
        return [f"yours  {_shown(got[()])}", f"spec   {_shown(want[()])}"]
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    where = f"[{', '.join(map(str, first))}]"
    return [
        f"{int(wrong.sum())} of {wrong.size} values differ, the first at {where}",
        f"yours{where}  {_shown(got[first])}",
        f"spec{where}   {_shown(want[first])}",
    ]


def _line(error: BaseException, attempt: Any) -> str:
    """Which line of the learner's cell raised, where that is known."""
    cell = getattr(getattr(attempt, "__code__", None), "co_filename", None)
    trace, found = error.__traceback__, ""
    while trace is not None:
        if cell is not None and trace.tb_frame.f_code.co_filename == cell:
            found = f" in line {trace.tb_lineno} of the cell"
        trace = trace.tb_next
    return found


def told(error: BaseException, attempt: Any) -> str:
    """One line about what the learner's code raised."""
    return f"your code raised {type(error).__name__}{_line(error, attempt)}: {error}".rstrip(": ")


def judge(exercise: Exercise, attempt: Any) -> Outcome:
    """Run an attempt on every case, each on a copy of its inputs."""
    title = f"{exercise.number} {exercise.name}"

    def outcome(verdict: str, *lines: str) -> Outcome:
        return Outcome(exercise.number, verdict, (f"{title}{lines[0]}", *lines[1:]))

    cases = exercise.cases()
    try:
        run: Callable[..., Any] = exercise.adapt(attempt)
        for i, case in enumerate(cases, 1):
            yours = run(*copy.deepcopy(case))
            if lines := difference(yours, exercise.spec(*copy.deepcopy(case)), exercise.tolerance):
                return outcome(FAIL, f", case {i} of {len(cases)}", *lines)
    except NotImplementedError:
        return outcome(NOT_ATTEMPTED, "")
    except BackendError as error:
        return outcome(NOT_EXERCISED, f": {error}")
    except TOLD as error:
        return outcome(FAIL, "", *told(error, attempt).splitlines())
    agreement = (
        f"error at most {exercise.tolerance:g} of the largest" if exercise.tolerance else "equal bit for bit"
    )
    return outcome(PASS, f": {len(cases)} cases, {agreement}")
