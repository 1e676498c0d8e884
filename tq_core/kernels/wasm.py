"""The wasm backends: the kernels of one target, run by one host, called like any other backend."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tq_core.errors import BackendError, TqError
from tq_core.kernels.arguments import Bound, bind
from tq_core.kernels.backend import Backend, BackendStatus
from tq_core.kernels.buffers import Buffer
from tq_core.kernels.hosts import HOSTS, Host, Instance, frames, host_statuses
from tq_core.kernels.table import KERNELS, Kernel
from tq_core.kernels.wasm_arena import Arena, Region, region_of
from tq_core.kernels.wasm_memory import (
    check_guards,
    compact_pool,
    extent,
    guard_names,
    place,
    pool_index,
    requests,
)

TARGETS = ("scalar", "simd128")


def module_dir() -> Path:
    """Folder of the built modules: $TQ_WASM_DIR, else ``build/wasm`` of the source tree."""
    named = os.environ.get("TQ_WASM_DIR")
    return Path(named) if named else Path(__file__).resolve().parents[2] / "build" / "wasm"


def read_module(target: str, command: bool, folder: Path, kernels: Mapping[str, Kernel]) -> bytes:
    """A built module, checked against the build's manifest and the kernel table.

    Raises BackendError when it is missing, altered, or built from other kernel signatures.
    """
    path = folder / f"tq_{target}{'_command' if command else ''}.wasm"
    try:
        data = path.read_bytes()
        manifest = json.loads((folder / "manifest.json").read_text())
        expected, table = manifest["modules"][path.name]["sha256"], manifest["table"]
    except FileNotFoundError:
        raise BackendError(
            f"wasm module: expected {path.name} to be built, got no file; run `make wasm`"
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise BackendError(
            f"wasm module: the manifest beside {path.name} is damaged; run `make wasm`"
        ) from error
    digest = hashlib.sha256(data).hexdigest()
    if digest != expected:
        raise BackendError(
            f"{path.name}: expected SHA-256 {expected[:16]}..., got {digest[:16]}...; run `make wasm`"
        )
    if table != frames.table_digest(kernels.values()):
        raise BackendError(f"{path.name}: built from other kernel signatures; run `make wasm`")
    return data


class GuestBackend:
    """Kernels that run in a guest with a memory of its own; ``load`` starts one.

    Arguments are copied into the guest's memory and outputs back, so a call costs a copy of its
    arrays. Where the host lets numpy look into that memory the backend is ``resident``: what
    ``allocate`` gave, a page pool, lies there already and is not copied. Elsewhere, and for the
    pool of another thread or of an instance that failed, the pages in use are copied.

    One instance per thread, made on first use; a thread that ends calls ``discard`` before, or a
    guest of the SDK lives on until the process ends. ``growth_events`` counts how often a memory was
    grown, ``copied_bytes`` what calls copied in and out.
    """

    parallel = False  # an engine's objects belong to the thread that made them

    def __init__(self, name: str, load: Callable[[], Instance], resident: bool = False) -> None:
        self.name, self.resident = name, resident
        self.growth_events = self.copied_bytes = 0
        self._load = load
        self._local = threading.local()

    def instance(self) -> Instance:
        """This thread's instance; a new one after one that failed."""
        return self._arena().instance

    def _arena(self) -> Arena:
        current: Arena | None = getattr(self._local, "arena", None)
        if current is None:
            current = self._local.arena = Arena(self._load(), self._count_growth)
        return current

    def _count_growth(self) -> None:
        self.growth_events += 1

    def allocate(self, nbytes: int) -> Buffer:
        """Zeroed bytes in the memory of this thread's instance. Raises MemoryError; only for a resident backend."""
        return self._arena().allocate(nbytes)

    def held_bytes(self) -> int:
        """Bytes of this thread's linear memory that page pools hold: what ``allocate`` gave and nobody let go."""
        return self._arena().held

    def discard(self) -> None:
        """Close this thread's instance. Page pools in its memory keep their bytes."""
        current: Arena | None = self._local.__dict__.pop("arena", None)
        if current is not None:
            current.instance.ended = True
            current.instance.close()

    def call(self, kernel: str, **arguments: Any) -> None:
        """Run a kernel; outputs are written into the arrays given.

        Raises as ``arguments.bind`` does, KernelError when the kernel traps or writes outside its
        arrays, BackendError when the host fails. Arrays that are copied are then as before; a resident
        pool may hold part of what the kernel wrote, as after a native call.
        """
        self.run(bind(kernel, arguments))

    def run(self, bound: Bound) -> None:
        """Run a kernel on arguments that were checked before."""
        kernel, arrays, sizes = bound.kernel, bound.arrays, bound.sizes
        arena = self._arena()
        homes = {
            i: home
            for i, array in enumerate(arrays)
            if (home := region_of(array, arena.instance)) is not None
        }
        compact = None
        if kernel.paged and pool_index(kernel) not in homes:
            compact = compact_pool(kernel, arrays, sizes)
            arrays, sizes = compact.arrays, compact.sizes
        try:
            found = self._transact(arena, kernel, arrays, homes, (*sizes, *bound.scalars))
        except BaseException:
            self.discard()
            raise
        outputs = [i for i, arg in enumerate(kernel.args) if arg.role != "in" and i not in homes]
        for i, raw in zip(outputs, found, strict=True):
            values = raw.view(arrays[i].dtype).reshape(arrays[i].shape)
            if compact is not None and i == compact.pool_index:
                compact.scatter(values, bound.arrays[i])
            else:
                np.copyto(bound.arrays[i], values)

    def _transact(
        self,
        arena: Arena,
        kernel: Kernel,
        arrays: tuple[np.ndarray, ...],
        homes: Mapping[int, tuple[Region, int]],
        numbers: tuple[int | float, ...],
    ) -> list[np.ndarray]:
        """Place the arrays that have no home in this memory, call, check the guards; returns the outputs' bytes."""
        moved = [i for i in range(len(arrays)) if i not in homes]
        args = [kernel.args[i] for i in moved]
        sizes = [arrays[i].nbytes for i in moved]
        placement = place(sizes, arena.scratch(extent(sizes)))
        addresses = dict(zip(moved, placement.addresses)) | {i: address for i, (_, address) in homes.items()}
        guards, names = list(placement.guards), guard_names(args)
        for i, (region, _) in homes.items():
            guards += region.guards
            names += [f"before {kernel.args[i].name}", f"after {kernel.args[i].name}"]
        writes, outputs = requests(args, [arrays[i] for i in moved], placement)
        values = (*(addresses[i] for i in range(len(arrays))), *numbers)
        found = arena.instance.transact(writes, kernel, values, guards + outputs)
        check_guards(kernel, guards, names, found[: len(guards)])
        self.copied_bytes += sum(sizes) + sum(nbytes for _, nbytes in outputs)
        return found[len(guards) :]


