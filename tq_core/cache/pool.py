"""A pool of equal pages in one block of memory: counted references, a free list, geometric growth.

The reference counts are a function of the block tables. Whatever interrupts the bookkeeping, ``recount`` restores
counts and free list from the tables of the stores that hold pages.
"""

from __future__ import annotations

import heapq
import weakref
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tq_core.errors import PageError, check
from tq_core.kernels import buffers
from tq_core.kernels.backend import Backend

U32 = npt.NDArray[np.uint32]
SMALL = 8  # pages; a pool of fewer doubles in any case


class Holder(Protocol):
    """Something whose block tables refer to pages of a pool."""

    def held(self) -> U32:
        """Pages that it refers to, each as often as it does."""


class PagePool:
    """Pages of ``page_bytes`` each; ``buffer`` is replaced when the pool grows, so take it anew each time.

    backend: whose kernels work on the pages; one with a memory of its own may hold them there. The free page with the lowest index is handed out first: which page comes next depends on which are in use, not
    on how they came to be.
    """

    def __init__(self, page_bytes: int, reserve: int = 0, backend: Backend | None = None) -> None:
        self.page_bytes, self._backend = page_bytes, backend
        # Pages and their reference counts, replaced together by one assignment.
        self._memory = (buffers.allocate(backend, page_bytes * reserve), np.zeros(reserve, np.uint32))
        self.bounded = False
        self.growth_events = 0
        self.high_water = 0
        self._free = list(range(reserve))  # a heap
        self._holders: list[weakref.ref[Holder]] = []
        self._orphaned = False

    @property
    def buffer(self) -> npt.NDArray[np.uint8]:
        """The bytes of all pages."""
        return self._memory[0].array

    @property
    def references(self) -> U32:
        """How many block table entries refer to each page; 0 for a free one."""
        return self._memory[1]

    @property
    def capacity(self) -> int:
        """Pages that the buffer holds."""
        return len(self._memory[1])

    @property
    def free(self) -> Sequence[int]:
        """Indices of the free pages, in no order."""
        return tuple(self._free)

    @property
    def in_use(self) -> int:
        """Pages handed out and not given back."""
        return self.capacity - len(self._free)

    @property
    def nbytes(self) -> int:
        """Bytes of the pages and of their reference counts."""
        return self.buffer.nbytes + self.references.nbytes

    def reserve(self, free_pages: int) -> None:
        """Make sure that ``free_pages`` can be allocated without growing; doubles when it grows, or more.

        A ``bounded`` pool of SMALL pages or more grows by an eighth: what it needs depends on a window, not on the length
        of the history.

        MemoryError leaves the pool as it was.
        """
        if free_pages > len(self._free) and self._orphaned:
            self.recount()
        missing, old = free_pages - len(self._free), self.capacity
        spare = old // 8 if self.bounded and old >= SMALL else old
        new = old + max(missing, spare) if missing > 0 else old
        if new == old and not self._memory[0].lost:
            return
        grown, counts = buffers.allocate(self._backend, new * self.page_bytes), np.zeros(new, np.uint32)
        grown.array[: self.buffer.size], counts[:old] = self.buffer, self.references
        self._memory = (grown, counts)
        self.growth_events += new > old
        self._free += range(old, new)  # the largest indices: still a heap

    def allocate(self) -> int:
        """Index of a zeroed page with one reference, reused before the pool grows."""
        self.reserve(1)
        page = heapq.heappop(self._free)
        self.references[page] = 1
        self.page(page)[:] = 0
        self.high_water = max(self.high_water, self.in_use)
        return page

    def share(self, pages: U32) -> None:
        """One more reference to each of these distinct pages, which are in use."""
        self.references[pages] += 1

    def release(self, page: int) -> None:
        """Give a reference back; the page is free with the last one. Raises PageError when it is not in use."""
        in_use = 0 <= page < self.capacity and self.references[page] > 0
        check(in_use, "page", "a page in use", page, PageError)
        self.references[page] -= 1
        if self.references[page] == 0:
            heapq.heappush(self._free, page)

    def adopt(self, holder: Holder) -> None:
        """Take note of a store that refers to pages. One that is lost without closing is recounted before growing."""
        self._holders = [h for h in self._holders if h() is not None] + [weakref.ref(holder, self._lost)]

    def _lost(self, _: object) -> None:
        self._orphaned = True

    def recount(self) -> None:
        """Derive references and free pages anew from what the stores hold."""
        holders = [h for h in (ref() for ref in self._holders) if h is not None]
        pages = np.concatenate([np.zeros(0, np.uint32), *(h.held() for h in holders)])
        counts = np.bincount(pages, minlength=self.capacity).astype(np.uint32)
        self._memory = (self._memory[0], counts)
        self._free = np.flatnonzero(counts == 0).tolist()
        self._orphaned = False

    def page(self, index: int) -> npt.NDArray[np.uint8]:
        """Bytes of one page (a view into the present buffer)."""
        return self.buffer[index * self.page_bytes : (index + 1) * self.page_bytes]
