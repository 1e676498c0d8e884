"""Linear memory without an engine: numpy's kernels on page pools that the product's arena hands out.

Exhibits of memory run wherever the museum runs, so they cannot ask for a WebAssembly host.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tq_core.errors import BackendError
from tq_core.kernels.backend import NumpyBackend
from tq_core.kernels.buffers import Buffer
from tq_core.kernels.hosts.base import WASM_PAGE_BYTES, Instance
from tq_core.kernels.wasm_arena import Arena
from tq_core.kernels.wasm_memory import round_up

ROOM = 64 << 20  # bytes that the memory may grow to without moving


class PaperInstance(Instance):
    """A memory that grows in place; with ``moves`` it is another one after each growth, as some engines may do."""

    heap_base = 1024

    def __init__(self, moves: bool) -> None:
        self._moves, self._size = moves, WASM_PAGE_BYTES
        self._bytes = np.zeros(ROOM, np.uint8)
        self.origin = self._bytes.ctypes.data

    @property
    def memory_bytes(self) -> int:
        return self._size

    def grow(self, memory_bytes: int) -> None:
        if memory_bytes > ROOM:
            raise BackendError(f"memory: expected at most {ROOM} bytes, got {memory_bytes}")
        self._size = max(self._size, round_up(memory_bytes, WASM_PAGE_BYTES))
        if self._moves:
            self._bytes = self._bytes.copy()
        self.generation += 1
        self.origin = self._bytes.ctypes.data

    def transact(self, writes: Any, kernel: Any, values: Any, reads: Any) -> list[np.ndarray]:
        raise BackendError("memory: expected a page pool, got a call: there are no kernels in it")

    def view(self) -> np.ndarray:
        return self._bytes[: self._size]


class LinearBackend(NumpyBackend):
    """Numpy on pools in a linear memory of its own."""

    name = "numpy, linear memory"
    resident = True

    def __init__(self, moves: bool = False) -> None:
        self._moves = moves
        self.discard()

    def allocate(self, nbytes: int) -> Buffer:
        """Zeroed bytes of the memory. Raises MemoryError."""
        return self._arena.allocate(nbytes)

    def instance(self) -> Instance:
        """The memory."""
        return self._arena.instance

    def held_bytes(self) -> int:
        """Bytes of the pools that nobody let go."""
        return self._arena.held

    def discard(self) -> None:
        """Begin with an empty memory."""
        self._arena = Arena(PaperInstance(self._moves), lambda: None)
