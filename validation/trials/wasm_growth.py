"""Whether linear memory stays as it is: over decode steps in reserved pages, and over sessions that come and go."""

from __future__ import annotations

import gc
from dataclasses import asdict, dataclass
from typing import Any

from tq_core.codecs.arms import Arm
from tq_core.kernels.wasm_memory import ALIGNMENT, GROWTH_BYTES, round_up
from tq_core.shapes import ModelShape
from validation.trials.session import Make, feed, plain, random_rows
from validation.trials.wasm_hosts import WASM_PAGE_BYTES, Fresh, Linear, on_first_host, pages

STEPS, SESSIONS = 32, 4
PROMPT = 144


@dataclass(frozen=True)
class WasmGrowth:
    """pages: of linear memory, after making the cache and after every step or session; held: bytes of its pools."""

    backend: str
    reserved: int
    allowed: int  # pages that the pools, the calls' arrays and one step of growth account for
    pages: tuple[int, ...]
    held: tuple[int, ...]
    session_pages: tuple[int, ...]
    session_held: tuple[int, ...]

    @property
    def late_bytes(self) -> int:
        """Bytes that the second half of the steps added, by pages or by pools, whichever says more."""
        half = len(self.pages) // 2
        grown = (self.pages[-1] - self.pages[half]) * WASM_PAGE_BYTES
        return max(grown, self.held[-1] - self.held[half], 0)

    @property
    def beyond_bytes(self) -> int:
        """Bytes of memory beyond what the reservation accounts for."""
        return max(0, self.pages[-1] - self.allowed) * WASM_PAGE_BYTES

    @property
    def session_bytes(self) -> int:
        """Bytes that sessions after the first added or left behind."""
        grown = (self.session_pages[-1] - self.session_pages[0]) * WASM_PAGE_BYTES
        return max(grown, self.session_held[-1] - self.session_held[0], self.session_held[-1], 0)

    @property
    def leaked(self) -> int:
        """Largest of these three; 0 where memory is stable."""
        return max(self.late_bytes, self.beyond_bytes, self.session_bytes)

    def as_dict(self) -> dict[str, Any]:
        """JSON-able form."""
        told = {name: getattr(self, name) for name in ("late_bytes", "beyond_bytes", "session_bytes")}
        return {**asdict(self), **told}


def _allowed(backend: Linear, cache: Any, empty_pages: int) -> int:
    """Pages for a cache's pools as its ledger counts them, the arrays of calls, and the coarse step of growth."""
    pools = sum(n for name, n in cache.buffers().items() if name.endswith("_pool"))
    around = 3 * 3 * ALIGNMENT + backend.instance().heap_base + GROWTH_BYTES
    return max(empty_pages, round_up(pools + around, GROWTH_BYTES) // WASM_PAGE_BYTES)


def wasm_growth(
    shape: ModelShape,
    arm: Arm,
    *,
    fresh: Fresh = on_first_host,
    steps: int = STEPS,
    sessions: int = SESSIONS,
    prompt: int = PROMPT,
    make: Make = plain,
) -> WasmGrowth:
    """Measure in one fresh instance per part, as ``fresh`` makes them. Raises BackendError where no host runs."""
    rows = random_rows(shape, prompt)
    reserved = prompt + steps
    backend = fresh()
    empty = pages(backend)
    cache = make(shape, arm, backend, reserved)
    allowed = _allowed(backend, cache, empty)
    seen = [(pages(backend), backend.held_bytes())]
    for _ in feed(cache, shape, rows, prompt, steps):
        seen.append((pages(backend), backend.held_bytes()))
    del cache
    backend.discard()
    backend, ended = fresh(), []
    for _ in range(sessions):
        session = make(shape, arm, backend, reserved)
        list(feed(session, shape, rows, prompt, 1))
        if hasattr(session, "close"):
            session.close()
        del session
        gc.collect()
        ended.append((pages(backend), backend.held_bytes()))
    backend.discard()
    memory, held = zip(*seen)
    after, left = zip(*ended)
    return WasmGrowth(backend.name, reserved, allowed, memory, held, after, left)
