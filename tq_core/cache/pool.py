"""A pool of equal pages in one block of memory, with a free list and geometric growth."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tq_core.errors import PageError, check

_ALIGN = 64


def _aligned_zeros(nbytes: int) -> npt.NDArray[np.uint8]:
    raw = np.zeros(nbytes + _ALIGN, np.uint8)
    start = -raw.ctypes.data % _ALIGN
    return raw[start : start + nbytes]


class PagePool:
    """Pages of ``page_bytes`` each; ``buffer`` is replaced when the pool grows, so take it anew each time."""

    def __init__(self, page_bytes: int, reserve: int = 0) -> None:
        self.page_bytes = page_bytes
        self.buffer = _aligned_zeros(page_bytes * reserve)
        self.growth_events = 0
        self.high_water = 0
        self._free = list(range(reserve - 1, -1, -1))

    @property
    def capacity(self) -> int:
        """Pages that the buffer holds."""
        return self.buffer.size // self.page_bytes

    @property
    def in_use(self) -> int:
        """Pages handed out and not given back."""
        return self.capacity - len(self._free)

    def reserve(self, free_pages: int) -> None:
        """Make sure that ``free_pages`` can be allocated without growing; at least doubles when it grows."""
        missing = free_pages - len(self._free)
        if missing <= 0:
            return
        old = self.capacity
        new = max(old + missing, 2 * old)
        grown = _aligned_zeros(new * self.page_bytes)
        grown[: self.buffer.size] = self.buffer
        self.buffer = grown
        self._free = list(range(new - 1, old - 1, -1)) + self._free
        self.growth_events += 1

    def allocate(self) -> int:
        """Index of a zeroed page, reused before the pool grows."""
        self.reserve(1)
        page = self._free.pop()
        self.page(page)[:] = 0
        self.high_water = max(self.high_water, self.in_use)
        return page

    def release(self, page: int) -> None:
        """Give a page back. Raises PageError when it is not in use."""
        check(0 <= page < self.capacity and page not in self._free, "page", "a page in use", page, PageError)
        self._free.append(page)

    def page(self, index: int) -> npt.NDArray[np.uint8]:
        """Bytes of one page (a view into the present buffer)."""
        return self.buffer[index * self.page_bytes : (index + 1) * self.page_bytes]
