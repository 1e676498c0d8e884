"""A cache's tokens as a plain list, with the promises that hold of them: what the random calls are compared with."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.arms import Arm
from tq_core.kernels.backend import Backend
from tq_core.shapes import ModelShape
from tq_core.tests.cache.invariants import difference
from tq_core.tests.cache.worlds import half, tokens

SHAPE = ModelShape(n_layers=2, n_query_heads=2, n_kv_heads=1, head_dim=16)
QUERIES, KEYS, VALUES = tokens(4096, SHAPE, seed=21)
WORST = 0.45  # of a vector's squared norm: 2.5 to 3.5 bits, and for groups that were encoded twice


def rows(layer: int, ids: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Queries, keys and values of tokens in one layer."""
    turn = np.float32(1 - 2 * layer)
    return turn * QUERIES[ids], turn * KEYS[ids], VALUES[ids]


def add(cache: PagedCache, ids: list[int]) -> None:
    """Append tokens to every layer."""
    for layer in range(SHAPE.n_layers):
        cache.append(layer, *rows(layer, ids)[1:])


def attend(cache: PagedCache, ids: list[int]) -> bytes:
    """Append tokens to every layer as a model does; the bits of the attention."""
    with cache.step():
        return b"".join(cache.attend(layer, *rows(layer, ids)).tobytes() for layer in range(SHAPE.n_layers))


@dataclass
class Plain:
    """What one cache was given. ``exact``: it must equal, bit for bit, ``twin``, a cache that was given just that."""

    arm: Arm
    backend: Backend
    ids: list[int] = field(default_factory=list)
    slides: list[tuple[int, int]] = field(default_factory=list)  # (length then, tokens kept)
    exact: bool = True
    checkpoint: int | None = None
    twin: PagedCache | None = None

    def copy(self) -> Plain:
        """The same tokens, for a fork."""
        return replace(self, ids=list(self.ids), slides=list(self.slides), checkpoint=None, twin=None)

    def packed(self, n: int) -> int:
        """Tokens in packed pages after n appends and nothing else."""
        window = n if self.arm.window is None else self.arm.window
        beyond = max(n - self.arm.sinks - window, 0)
        return beyond // self.arm.flush_tokens * self.arm.flush_tokens

    def cut(self, n: int) -> None:
        """Take back the tokens from n on. Exact under a checkpoint, or when none of the kept had left the window."""
        if n == len(self.ids):
            return
        kept = self.checkpoint is not None or self.packed(n) == self.packed(len(self.ids))
        slid_since = any(at > n for at, _ in self.slides)
        whole = n <= self.arm.sinks
        self.exact = whole or (self.exact and kept and not slid_since)
        self.ids, self.twin = self.ids[:n], None
        if whole:
            self.slides = []

    def reference(self) -> PagedCache:
        """The twin, brought up to date."""
        if self.twin is None:  # slides are played again at the lengths where they happened
            self.twin, done = PagedCache(SHAPE, self.arm, self.backend), 0
            for at, keep in self.slides:
                add(self.twin, self.ids[done:at])
                done = at
                self.twin.slide(keep)
        add(self.twin, self.ids[self.twin.length :])
        return self.twin

    def check(self, cache: PagedCache) -> None:
        """Every live token is readable; an exact cache holds the twin's bytes."""
        n = len(self.ids)
        assert cache.length == n
        live, sinks = cache.live_tokens, min(n, self.arm.sinks)
        assert live == n or (self.slides and sinks <= live < n)
        wanted = self.ids[:sinks] + self.ids[n - (live - sinks) :]
        window = cache.stores["recent"].count(0)
        for layer in range(SHAPE.n_layers):
            for given, stored in zip(rows(layer, wanted)[1:], cache.decode(layer), strict=True):
                error = ((stored - given) ** 2).sum(axis=(1, 2)) / (given**2).sum(axis=(1, 2))
                assert error.max(initial=0) < WORST
                if self.exact:
                    both = np.r_[0:sinks, live - window : live]
                    np.testing.assert_array_equal(stored[both], half(given[both]))
        if self.exact:
            assert difference(cache, self.reference()) == ""
