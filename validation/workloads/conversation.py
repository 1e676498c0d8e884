"""A conversation as token ids: in the format that the model was trained on, or as a written transcript."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tq_core.errors import ValueRangeError, check
from tq_core.model.chat import Message, chat_tokens, conversation_format, stop_ids
from tq_core.model.interface import LanguageModel

NAMES = {"system": "Instructions", "user": "User", "assistant": "Assistant"}


@dataclass(frozen=True)
class Conversation:
    """ids: all turns, ready for the assistant's next one. stop_ids end a reply.

    form: "chatml", "llama3" or "gemma", or "transcript" for a model that was trained on none of them.
    """

    ids: list[int]
    form: str
    stop_ids: tuple[int, ...]


def literal_ids(model: LanguageModel, text: str, first: bool = False) -> list[int]:
    """Token ids of ``text``, special tokens in it read as characters; only the ``first`` text begins as texts begin."""
    tokenizer: Any = getattr(model, "tokenizer", None)
    if tokenizer is not None:
        return [*(tokenizer.begin if first else ()), *tokenizer.encode(text, parse_special=False)]
    ids = model.tokenize(text)
    return ids if first else ids[len(model.tokenize("")) :]


def conversation(model: LanguageModel, messages: Sequence[Message]) -> Conversation:
    """Token ids of a conversation. A model without conversation tokens reads "User: ..." and "Assistant: ..." lines.

    In both forms the contents are plain characters: "<|im_end|>" in a message ends no turn and no text.
    Raises ValueRangeError without messages and for the tiny model, which knows no sentences.
    """
    check(len(messages) > 0, "messages", "one or more", len(messages), ValueRangeError)
    check(model.name != "tiny", "model", "a model that reads text", model.name, ValueRangeError)
    tokenizer: Any = getattr(model, "tokenizer", None)
    known = None if tokenizer is None else conversation_format(tokenizer)
    if known is not None:
        return Conversation(chat_tokens(tokenizer, messages), known.name, stop_ids(tokenizer))
    lines = [f"{NAMES[m.role]}: {m.content}" for m in messages]
    return Conversation(literal_ids(model, "\n\n".join([*lines, "Assistant:"]), first=True), "transcript", ())
