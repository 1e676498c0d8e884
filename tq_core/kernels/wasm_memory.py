"""Where a call's arrays go in linear memory, and the guard bytes that catch a kernel going outside.

    scratch              64-byte aligned             64-byte aligned
    | guard | array 0 | guard ... | array 1 | guard ... | ...

Every array is preceded and followed by at least 64 bytes of 0xAA. They are compared after the call,
before anything is copied back: a kernel that wrote outside its arrays changes nothing of the
caller's.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tq_core.errors import KernelError
from tq_core.kernels.hosts.base import MAX_MEMORY_BYTES, as_bytes
from tq_core.kernels.hosts.frames import Reads, Writes
from tq_core.kernels.table import LAYOUT, Arg, Kernel

ALIGNMENT = 64
GUARD_BYTE = 0xAA
GROWTH_BYTES = 4 * 1024 * 1024


def round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


@dataclass(frozen=True)
class Placement:
    """Addresses of the arrays of one call, the guards between them, and where it all ends."""

    addresses: tuple[int, ...]
    guards: tuple[tuple[int, int], ...]
    end: int


def place(sizes: list[int], heap_base: int) -> Placement:
    """Lay out arrays of ``sizes`` bytes from ``heap_base`` on. Raises KernelError beyond 4 GiB."""
    addresses: list[int] = []
    guards: list[tuple[int, int]] = []
    cursor = heap_base
    for size in sizes:
        address = round_up(cursor + ALIGNMENT, ALIGNMENT)
        guards.append((cursor, address - cursor))
        addresses.append(address)
        cursor = address + size
    end = round_up(cursor + ALIGNMENT, ALIGNMENT)
    guards.append((cursor, end - cursor))
    if end > MAX_MEMORY_BYTES:
        raise KernelError(f"arrays: expected at most {MAX_MEMORY_BYTES} bytes of wasm memory, got {end}")
    return Placement(tuple(addresses), tuple(guards), end)


def extent(sizes: Sequence[int]) -> int:
    """Bytes that ``place`` takes for arrays of ``sizes``, from an aligned address."""
    return ALIGNMENT + sum(round_up(size, ALIGNMENT) + ALIGNMENT for size in sizes) + ALIGNMENT


def requests(args: Sequence[Arg], arrays: Sequence[np.ndarray], placement: Placement) -> tuple[Writes, Reads]:
    """What to write before a call on ``arrays``, which are ``args``, and which outputs to read after it.

    Outputs are written too: an element that a kernel leaves alone keeps the caller's value, as it
    does in a native call.
    """
    writes: Writes = [(a, np.full(n, GUARD_BYTE, np.uint8)) for a, n in placement.guards]
    writes += [(a, as_bytes(array)) for a, array in zip(placement.addresses, arrays, strict=True)]
    reads: Reads = []
    for arg, address, array in zip(args, placement.addresses, arrays, strict=True):
        if arg.role != "in":
            reads.append((address, array.nbytes))
    return writes, reads


def guard_names(args: Sequence[Arg]) -> list[str]:
    """What the guards of arrays placed in a row lie next to."""
    before = f"before {args[0].name}" if args else "of an empty call"
    return [before, *(f"after {arg.name}" for arg in args)]


def check_guards(
    kernel: Kernel, guards: Sequence[tuple[int, int]], names: Sequence[str], found: Sequence[np.ndarray]
) -> None:
    """Raise KernelError, with the name of the place, when a guard was written to."""
    for (address, _), near, guard in zip(guards, names, found, strict=True):
        wrong = np.flatnonzero(guard != GUARD_BYTE)
        if wrong.size:
            raise KernelError(
                f"{kernel.name}: wrote outside its arrays: {wrong.size} guard bytes {near}, "
                f"the first at address {address + int(wrong[0])}"
            )


@functools.cache
def pool_index(kernel: Kernel) -> int:
    """Which argument of a paged kernel is the pool."""
    return [arg.name for arg in kernel.args].index("pool")


@dataclass(frozen=True)
class CompactPool:
    """A paged call reduced to the pages that its block table names.

    A pool holds every layer's pages and a call touches one layer's, so copying the pool would make
    a call cost as much as the whole cache. ``arrays`` are the call's arguments with a small pool in
    place of the large one and the block table renumbered.
    """

    arrays: tuple[np.ndarray, ...]
    sizes: tuple[int, ...]
    used: np.ndarray
    pool_index: int
    page_bytes: int

    def scatter(self, compact: np.ndarray, pool: np.ndarray) -> None:
        """Copy the pages of ``compact`` back to where they are in ``pool``."""
        whole = pool[: pool.size // self.page_bytes * self.page_bytes]
        whole.reshape(-1, self.page_bytes)[self.used] = compact.reshape(-1, self.page_bytes)


def compact_pool(kernel: Kernel, arrays: tuple[np.ndarray, ...], sizes: tuple[int, ...]) -> CompactPool:
    """Keep only the pages in use. Raises KernelError when a page is not in the pool."""
    names = [arg.name for arg in kernel.args]
    pages, layout, pool = (arrays[names.index(name)] for name in ("pages", "layout", "pool"))
    page_bytes = int(layout[LAYOUT.index("page_bytes")])
    n_pages = pool.size // page_bytes if page_bytes else 0
    used, renumbered = np.unique(pages, return_inverse=True)
    if used.size and int(used[-1]) >= n_pages:
        raise KernelError(f"{kernel.name}: pages: expected indices below {n_pages}, got {int(used[-1])}")
    small = pool[: n_pages * page_bytes].reshape(n_pages, page_bytes)[used].reshape(-1)
    replaced = {"pages": renumbered.reshape(-1).astype(np.uint32), "pool": small}
    sized = dict(zip(kernel.sizes, sizes, strict=True))
    sized[str(kernel.args[names.index("pool")].shape[0])] = small.size
    return CompactPool(
        tuple(replaced.get(name, array) for name, array in zip(names, arrays, strict=True)),
        tuple(sized.values()),
        used,
        names.index("pool"),
        page_bytes,
    )
