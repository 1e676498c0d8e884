"""Ordinary chat: conversations about everyday matters whose last request needs what was said before."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from tq_core.errors import ValueRangeError, check
from tq_core.model.chat import Message
from tq_core.model.interface import LanguageModel
from validation.workloads.conversation import Conversation, conversation
from validation.workloads.prompt import Prompt
from validation.workloads.stored import DATA, stored
from validation.workloads.task import as_tokens
from validation.workloads.workload import Workload

NAME, VERSION = "chat", 1
FILE = "chat.jsonl"
TALKS_THERE = 48
NEW_TOKENS = 48
KEPT = 3  # the last request, and the exchange before it


@dataclass(frozen=True)
class Talk:
    """One conversation of the file; the first and the last turn are the user's."""

    id: str
    topic: str
    messages: tuple[Message, ...]


def talks(folder: Path = DATA) -> list[Talk]:
    """All conversations, in the file's order. Raises ModelFileError when the file is missing or altered."""
    every = (json.loads(line) for line in stored(FILE, folder)[0].splitlines())
    return [Talk(t["id"], t["topic"], tuple(Message(**m) for m in t["messages"])) for t in every]


def cut(model: LanguageModel, talk: Talk, n_tokens: int) -> tuple[int, Conversation]:
    """(turns that were left out, what is read): as few of the earliest exchanges go as make it fit into ``n_tokens``.

    The last request and the exchange before it always stay. Raises ValueRangeError when these alone are longer.
    """
    for gone in range(0, len(talk.messages) - KEPT + 1, 2):
        read = conversation(model, talk.messages[gone:])
        if len(read.ids) <= n_tokens:
            return gone, read
    least = f"at least {len(read.ids)} tokens for the end of conversation {talk.id}"
    raise ValueRangeError(f"workload {NAME}: length: expected {least}, got {n_tokens}")


def _prompt(model: LanguageModel, talk: Talk, n_tokens: int, entry: dict[str, str]) -> Prompt:
    gone, read = cut(model, talk, n_tokens)
    words = "\n".join(f"{m.role}: {m.content}" for m in talk.messages[gone:])
    return Prompt(
        name=f"{NAME}-{talk.id}",
        style=entry["style"],
        source=entry["source"],
        licence=entry["licence"],
        sha256=hashlib.sha256(words.encode()).hexdigest(),
        tokens=as_tokens(read.ids),
        workload=NAME,
        scored_from=len(read.ids),
        floor=as_tokens(conversation(model, talk.messages[-1:]).ids),
        new_tokens=NEW_TOKENS,
        stop_ids=read.stop_ids,
        facts={
            "length": len(read.ids),
            "topic": talk.topic,
            "turns": len(talk.messages) - gone,
            "form": read.form,
        },
    )


def _make(model: LanguageModel, count: int, n_tokens: int) -> list[Prompt]:
    entry = stored(FILE)[1]
    every = talks()
    check(1 <= count <= len(every), f"workload {NAME}: prompts", f"1..{len(every)}", count, ValueRangeError)
    return [_prompt(model, talk, n_tokens, entry) for talk in every[:count]]


WORKLOAD = Workload(
    name=NAME,
    version=VERSION,
    title="Ordinary chat",
    shows="How far an arm moves the predictions of the model's own reply to a request that rests on earlier turns, and where "
    "a free reply first takes another word.",
    cannot_show="Whether a reply is good: nobody judges it. Many replies of a model with 135 million parameters mix up details or "
    "begin to repeat themselves even without compression, and repeated words are easy to predict for every arm.",
    make=_make,
    least=288,
    most=TALKS_THERE,
)
