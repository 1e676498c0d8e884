"""A whole pass of a model over a context: prefill in chunks, then tokens one by one, on a cache with clocks around it."""

from __future__ import annotations

import gc
import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.arms import Arm
from tq_core.kernels.backend import Backend
from tq_core.model.interface import LanguageModel
from validation.bench.protocol.seams import CLOCKS, AllocatorClock, TimedCache

CHUNK_TOKENS, DECODE_STEPS = 64, 16
SEED = 20250429
Progress = Callable[[str, int, int], None]


class OutOfTime(Exception):
    """A pass did not end within its time limit; the message says how far it came."""


@dataclass
class Pass:
    """Nanoseconds of one pass; ``decode`` has the first decode step in front. ``rss`` is None where it cannot be read."""

    cache: TimedCache | None
    allocator: AllocatorClock
    prefill: int = 0
    prefill_cache: int = 0
    decode: list[int] = field(default_factory=list)
    decode_cache: list[int] = field(default_factory=list)
    rss: int | None = None
    rss_before: int | None = None


def prompt(model: LanguageModel, context: int) -> np.ndarray:
    """Token ids (context,), drawn: what is computed does not depend on which tokens they are."""
    return np.random.default_rng(SEED).integers(0, model.vocab_size, context)


def run_pass(
    model: LanguageModel,
    arm: Arm,
    context: int,
    backend: Backend,
    seconds: float,
    progress: Progress,
    clock: str = "wall",
) -> Pass:
    """``context`` tokens, the last DECODE_STEPS of them one at a time. Raises OutOfTime.

    Logits are made of the last token of a chunk only, where the model can leave the others out.
    """
    tokens, layer = prompt(model, context), model.shape.n_layers // 2
    options = {"last_only": True} if "last_only" in inspect.signature(model.forward).parameters else {}
    gc.collect()  # what an earlier pass held is none of this one's memory
    before = _resident(reset=True)
    cache = PagedCache(model.shape, arm, backend, threads=1)
    now = CLOCKS[clock]
    timed = TimedCache(cache, layer, now)
    made = Pass(timed, AllocatorClock(cache, now), rss_before=before)
    deadline, filled = time.monotonic() + seconds, context - DECODE_STEPS

    def forward(some: np.ndarray) -> int:
        start = now()
        model.forward(some, timed, **options)
        return now() - start

    for start in range(0, filled, CHUNK_TOKENS):
        if time.monotonic() > deadline:
            raise OutOfTime(f"the limit of {seconds:g} s was over after {start} of {context} tokens")
        progress(f"{arm.name}, {context} tokens", start, context)
        made.prefill += forward(tokens[start : min(start + CHUNK_TOKENS, filled)])
    made.prefill_cache = timed.taken()
    for i in range(filled, context):
        made.decode.append(forward(tokens[i : i + 1]))
        made.decode_cache.append(timed.taken())
    made.rss = _resident()
    made.allocator.stop()
    progress(f"{arm.name}, {context} tokens", context, context)
    return made


def _resident(reset: bool = False) -> int | None:
    """Largest resident bytes of this process since the last reset; None where Linux's /proc does not tell."""
    try:
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    found = next((line.split()[1] for line in lines if line.startswith("VmHWM:")), None)
    return None if found is None else 1024 * int(found)
