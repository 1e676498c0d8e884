"""What a cell's text defines."""

from __future__ import annotations

from typing import Any

from tq_core.exercises.exercise import Exercise


def defined(exercise: Exercise, text: str) -> Any:
    """The attempt that a cell with this text makes."""
    names: dict[str, Any] = {}
    exec(compile(text, "<cell>", "exec"), names)
    return names[exercise.attempt]
