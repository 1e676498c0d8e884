"""The vocabulary in a GGUF file's metadata, and how a tokenizer for it is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tokenizers import Tokenizer

from tq_core.model.gguf_file import GgufFile
from tq_core.model.gguf_header import require

# Values of tokenizer.ggml.token_type.
NORMAL, CONTROL, USER_DEFINED, BYTE = 1, 3, 4, 6


@dataclass(frozen=True)
class Vocabulary:
    """Tokens and their kinds by id; every token is there once."""

    tokens: list[str]
    kinds: list[int]

    @classmethod
    def from_gguf(cls, file: GgufFile) -> Vocabulary:
        """Read and check; ModelFileError names the field that is wrong."""
        tokens = strings(file, "tokenizer.ggml.tokens")
        distinct = len(set(tokens))
        require(distinct == len(tokens), "tokenizer.ggml.tokens", "each token once", f"{distinct} distinct")
        key = "tokenizer.ggml.token_type"
        kinds = file.metadata(key, list)
        require(len(kinds) == len(tokens), key, f"{len(tokens)} entries", len(kinds))
        return cls(tokens, kinds)

    def of_kinds(self, *kinds: int) -> dict[str, int]:
        """Ids of the tokens of these kinds, by text."""
        pairs = zip(self.tokens, self.kinds, strict=True)
        return {token: token_id for token_id, (token, kind) in enumerate(pairs) if kind in kinds}

    def all_ids(self) -> dict[str, int]:
        """Ids of all tokens, by text."""
        return {token: token_id for token_id, token in enumerate(self.tokens)}

    def id_of(self, file: GgufFile, role: str) -> int:
        """The id that the metadata give to "eos", "bos" or "unknown"; ModelFileError when it is no token."""
        key = f"tokenizer.ggml.{role}_token_id"
        got = file.metadata(key, int)
        require(0 <= got < len(self.tokens), key, f"0..{len(self.tokens) - 1}", got)
        return got


@dataclass(frozen=True)
class Recipe:
    """A kind of tokenizer: ``make`` one that knows no special tokens; ``merge`` its ids further; ``facts`` that decide ids.

    ``always``: kinds of tokens that are single ids even where text is taken literally. ``adds_begin``: whether a
    text begins with a token of its own when the file does not say.
    """

    make: Callable[[], Tokenizer]
    merge: Callable[[Sequence[int]], Sequence[int]]
    facts: dict[str, Any]
    always: tuple[int, ...] = ()
    adds_begin: bool = False


def strings(file: GgufFile, key: str) -> list[str]:
    """A metadata field that lists text; ModelFileError for anything else."""
    values = file.metadata(key, list)
    ok = len(values) > 0 and all(isinstance(value, str) for value in values)
    require(ok, key, "strings", "none or something else")
    return values
