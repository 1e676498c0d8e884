"""Where a page pool's bytes lie: in this process's heap, or in the memory that a backend's kernels see.

A backend whose kernels have a memory of their own may be ``resident``: it hands out blocks of that memory, and a call
on them copies nothing. Every other backend works on ordinary arrays.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

ALIGN = 64
U8 = npt.NDArray[np.uint8]


class Buffer(Protocol):
    """A block of zeroed bytes, given back when nothing refers to it or to a view of it any more."""

    @property
    def array(self) -> U8:
        """All bytes, aligned to 64; take it anew each time, for it is remade when the memory around it has grown."""

    @property
    def lost(self) -> bool:
        """Whether the kernels that could work here without copies have ended; the bytes remain."""


@runtime_checkable
class Resident(Protocol):
    """A backend with a memory of its own; ``resident`` says whether it hands out blocks of it."""

    @property
    def resident(self) -> bool: ...

    def allocate(self, nbytes: int) -> Buffer:
        """Zeroed bytes in the memory of the calling thread's kernels. Raises MemoryError."""


class HeapBuffer:
    """Bytes in this process's heap."""

    lost = False

    def __init__(self, nbytes: int) -> None:
        raw = np.zeros(nbytes + ALIGN, np.uint8)
        start = -raw.ctypes.data % ALIGN
        self.array: U8 = raw[start : start + nbytes]


def allocate(backend: object, nbytes: int) -> Buffer:
    """``nbytes`` zeroed bytes where ``backend`` reaches them without copies, if it has such a place. Raises MemoryError."""
    if isinstance(backend, Resident) and backend.resident:
        return backend.allocate(nbytes)
    return HeapBuffer(nbytes)
