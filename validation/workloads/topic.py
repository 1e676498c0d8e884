"""Repeated topic: one thing is asked again and again in other words, and the answer should stay what it was."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import islice
from math import ceil
from pathlib import Path
from random import Random
from typing import Any

import yaml

from tq_core.model.chat import Message
from tq_core.model.interface import LanguageModel
from validation.workloads.filler import turns
from validation.workloads.stored import DATA, stored
from validation.workloads.task import Task, maker
from validation.workloads.workload import Workload

NAME, VERSION = "topic", 1
FILE = "topics.yaml"
NEW_TOKENS = 48
FIRST_ASKED = 3  # how often it was asked before, in the shortest prompt


@dataclass(frozen=True)
class Topic:
    """One entry of the file, whose first lines say what its parts are."""

    name: str
    values: tuple[str, str]
    questions: tuple[str, ...]
    statements: tuple[str, ...]
    claim: str
    doubt: tuple[str, str]
    closing: str


@cache
def topics(folder: Path = DATA) -> tuple[Topic, ...]:
    """All topics, in the file's order. Raises ModelFileError when the file is missing or altered."""
    every: list[dict[str, Any]] = yaml.safe_load(stored(FILE, folder)[0])
    for plain in every:
        plain.update({k: tuple(v) for k, v in plain.items() if isinstance(v, list)})
    return tuple(Topic(**plain) for plain in every)


def _task(random: Random, index: int, model: LanguageModel) -> Task:
    every = topics()
    round_, at = divmod(index, len(every))
    topic = every[at]
    value, other = topic.values if round_ % 2 == 0 else topic.values[::-1]
    # Where nobody disagrees at the end, the value that was told can hardly be missed.
    pressed = (index + round_ + round_ // 2) % 2 == 0
    claim = topic.claim.format(w=other)
    last, *questions = random.sample(topic.questions, len(topic.questions))
    statements = [s for _ in range(2) for s in random.sample(topic.statements, len(topic.statements))]
    said = list(zip(questions, statements, strict=False))
    if not pressed:
        said.insert(random.randrange(1, FIRST_ASKED + 1), (f"{claim} {topic.doubt[0]}", topic.doubt[1]))
    asked = [[Message("user", q), Message("assistant", a.format(v=value))] for q, a in said]
    question = Message("user", f"{claim} {last}" if pressed else last)
    between = turns(random)
    filler: list[list[Message]] = []

    def messages(amount: int) -> list[Message]:
        often = min(FIRST_ASKED + amount // 2, len(asked))
        idle = FIRST_ASKED + amount - often
        filler.extend(list(t) for t in islice(between, max(0, idle - len(filler))))
        # The first answer comes first; what is idle stands between the others and before the last question.
        places = [ceil((k + 1) * often / idle) for k in range(idle)]
        exchanges = []
        for n in range(often):
            exchanges += asked[n]
            exchanges += [m for k, place in enumerate(places) if place == n + 1 for m in filler[k]]
        return [*exchanges, question]

    return Task(
        messages,
        tuple(topic.closing.format(v=v) for v in (value, other)),
        bare=(question,),
        accept=(value,),
        distractors=(other,),
        new_tokens=NEW_TOKENS,
        facts={"topic": topic.name, "pressed": pressed},
    )


WORKLOAD = Workload(
    name=NAME,
    version=VERSION,
    title="Repeated topic",
    shows="Whether an answer that was given several times is still preferred to a contradicting one, in every other prompt "
    "against a user who names the other value; and whether free replies repeat themselves or end in a loop.",
    cannot_show="Consistency between an arm's own answers: the earlier ones are given. Where nobody disagrees, the model "
    "with 135 million parameters misses no value, so these prompts warn of gross damage only.",
    make=maker(NAME, VERSION, _task),
    least=320,
)
