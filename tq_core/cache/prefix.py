"""Which stored cache holds a prefix of a prompt, decided by the tokens themselves.

A digest finds a candidate quickly; it is never the proof. Keys and values of another prompt would make fluent,
wrong text, so the ids are compared one by one before anything is reused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tq_core.cache.identity import CacheIdentity, check_identity, token_array, token_digest

Tokens = Sequence[int] | np.ndarray


def match_prefix(saved_tokens: Tokens, prompt_tokens: Tokens) -> int:
    """How many leading tokens the two have in common; what follows in a stored cache must be rolled back.

    A prompt that is stored as a whole still needs its last token fed again, since logits are not stored.
    """
    saved, prompt = token_array(saved_tokens), token_array(prompt_tokens)
    n = min(len(saved), len(prompt))
    differ = np.flatnonzero(saved[:n] != prompt[:n])
    return int(differ[0]) if differ.size else n


@dataclass(frozen=True)
class PrefixRecord:
    """The tokens of a stored cache and the identity under which they were computed."""

    identity: CacheIdentity
    tokens: tuple[int, ...]

    @property
    def digest(self) -> str:
        """Digest of the tokens."""
        return token_digest(self.tokens)

    def match(self, expected: CacheIdentity, prompt_tokens: Tokens) -> int:
        """Reusable leading tokens of the prompt. Raises IdentityMismatch when the identity is another one."""
        check_identity(expected.with_tokens(None), self.identity)
        return match_prefix(self.tokens, prompt_tokens)


@dataclass
class PrefixIndex:
    """Records by identity and token digest, the longest stored prefix of a prompt first."""

    _found: dict[tuple[str, int, str], PrefixRecord] = field(default_factory=dict)

    def add(self, record: PrefixRecord) -> None:
        """Remember a record; one with the same tokens and identity is replaced."""
        self._found[self._key(record.identity, np.asarray(record.tokens, np.int32))] = record

    @staticmethod
    def _key(identity: CacheIdentity, tokens: np.ndarray) -> tuple[str, int, str]:
        return identity.with_tokens(None).digest, len(tokens), token_digest(tokens)

    def longest(self, expected: CacheIdentity, prompt_tokens: Tokens) -> PrefixRecord | None:
        """The record with the most tokens, all of them equal to the prompt's first ones; None when there is none."""
        prompt = token_array(prompt_tokens)
        lengths = sorted({n for _, n, _ in self._found if n <= len(prompt)}, reverse=True)
        for n in lengths:
            record = self._found.get(self._key(expected, prompt[:n]))
            if record is not None and record.match(expected, prompt) == len(record.tokens) == n:
                return record
        return None
