"""What a WebAssembly host is to the rest of the library: load a module, move bytes, call a kernel."""

from __future__ import annotations

import importlib.metadata
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tq_core.errors import BackendError, KernelError
from tq_core.kernels.hosts.frames import Reads, Writes
from tq_core.kernels.table import Kernel

WASM_PAGE_BYTES = 65536
MAX_MEMORY_BYTES = 2**32 - WASM_PAGE_BYTES


@dataclass(frozen=True)
class HostStatus:
    """Whether a host runs here, its version, and why it does not (or what is particular about it)."""

    name: str
    available: bool
    version: str
    reason: str


class Instance(ABC):
    """One module with its own linear memory, at whose ``heap_base`` the caller's buffers begin.

    Every kind of instance does the same transaction; ``write``, ``read`` and ``call`` are single
    steps of one, for notebooks and tests. An instance that raised once is not used again: a trap
    leaves its stack pointer where it was.
    """

    heap_base: int
    generation = 0  # how often the memory was grown; views of an older generation may be left behind
    origin = 0  # address in this process of the memory's first byte, 0 where it cannot be looked into
    ended = False  # whether its owner has given it up

    @property
    @abstractmethod
    def memory_bytes(self) -> int:
        """Size of the linear memory."""

    @abstractmethod
    def grow(self, memory_bytes: int) -> None:
        """Make the memory at least this large. Raises BackendError when the host refuses."""

    @abstractmethod
    def transact(
        self, writes: Writes, kernel: Kernel | None, values: tuple[int | float, ...], reads: Reads
    ) -> list[np.ndarray]:
        """Write buffers, call ``kernel`` with ``values`` in call order, read byte ranges back.

        The arrays returned are uint8 and may be views that the next transaction overwrites. Raises
        KernelError when the kernel traps, BackendError when the host fails.
        """

    @abstractmethod
    def view(self) -> np.ndarray:
        """The whole memory as uint8; growing the memory may leave an older view behind."""

    def close(self) -> None:  # noqa: B027 - most hosts have nothing to end
        """Give the instance back; it is not used afterwards."""

    def write(self, address: int, array: np.ndarray) -> None:
        """Copy an array's bytes to ``address``."""
        self.transact([(address, as_bytes(array))], None, (), [])

    def read(self, address: int, dtype: Any, count: int) -> np.ndarray:
        """A copy of ``count`` elements at ``address``."""
        raw = self.transact([], None, (), [(address, count * np.dtype(dtype).itemsize)])[0]
        return raw.copy().view(dtype)

    def call(self, kernel: Kernel, *values: int | float) -> None:
        """Call a kernel with addresses, sizes and scalars in call order."""
        self.transact([], kernel, values, [])


class Host(Protocol):
    """One WebAssembly engine."""

    name: str
    command: bool  # needs the module that was linked as a WASI command

    def status(self) -> HostStatus:
        """Availability, found out without raising."""

    def load(self, module: bytes, kernels: Mapping[str, Kernel], label: str) -> Instance:
        """A new instance of a module that exports these kernels. Raises BackendError naming ``label``."""


def as_bytes(array: np.ndarray) -> np.ndarray:
    """An array's bytes as a flat uint8 view (a copy only if it is not contiguous)."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def signed(value: int) -> int:
    """A uint32 as the i32 that engines take."""
    return value - 2**32 if value >= 2**31 else value


def installed_version(distribution: str) -> str:
    """Version of an installed distribution; a conda package may come without that metadata."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def check_exports(found: Mapping[str, Any], kernels: Mapping[str, Kernel], label: str) -> None:
    """Raise BackendError unless memory, heap base and every kernel are exported."""
    missing = sorted({"memory", "__heap_base", *kernels} - found.keys())
    if missing:
        raise BackendError(f"{label}: expected the exports {missing}, got none; run `make wasm`")


class ReactorInstance(Instance):
    """An instance in this process, whose memory numpy can look into."""

    @abstractmethod
    def _grow(self, memory_bytes: int) -> None:
        """Make the memory at least this large. Raises BackendError when the host refuses."""

    def grow(self, memory_bytes: int) -> None:
        self._grow(memory_bytes)
        self.generation += 1
        self.origin = self.view().ctypes.data

    @abstractmethod
    def _invoke(self, kernel: Kernel, values: list[int | float]) -> None:
        """Call the exported function. Raises KernelError when it traps."""

    def _range(self, view: np.ndarray, address: int, nbytes: int) -> np.ndarray:
        if address < self.heap_base or address + nbytes > view.nbytes:
            raise KernelError(
                f"wasm memory: expected addresses in {self.heap_base}..{view.nbytes}, got {address} + {nbytes} bytes"
            )
        return view[address : address + nbytes]

    def transact(
        self, writes: Writes, kernel: Kernel | None, values: tuple[int | float, ...], reads: Reads
    ) -> list[np.ndarray]:
        view = self.view()
        for address, data in writes:
            self._range(view, address, data.nbytes)[:] = data
        if kernel is not None:
            if len(values) != len(kernel.c_parameters()):
                raise KernelError(
                    f"{kernel.name}: expected {len(kernel.c_parameters())} arguments, got {len(values)}"
                )
            self._invoke(kernel, [v if isinstance(v, float) else signed(int(v)) for v in values])
        view = self.view()
        return [self._range(view, address, nbytes) for address, nbytes in reads]
