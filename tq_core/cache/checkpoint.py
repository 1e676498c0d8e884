"""A length to which a cache can return exactly, for tokens that may be rejected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tq_core.errors import CacheStateError, check


class Rewindable(Protocol):
    """A cache as its checkpoint sees it."""

    @property
    def open_checkpoint(self) -> Checkpoint | None: ...

    def truncate(self, length: int) -> None: ...

    def rewind(self, lengths: Sequence[int]) -> None: ...

    def end_checkpoint(self) -> None: ...


class Checkpoint:
    """Made by ``cache.checkpoint()``, ended by ``commit`` or ``rollback``, or by the cache's ``reset``.

    lengths: tokens of every layer when it was made; length: the least of them. Both calls raise CacheStateError
    when it has ended.
    """

    def __init__(self, cache: Rewindable, lengths: Sequence[int]) -> None:
        self._cache, self.lengths, self.length = cache, tuple(lengths), min(lengths)

    @property
    def is_open(self) -> bool:
        """Whether the cache still keeps what a return needs."""
        return self._cache.open_checkpoint is self

    def commit(self, length: int | None = None) -> None:
        """Keep the tokens before ``length`` (None: all of them) and give up the way back."""
        self._check_open()
        if length is not None:
            self._cache.truncate(length)
        self._cache.end_checkpoint()

    def rollback(self) -> None:
        """Let every layer be what it was when the checkpoint was made, bit for bit."""
        self._check_open()
        self._cache.rewind(self.lengths)
        self._cache.end_checkpoint()

    def _check_open(self) -> None:
        check(self.is_open, "checkpoint", "an open one", "one that has ended", CacheStateError)
