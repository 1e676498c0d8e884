"""Peak memory of a growing cache: what its ledger names, and what the process allocates while it grows.

Python's tracemalloc sees every array, wherever a cache hides it, and the staging copies that live for a moment; it does
not see memory of another language. That is what the resident size of a process of its own is for.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from tq_core.codecs.arms import Arm, get_arm
from tq_core.kernels.backend import Backend
from tq_core.shapes import ModelShape
from validation.trials.session import CHUNK, Make, enough_tokens, feed, plain, random_rows, token_bytes

FP16_BYTES, MOST_ROWS = 11 << 20, 16_000  # some seconds for an arm in kernels: tracing is slow


@dataclass(frozen=True)
class Step:
    """Bytes after a step that ended with so many tokens: ledger's total, allocated now, and most allocated during it."""

    tokens: int
    ledger: int
    named: int  # of the ledger, what lasts from step to step and belongs to this cache alone
    allocated: int
    peak: int


@dataclass(frozen=True)
class Growth:
    """One cache from its first token on."""

    arm: str
    steps: tuple[Step, ...]

    @property
    def peak(self) -> int:
        """Most bytes at any step, by ledger or allocation, whichever says more."""
        return max(max(s.ledger, s.peak) for s in self.steps)

    @property
    def ledger_peak(self) -> int:
        """The ledger's largest total."""
        return max(s.ledger for s in self.steps)

    @property
    def staging(self) -> int:
        """Most bytes that a step allocated beyond what was left after it."""
        return max(s.peak - s.allocated for s in self.steps)

    @property
    def hidden(self) -> int:
        """Bytes by which what no entry of the ledger names grew, from the first step to the one where it was largest.

        What it is at first are Python's own objects; a history that is kept beside the pages grows with the tokens.
        """
        unnamed = [s.allocated - s.named for s in self.steps]
        return max(unnamed) - unnamed[0]


@dataclass(frozen=True)
class PeakMemory:
    """An arm's cache and the uncompressed one through the same session, without reserved pages."""

    backend: str
    tokens: int
    token_bytes: int  # one token in float16, all layers
    least_shadow: int  # the keys of one layer in float16, over the tokens after the first step
    arm: Growth
    fp16: Growth

    @property
    def share(self) -> float:
        """Peak of the arm as a share of the uncompressed cache's."""
        return self.arm.peak / self.fp16.peak

    @property
    def smaller_from(self) -> int | None:
        """Tokens from which on the arm's ledger stays below the uncompressed cache's; None when it never does."""
        pairs = list(zip(self.arm.steps, self.fp16.steps))
        above = [i for i, (a, b) in enumerate(pairs) if a.ledger >= b.ledger]
        first = above[-1] + 1 if above else 0
        return pairs[first][0].tokens if first < len(pairs) else None

    def as_dict(self) -> dict[str, Any]:
        """JSON-able form."""
        told = {"share": self.share, "smaller_from": self.smaller_from}
        for name, g in (("arm", self.arm), ("fp16", self.fp16)):
            told[f"{name}_peak"], told[f"{name}_staging"], told[f"{name}_hidden"] = (
                g.peak,
                g.staging,
                g.hidden,
            )
        return {**asdict(self), **told}


@contextmanager
def _tracing() -> Iterator[None]:
    """Allocations are traced inside; what was traced before goes on."""
    before = tracemalloc.is_tracing()
    if not before:
        tracemalloc.start()
    try:
        yield
    finally:
        if not before:
            tracemalloc.stop()


def grow(
    shape: ModelShape, arm: Arm, backend: Backend, tokens: int, make: Make = plain, chunk: int = CHUNK
) -> Growth:
    """Put a fresh cache through a session of ``tokens`` and look at every step."""
    rows = random_rows(shape, chunk)
    warm = plain(shape, arm, backend, 0)  # what codecs make once, for all caches, is made here
    list(feed(warm, shape, rows, min(tokens, chunk), 1))
    del warm
    steps = []
    with _tracing():
        gc.collect()
        base, _ = tracemalloc.get_traced_memory()
        cache = make(shape, arm, backend, 0)
        session = feed(cache, shape, rows, tokens)
        while True:
            tracemalloc.reset_peak()
            done = next(session, None)
            gc.collect()
            now, peak = tracemalloc.get_traced_memory()
            if done is None:
                break
            ledger = cache.ledger()
            named = ledger.total - ledger.scratch - ledger.fixed_tables
            # The first step's peak is that of making the cache, too: it holds everything that there is.
            steps.append(Step(done, ledger.total, named, now - base, peak - base))
    return Growth(arm.name, tuple(steps))


def peak_memory(
    shape: ModelShape,
    arm: Arm,
    backend: Backend,
    *,
    tokens: int | None = None,
    make: Make = plain,
    chunk: int = CHUNK,
) -> PeakMemory:
    """Measure both caches on a backend whose pages lie in this process's heap.

    tokens: as many as take FP16_BYTES in float16 when None, within MOST_ROWS. make: gives the arm's cache. Threads that
    allocate meanwhile would be counted.
    """
    n = tokens or enough_tokens(shape, FP16_BYTES, MOST_ROWS)
    grown = grow(shape, arm, backend, n, make, chunk)
    later = grown.steps[-1].tokens - grown.steps[0].tokens
    uncompressed = grow(shape, get_arm("fp16"), backend, n, plain, chunk)
    return PeakMemory(
        backend.name,
        n,
        token_bytes(shape),
        2 * shape.n_kv_heads * shape.head_dim * later,
        grown,
        uncompressed,
    )
