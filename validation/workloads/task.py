"""From a task in words to a prompt in tokens: filler is added until the prompt has the length that was asked for."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from tq_core.errors import ValueRangeError, check
from tq_core.model.chat import Message
from tq_core.model.interface import LanguageModel
from validation.workloads.conversation import conversation, literal_ids
from validation.workloads.prompt import NOTHING, Prompt

ME = "written for this repository"


@dataclass(frozen=True)
class Task:
    """``messages(amount)`` is the conversation with so many pieces of filler; it grows with ``amount``.

    alternatives: texts of replies, the right one first. opening: how the reply begins, the same for all of them.
    bare: the question without its context. marks: messages whose distance from the end becomes a fact, in tokens.
    """

    messages: Callable[[int], Sequence[Message]]
    alternatives: tuple[str, ...]
    opening: str = ""
    bare: tuple[Message, ...] = ()
    accept: tuple[str, ...] = ()
    distractors: tuple[str, ...] = ()
    new_tokens: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)
    marks: Mapping[str, Message] = field(default_factory=dict)


def random_of(workload: str, version: int, index: int) -> Random:
    """The random numbers of one prompt: they depend on nothing but its workload, version and place."""
    return Random(f"{workload}:{version}:{index}")


def as_tokens(ids: Sequence[int]) -> np.ndarray:
    """int32 (n_tokens,)."""
    return np.asarray(ids, np.int32)


def fit(size: Callable[[int], int], room: int, what: str) -> int:
    """The largest amount whose size is at most ``room``, by doubling and bisection; ``size`` must grow with the amount.

    Raises ValueRangeError when nothing at all is already too long.
    """
    least = size(0)
    check(least <= room, what, f"at least {least} tokens, its length without filler", room, ValueRangeError)
    low, high = 0, 1
    while size(high) <= room:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if size(middle) <= room else (low, middle)
    return low


def make_prompt(model: LanguageModel, workload: str, version: int, index: int, n_tokens: int, task: Task) -> Prompt:  # fmt: skip
    """The task as a prompt that takes at most ``n_tokens`` tokens with its longest continuation.

    The answer is the first alternative, and it alone is scored. Raises ValueRangeError when the task does not fit.
    """
    start = conversation(model, task.messages(0))
    space = " " if start.form == "transcript" or task.opening else ""
    opening = literal_ids(model, (" " if start.form == "transcript" else "") + task.opening) if task.opening else []  # fmt: skip
    alternatives = tuple(as_tokens(literal_ids(model, space + a)) for a in task.alternatives)
    after = len(opening) + max(task.new_tokens, *map(len, alternatives))
    name = f"{workload}-{index:03}"

    def size(amount: int) -> int:
        return len(conversation(model, task.messages(amount)).ids) + after

    messages = list(task.messages(fit(size, n_tokens, f"workload {workload}: length of {name}")))
    ids = conversation(model, messages).ids
    facts = {"length": len(ids) + len(opening), **task.facts}
    for mark, message in task.marks.items():
        told = next(n for n, m in enumerate(messages) if m is message) + 1
        facts[f"{mark}_distance"] = len(ids) - len(conversation(model, messages[:told]).ids) + len(opening)
    words = "\n".join([f"{m.role}: {m.content}" for m in messages] + [task.opening, *task.alternatives])
    return Prompt(
        name=name,
        style=workload,
        source=f"{ME}, seed {workload}:{version}:{index}",
        licence="Apache-2.0",
        sha256=hashlib.sha256(words.encode()).hexdigest(),
        tokens=as_tokens([*ids, *opening]),
        workload=workload,
        scored_from=len(ids) + len(opening),
        answer=alternatives[0],
        alternatives=alternatives,
        floor=as_tokens([*conversation(model, task.bare).ids, *opening]) if task.bare else NOTHING,
        new_tokens=task.new_tokens,
        stop_ids=start.stop_ids,
        accept=task.accept,
        distractors=task.distractors,
        facts=facts,
    )


def maker(
    workload: str, version: int, task_of: Callable[[Random, int, LanguageModel], Task]
) -> Callable[[LanguageModel, int, int], list[Prompt]]:
    """A workload's ``make``: prompt i is ``task_of(its random numbers, i, model)``, fitted."""

    def make(model: LanguageModel, count: int, n_tokens: int) -> list[Prompt]:
        every = (task_of(random_of(workload, version, i), i, model) for i in range(count))
        return [make_prompt(model, workload, version, i, n_tokens, task) for i, task in enumerate(every)]

    return make
