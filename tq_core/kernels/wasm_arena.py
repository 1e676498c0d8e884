"""Blocks of an instance's linear memory: one for the arrays of the present call, the others for page pools.

    heap_base
    | scratch | guard | block | guard | free | guard | block | guard | ...

Memory only grows, in coarse steps, and blocks that were given back are used again before it does. Growth may
leave every numpy view behind, so ``Block.array`` is remade after it; a kernel takes an offset into linear memory,
which growth does not change, so an older view of a block that still exists names the same bytes.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tq_core.errors import BackendError
from tq_core.kernels.hosts import Instance
from tq_core.kernels.hosts.base import MAX_MEMORY_BYTES
from tq_core.kernels.wasm_memory import ALIGNMENT, GROWTH_BYTES, GUARD_BYTE, round_up

U8 = npt.NDArray[np.uint8]


class Region:
    """Bytes of linear memory from ``address`` on, with guards around them, as long as anything refers to it."""

    def __init__(self, instance: Instance, address: int, nbytes: int) -> None:
        self.instance, self.address, self.nbytes = instance, address, nbytes

    @property
    def guards(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """(address, bytes) of the guards before and after."""
        end = self.address + self.nbytes
        after = round_up(end, ALIGNMENT) + ALIGNMENT
        return (self.address - ALIGNMENT, ALIGNMENT), (end, after - end)


class _Root:
    """What the numpy views of a region are made of; it keeps the region, and so the instance, alive."""

    def __init__(self, region: Region) -> None:
        self.region, self.pointer = region, region.instance.origin + region.address
        self.__array_interface__ = {
            "version": 3,
            "typestr": "|u1",
            "shape": (region.nbytes,),
            "data": (self.pointer, False),
        }


class Block:
    """A page pool's bytes in linear memory (a ``buffers.Buffer``)."""

    def __init__(self, region: Region) -> None:
        self._region = region
        self._made: tuple[int, U8] = (-1, np.zeros(0, np.uint8))

    @property
    def array(self) -> U8:
        generation = self._region.instance.generation
        if self._made[0] != generation:
            self._made = generation, np.asarray(_Root(self._region))
        return self._made[1]

    @property
    def lost(self) -> bool:
        return self._region.instance.ended


def region_of(array: np.ndarray, instance: Instance) -> tuple[Region, int] | None:
    """(region, address) of an array that is a view, old or new, into this instance's memory; None for any other."""
    owner: object = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if not isinstance(owner, _Root) or owner.region.instance is not instance:
        return None
    return owner.region, owner.region.address + array.__array_interface__["data"][0] - owner.pointer


class Arena:
    """Hands out and takes back the linear memory of one instance; ``grown`` is called at every growth."""

    def __init__(self, instance: Instance, grown: Callable[[], None]) -> None:
        self.instance, self._grown = instance, grown
        self._end = self._start = round_up(instance.heap_base, ALIGNMENT)
        self._free: dict[int, int] = {}  # address to bytes; no two touch
        # Finalizers run anywhere, even inside ``_take``, so they only leave a note here.
        self._returned: deque[tuple[int, int]] = deque()
        self._regions: weakref.WeakSet[Region] = weakref.WeakSet()
        self._scratch = (self._start, 0)

    def scratch(self, nbytes: int) -> int:
        """Address of a place for ``nbytes`` that the next call of this overwrites. Raises BackendError."""
        address, size = self._scratch
        if nbytes > size:
            self._scratch = (address, 0)
            self._give(address, size)
            size = round_up(nbytes, ALIGNMENT)
            self._scratch = (self._take(size), size)
        return self._scratch[0]

    def allocate(self, nbytes: int) -> Block:
        """Zeroed bytes between guards. Raises MemoryError when linear memory cannot hold them."""
        total = 3 * ALIGNMENT + round_up(nbytes, ALIGNMENT)
        try:
            start = self._take(total)
        except BackendError as error:
            raise MemoryError(f"wasm memory: no room for {nbytes} bytes: {error}") from error
        region = Region(self.instance, start + ALIGNMENT, nbytes)
        weakref.finalize(region, self._returned.append, (start, total)).atexit = False
        memory = self.instance.view()
        for address, size in region.guards:
            memory[address : address + size] = GUARD_BYTE
        memory[region.address : region.address + nbytes] = 0
        self._regions.add(region)
        return Block(region)

    @property
    def held(self) -> int:
        """Bytes of the blocks that are handed out, guards included; the scratch of calls is not one of them."""
        self._take_back()
        return self._end - self._start - sum(self._free.values()) - self._scratch[1]

    def _take_back(self) -> None:
        while self._returned:
            self._give(*self._returned.popleft())

    def _give(self, address: int, nbytes: int) -> None:
        """Take a range back and join it with free neighbours."""
        if nbytes == 0:
            return
        for start, size in list(self._free.items()):
            if start + size == address or address + nbytes == start:
                del self._free[start]
                address, nbytes = min(address, start), nbytes + size
        self._free[address] = nbytes

    def _take(self, nbytes: int) -> int:
        """Address of a range, the smallest free one that is large enough."""
        self._take_back()
        fits = [(size, start) for start, size in self._free.items() if size >= nbytes]
        if not fits:
            self._extend(nbytes)
            fits = [(size, start) for start, size in self._free.items() if size >= nbytes]
        size, start = min(fits)
        del self._free[start]
        self._give(start + nbytes, size - nbytes)
        return start

    def _extend(self, nbytes: int) -> None:
        """Make the range at the end of memory ``nbytes`` long, with memory that is there already or by growth."""
        last = next((start for start, size in self._free.items() if start + size == self._end), self._end)
        wanted, origin = last + nbytes, self.instance.origin
        if wanted > MAX_MEMORY_BYTES:
            raise BackendError(f"expected at most {MAX_MEMORY_BYTES} bytes of memory, got {wanted}")
        if wanted > self.instance.memory_bytes:
            self.instance.grow(min(round_up(wanted, GROWTH_BYTES), MAX_MEMORY_BYTES))
            self._grown()
        before, self._end = self._end, self.instance.memory_bytes // ALIGNMENT * ALIGNMENT
        self._give(before, self._end - before)
        if self.instance.origin != origin and self._regions:
            raise BackendError(
                "expected a memory that grows in place, got one that moved under the page pools"
            )
