"""The conversation format of SmolLM2-Instruct, written out.

Source: ``tokenizer.chat_template`` in the metadata of the model's GGUF file (ChatML with a default
system message). A test renders the format here against what that template says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tq_core.errors import ValueRangeError, check
from tq_core.model.tokenizer import GgufTokenizer

DEFAULT_SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
ROLES = ("system", "user", "assistant")


@dataclass(frozen=True)
class Message:
    """One turn. Raises ValueRangeError for an unknown role."""

    role: str
    content: str

    def __post_init__(self) -> None:
        check(self.role in ROLES, "role", f"one of {', '.join(ROLES)}", self.role, ValueRangeError)


def has_conversations(tokenizer: GgufTokenizer) -> bool:
    """Whether the vocabulary has this format's special tokens; a model without them was not trained to converse in it."""
    return all(token in tokenizer.special for token in ("<|im_start|>", "<|im_end|>"))


def chat_tokens(tokenizer: GgufTokenizer, messages: Sequence[Message]) -> list[int]:
    """Token ids of the conversation, ready for the assistant's next turn.

    Contents are encoded literally: special tokens written inside a message stay text. Raises ValueRangeError
    without messages, and for a tokenizer whose model does not know the format.
    """
    known = has_conversations(tokenizer)
    check(known, "tokenizer", "one with <|im_start|> and <|im_end|>", "one without", ValueRangeError)
    check(len(messages) > 0, "messages", "one or more", len(messages), ValueRangeError)
    turns = list(messages)
    if turns[0].role != "system":
        turns.insert(0, Message("system", DEFAULT_SYSTEM))
    ids: list[int] = []
    for turn in turns:
        ids += tokenizer.encode("<|im_start|>")
        ids += tokenizer.encode(f"{turn.role}\n{turn.content}", parse_special=False)
        ids += tokenizer.encode("<|im_end|>\n")
    return ids + tokenizer.encode("<|im_start|>assistant\n")