class WasmBackend(GuestBackend):
    """The kernels of ``target`` ("scalar" or "simd128") on ``host``."""

    def __init__(
        self, target: str, host: Host, folder: Path | None = None, kernels: Mapping[str, Kernel] = KERNELS
    ) -> None:
        name = f"wasm-{target}@{host.name}"
        module = read_module(target, host.command, folder or module_dir(), kernels)
        super().__init__(name, lambda: host.load(module, kernels, name), resident=not host.command)


@functools.cache
def _checked(target: str, host_name: str) -> WasmBackend:
    """A backend that passed its self-test, made once. Raises BackendError."""
    from tq_core.kernels.wasm_selftest import self_test

    backend = WasmBackend(target, HOSTS[host_name])
    try:
        self_test(backend)
    except BaseException:
        backend.discard()
        raise
    return backend


def candidates() -> list[tuple[BackendStatus, Callable[[], Backend]]]:
    """Every target on every host, with its status and how to make it; all self-tests run here."""
    found: list[tuple[BackendStatus, Callable[[], Backend]]] = []
    for host in host_statuses():
        for target in TARGETS:
            name, reason = f"wasm-{target}@{host.name}", host.reason
            available = host.available
            if available:
                try:
                    _checked(target, host.name)
                    reason = f"{host.name} {host.version}, self-test passed"
                except TqError as error:
                    available, reason = False, str(error)
            found.append(
                (BackendStatus(name, available, reason), functools.partial(_checked, target, host.name))
            )
    return found


def wasm_backends() -> tuple[list[Backend], list[BackendStatus]]:
    """(backends that run here, statuses of those that do not)."""
    made = [(status, make) for status, make in candidates()]
    return [make() for status, make in made if status.available], [s for s, _ in made if not s.available]
