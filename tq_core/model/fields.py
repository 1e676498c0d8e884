"""A model's numbers by GGUF's names, wherever they are kept: what the families of architectures read.

GGUF metadata keep them under a prefix ("qwen2.block_count"), a Hugging Face config.json under names of its own
("num_hidden_layers"). Both implement `Fields`, so that each family is written once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tq_core.model.gguf_header import require


class Fields(Protocol):
    """Every method raises ModelFileError, naming the field as its file does."""

    @property
    def name(self) -> str: ...

    @property
    def family(self) -> str:
        """The architecture: "llama", "qwen2", "qwen3", "gemma", "gemma3", or one that is not known here."""

    @property
    def vocab_size(self) -> int: ...

    @property
    def tied_output(self) -> bool:
        """Whether the embedding is the output matrix too."""

    @property
    def llama_pairing(self) -> str:
        """Rotary pairs of the llama family; GGUF files have its query and key channels in another order."""

    def key(self, name: str) -> str:
        """What the file calls the field."""

    def size(self, name: str, limit: int = 1 << 24, default: int | None = None) -> int:
        """A whole number, 1..limit."""

    def positive(self, name: str, default: float | None = None) -> float: ...

    def rope_divisors(self, head_dim: int) -> tuple[float, ...]:
        """What the rotary frequencies are divided by, (head_dim / 2,); empty for nothing."""

    def full_layers(self, n_layers: int, default_every: int) -> Sequence[bool]:
        """Per layer whether it sees everything; the last of every ``default_every`` where the file does not say."""

    def refuse_options(self) -> None:
        """Refuse what changes the forward pass and is not done here."""


def every(n_layers: int, count: int) -> list[bool]:
    """The last of every ``count`` layers."""
    return [(layer + 1) % count == 0 for layer in range(n_layers)]


def checked_size(key: str, value: int, limit: int) -> int:
    """Return ``value``; ModelFileError unless it is in 1..limit."""
    require(1 <= value <= limit, key, f"1..{limit}", value)
    return value


def checked_positive(key: str, value: float) -> float:
    """Return ``value``; ModelFileError unless it is positive and of ordinary size."""
    require(0.0 < value < 1e12, key, "a positive number", value)
    return value
