"""The tiny model's own retrieval task, with the value of another binding as the wrong answer to its last question."""

from __future__ import annotations

import numpy as np

from tq_core.errors import ValueRangeError, check
from tq_core.model.interface import LanguageModel
from tq_core.model.tiny_task import ANSWER_LENGTH, ASKS, BINDS, BOS, STATEMENT_LENGTH, tokenize
from validation.scenarios import EPISODE_QUERIES, Document, episode_documents
from validation.workloads.prompt import Prompt
from validation.workloads.task import as_tokens
from validation.workloads.workload import Workload

NAME, VERSION = "episodes", 1
LEAST_BINDINGS = 4  # so that there are other values to be mistaken for the right one
LEAST = 1 + STATEMENT_LENGTH * (LEAST_BINDINGS + EPISODE_QUERIES)
(BINDS_ID, ASKS_ID, BOS_ID) = tokenize(f"{BINDS} {ASKS} {BOS}")


def other_values(tokens: np.ndarray, key: np.ndarray, right: np.ndarray) -> list[np.ndarray]:
    """Values that other keys are bound to, those of keys that share a word with ``key`` first; none twice, none ``right``."""
    found: dict[tuple[int, ...], bool] = {}
    for at in np.flatnonzero(tokens == BINDS_ID):
        other, value = tokens[at + 1 : at + 3], tokens[at + 3 : at + 3 + ANSWER_LENGTH]
        if not np.array_equal(value, right) and not np.array_equal(other, key):
            near = bool((other == key).any())
            found[tuple(value.tolist())] = found.get(tuple(value.tolist()), False) or near
    return [as_tokens(v) for v in sorted(found, key=lambda v: not found[v])]


def prompt_of_episode(document: Document) -> Prompt:
    """Read up to the last question's key; its value is the answer. All positions are scored, as in the episode itself."""
    tokens = document.tokens
    asked = int(document.answers[-1][0])  # the position whose prediction is the first word of the value
    key = tokens[asked - 1 : asked + 1]
    right = tokens[asked + 1 : asked + 1 + ANSWER_LENGTH]
    wrong = other_values(tokens, key, right)
    check(bool(wrong), document.name, "another binding with another value", "none", ValueRangeError)
    bound = [
        int(at) for at in np.flatnonzero(tokens == BINDS_ID) if np.array_equal(tokens[at + 1 : at + 3], key)
    ]
    return Prompt(
        name=document.name,
        style=document.style,
        source=document.source,
        licence=document.licence,
        sha256=document.sha256,
        tokens=tokens[: asked + 1],
        answers=document.answers,
        workload=NAME,
        answer=tokens[asked + 1 :],
        alternatives=(right, *wrong[:3]),
        floor=as_tokens([BOS_ID, ASKS_ID, *key.tolist()]),
        facts={"length": len(tokens), "distance": asked - (bound[0] + 2)},
    )


def _make(model: LanguageModel, count: int, n_tokens: int) -> list[Prompt]:
    check(model.name == "tiny", "model", "tiny, which knows this task's words", model.name, ValueRangeError)
    return [prompt_of_episode(d) for d in episode_documents(count, n_tokens)]


WORKLOAD = Workload(
    name=NAME,
    version=VERSION,
    title="Episodes of the tiny model's retrieval task",
    shows="Whether a model that was trained to tell keys apart that differ in one word still does so over a compressed cache.",
    cannot_show="Anything about language: the vocabulary has 80 words, and the task was made for caches.",
    make=_make,
    least=LEAST,
)
