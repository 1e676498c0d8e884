"""Where the clocks sit: around the cache that a model is handed, around its page pools, around kernel calls."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from tq_core.cache.paged_cache import PagedCache
from tq_core.kernels.backend import Backend

Clock = Callable[[], int]
CLOCKS: dict[str, Clock] = {"wall": time.perf_counter_ns, "cpu": time.process_time_ns}


class TimedCache:
    """A cache as a model sees it, with the time that ``attend`` takes; keeps the newest queries of one layer."""

    def __init__(self, cache: PagedCache, layer: int, clock: Clock = time.perf_counter_ns) -> None:
        self.cache, self.layer, self.clock = cache, layer, clock
        self.attend_ns = 0
        self.queries: np.ndarray | None = None

    @property
    def length(self) -> int:
        return self.cache.length

    def step(self) -> AbstractContextManager[None]:
        return self.cache.step()  # type: ignore[return-value]

    def attend(
        self, layer: int, queries: np.ndarray, keys: np.ndarray, values: np.ndarray, **options: Any
    ) -> np.ndarray:
        start = self.clock()
        out = self.cache.attend(layer, queries, keys, values, **options)
        self.attend_ns += self.clock() - start
        if layer == self.layer:
            self.queries = queries[-1].copy()
        return out

    def taken(self) -> int:
        """Nanoseconds in ``attend`` since the last call of this."""
        spent, self.attend_ns = self.attend_ns, 0
        return spent


class AllocatorClock:
    """Time in ``allocate`` and ``release`` of a cache's page pools, growth and zeroing included."""

    def __init__(self, cache: PagedCache, clock: Clock = time.perf_counter_ns) -> None:
        self._clock = clock
        self.ns = self.calls = self.growths = 0
        self._pools = [store.pool for store in cache.stores.values()]
        for pool in self._pools:
            for name in ("allocate", "release"):
                setattr(pool, name, self._timed(getattr(pool, name)))

    def _timed(self, call: Any) -> Any:
        def timed(*arguments: Any) -> Any:
            start = self._clock()
            out = call(*arguments)
            self.ns += self._clock() - start
            self.calls += 1
            return out

        return timed

    def stop(self) -> None:
        """Count how often the pools grew, and let go of them."""
        self.growths = sum(pool.growth_events for pool in self._pools)
        self._pools = []


class Recorder:
    """A backend that passes calls on and remembers them: (kernel, arguments)."""

    def __init__(self, backend: Backend) -> None:
        self.name, self.parallel, self._backend = backend.name, False, backend
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def call(self, kernel: str, **arguments: Any) -> None:
        self.calls.append((kernel, arguments))
        self._backend.call(kernel, **arguments)
