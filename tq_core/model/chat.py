"""The conversation formats that models are trained on, written out.

Each is what the models' own ``chat_template`` produces for plain turns, without tools and without the dates that
Llama 3.1 and later put before the system message: ChatML (Qwen, SmolLM), Llama 3's headers, Gemma's turns. A model has
a format when its vocabulary has the format's tokens and its template uses them: base models share the vocabulary and
have no template.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tq_core.errors import ValueRangeError, check
from tq_core.model.tokenizer import TextTokenizer

ROLES = ("system", "user", "assistant")
Turns = list[tuple[str, str]]
# What a ChatML template says when a conversation has no system message; the end of the line may be escaped in it.
_DEFAULT_SYSTEM = re.compile(r"<\|im_start\|>system(?:\\n|\n)([^'\"{}<|]+)<\|im_end\|>")


@dataclass(frozen=True)
class Message:
    """One turn. Raises ValueRangeError for an unknown role."""

    role: str
    content: str

    def __post_init__(self) -> None:
        check(self.role in ROLES, "role", f"one of {', '.join(ROLES)}", self.role, ValueRangeError)


@dataclass(frozen=True)
class ConversationFormat:
    """``parts`` of a turn: special tokens, which are ``tokens``, and text with {role} and {content} between them.

    ``turns`` makes (role, content) pairs as the format has them from messages and the model's template.
    """

    name: str
    parts: tuple[str, ...]
    tokens: tuple[str, ...]
    turns: Callable[[Sequence[Message], str], Turns]

    @property
    def end(self) -> str:
        """The special token that ends a turn."""
        return self.tokens[-1]


def _chatml(messages: Sequence[Message], template: str) -> Turns:
    turns = [(message.role, message.content) for message in messages]
    default = _DEFAULT_SYSTEM.search(template)
    return turns if default is None or turns[0][0] == "system" else [("system", default[1]), *turns]


def _llama3(messages: Sequence[Message], template: str) -> Turns:
    return [(message.role, message.content.strip()) for message in messages]


def _gemma(messages: Sequence[Message], template: str) -> Turns:
    """There is no system role: what it says begins the user's first turn."""
    turns = _llama3(messages, template)
    if len(turns) > 1 and turns[0][0] == "system" and turns[1][0] == "user":
        turns[:2] = [("user", f"{turns[0][1]}\n\n{turns[1][1]}")]
    return [("model" if role == "assistant" else "user", content) for role, content in turns]


FORMATS = (
    ConversationFormat(
        "chatml",
        ("<|im_start|>", "{role}\n{content}", "<|im_end|>", "\n"),
        ("<|im_start|>", "<|im_end|>"),
        _chatml,
    ),
    ConversationFormat(
        "llama3",
        ("<|start_header_id|>", "{role}", "<|end_header_id|>", "\n\n{content}", "<|eot_id|>"),
        ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
        _llama3,
    ),
    ConversationFormat(
        "gemma",
        ("<start_of_turn>", "{role}\n{content}", "<end_of_turn>", "\n"),
        ("<start_of_turn>", "<end_of_turn>"),
        _gemma,
    ),
)


def conversation_format(tokenizer: TextTokenizer) -> ConversationFormat | None:
    """The format that a model was trained to converse in; None for a model without one that is known here."""
    for known in FORMATS:
        if known.tokens[0] in tokenizer.template and all(
            token in tokenizer.special for token in known.tokens
        ):
            return known
    return None


def has_conversations(tokenizer: TextTokenizer) -> bool:
    """Whether the model was trained to converse in a format that is known here."""
    return conversation_format(tokenizer) is not None


def chat_tokens(tokenizer: TextTokenizer, messages: Sequence[Message]) -> list[int]:
    """Token ids of the conversation, with what a text begins with, ready for the assistant's next turn.

    Contents are encoded literally: special tokens written inside a message stay text. Raises ValueRangeError
    without messages, and for a tokenizer whose model does not know a format.
    """
    used = conversation_format(tokenizer)
    if used is None:
        names = ", ".join(known.name for known in FORMATS)
        raise ValueRangeError(
            f"tokenizer: expected tokens and a template of a conversation ({names}), got one without"
        )
    check(len(messages) > 0, "messages", "one or more", len(messages), ValueRangeError)
    turns = used.turns(messages, tokenizer.template)
    ids = list(tokenizer.begin)
    for role, content in turns:
        ids += _part_ids(tokenizer, used, used.parts, role, content)
    opening = next(at for at, part in enumerate(used.parts) if "{content}" in part) + 1
    [(reply_role, _)] = used.turns([Message("assistant", "")], "")
    return ids + _part_ids(tokenizer, used, used.parts[:opening], reply_role, "")


def stop_ids(tokenizer: TextTokenizer) -> tuple[int, ...]:
    """Ids that end a reply: what ends a turn, where the model has a format, and what ends a text."""
    used = conversation_format(tokenizer)
    turn = () if used is None else (tokenizer.special[used.end],)
    return tuple(dict.fromkeys([*turn, *tokenizer.end_ids]))


def _part_ids(
    tokenizer: TextTokenizer, used: ConversationFormat, parts: Sequence[str], role: str, content: str
) -> list[int]:
    ids: list[int] = []
    for part in parts:
        if part in used.tokens:
            ids.append(tokenizer.special[part])
        else:
            text = part.replace("{role}", role).replace("{content}", content)
            ids += tokenizer.encode(text, parse_special=False)
    return ids
