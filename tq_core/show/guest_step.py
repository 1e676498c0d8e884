"""A work's arrays and calls placed in a module's linear memory, so that what a host costs can be taken apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_core.kernels.arguments import bind
from tq_core.kernels.hosts import Host, Instance
from tq_core.kernels.hosts.base import as_bytes
from tq_core.kernels.hosts.frames import Writes
from tq_core.kernels.table import KERNELS, Kernel
from tq_core.kernels.wasm import module_dir, read_module
from tq_core.kernels.wasm_memory import place
from tq_core.show.work import F32, Work

Call = tuple[Kernel, tuple[int | float, ...]]


@dataclass(frozen=True)
class Placed:
    """What is written once, what before every run, the calls with addresses, and where the result lies."""

    writes: Writes
    resets: Writes
    calls: list[Call]
    output: tuple[int, int]
    memory_bytes: int
    address: dict[int, int]  # by the address of the array in this process


def lay_out(work: Work, heap_base: int) -> Placed:
    """Every array once, however many calls share it. Raises as ``bind`` does, KernelError beyond 4 GiB."""
    arrays: dict[int, npt.NDArray[Any]] = {}
    bound = []
    for name, arguments in work.calls:
        bound.append((bind(name, arguments), arguments))
        for arg in KERNELS[name].args:
            arrays.setdefault(arguments[arg.name].ctypes.data, arguments[arg.name])
    placed = place([a.nbytes for a in arrays.values()], heap_base)
    at = dict(zip(arrays, placed.addresses))
    calls: list[Call] = [
        (b.kernel, (*(at[arguments[a.name].ctypes.data] for a in b.kernel.args), *b.sizes, *b.scalars))
        for b, arguments in bound
    ]
    return Placed(
        [(at[key], as_bytes(a)) for key, a in arrays.items()],
        [(at[array.ctypes.data], as_bytes(fresh)) for array, fresh in work.resets],
        calls,
        (at[work.output.ctypes.data], work.output.nbytes),
        placed.end,
        at,
    )


class GuestStep:
    """A work that lives in the memory of one instance. Close it: an SDK guest is a process.

    Raises BackendError when the host does not run or the module is not built.
    """

    def __init__(self, work: Work, host: Host, target: str) -> None:
        self.name, self._shape = f"wasm-{target}@{host.name}", work.output.shape
        module = read_module(target, host.command, module_dir(), KERNELS)
        self._instance: Instance = host.load(module, KERNELS, self.name)
        self.placed = lay_out(work, self._instance.heap_base)
        self._instance.grow(self.placed.memory_bytes)
        for write in self.placed.writes:
            self._instance.transact([write], None, (), [])
        pool = next(arguments["pool"] for _, arguments in work.calls if "pool" in arguments)
        self._pool = (self.placed.address[pool.ctypes.data], as_bytes(pool))

    def run(self) -> None:
        """The calls, with arrays that are already there; only the softmax state is written anew."""
        resets: Writes = self.placed.resets
        for kernel, values in self.placed.calls:
            self._instance.transact(resets, kernel, values, [])
            resets = []

    def output(self) -> F32:
        """The result of the last run."""
        raw = self._instance.transact([], None, (), [self.placed.output])[0]
        return raw.copy().view(np.float32).reshape(self._shape)

    def empty_call(self) -> None:
        """A call of a kernel that has nothing to do."""
        self._instance.transact([], KERNELS["linear"], (0,) * len(KERNELS["linear"].c_parameters()), [])

    def copy_pool(self) -> None:
        """The pages written again, as a call from Python without a memory of its own would."""
        self._instance.transact([self._pool], None, (), [])

    def close(self) -> None:
        self._instance.close()
