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
from tq_core.kernels.hosts import HOSTS, Host, Instance, frames, host_statuses
from tq_core.kernels.table import KERNELS, Kernel
from tq_core.kernels.wasm_memory import GROWTH_BYTES, check_guards, compact_pool, place, requests, round_up

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
    arrays; of a page pool only the pages in use are copied. One instance per thread, made on first
    use; a thread that ends calls ``discard`` before, or a guest of the SDK lives on until the
    process ends. ``growth_events`` counts how often a memory was grown.
    """

    parallel = False  # an engine's objects belong to the thread that made them

    def __init__(self, name: str, load: Callable[[], Instance]) -> None:
        self.name = name
        self.growth_events = 0
        self._load = load
        self._local = threading.local()

    def instance(self) -> Instance:
        """This thread's instance; a new one after one that failed."""
        current: Instance | None = getattr(self._local, "instance", None)
        if current is None:
            current = self._local.instance = self._load()
        return current

    def discard(self) -> None:
        """Close this thread's instance."""
        current: Instance | None = self._local.__dict__.pop("instance", None)
        if current is not None:
            current.close()

    def call(self, kernel: str, **arguments: Any) -> None:
        """Run a kernel; outputs are written into the arrays given.

        Raises as ``arguments.bind`` does, KernelError when the kernel traps or writes outside its
        arrays, BackendError when the host fails; the arrays are then as before.
        """
        self.run(bind(kernel, arguments))

    def run(self, bound: Bound) -> None:
        """Run a kernel on arguments that were checked before."""
        kernel, arrays, sizes = bound.kernel, bound.arrays, bound.sizes
        compact = compact_pool(kernel, arrays, sizes) if kernel.paged else None
        if compact is not None:
            arrays, sizes = compact.arrays, compact.sizes
        try:
            found = self._transact(kernel, arrays, (*sizes, *bound.scalars))
        except BaseException:
            self.discard()
            raise
        outputs = [i for i, arg in enumerate(kernel.args) if arg.role != "in"]
        for i, raw in zip(outputs, found, strict=True):
            values = raw.view(arrays[i].dtype).reshape(arrays[i].shape)
            if compact is not None and i == compact.pool_index:
                compact.scatter(values, bound.arrays[i])
            else:
                np.copyto(bound.arrays[i], values)

    def _transact(
        self, kernel: Kernel, arrays: tuple[np.ndarray, ...], numbers: tuple[int | float, ...]
    ) -> list[np.ndarray]:
        """Place the arrays, call, check the guards; returns the outputs' bytes."""
        instance = self.instance()
        placement = place([array.nbytes for array in arrays], instance.heap_base)
        if placement.end > instance.memory_bytes:
            instance.grow(round_up(placement.end, GROWTH_BYTES))
            self.growth_events += 1
        writes, reads = requests(kernel, arrays, placement)
        found = instance.transact(writes, kernel, (*placement.addresses, *numbers), reads)
        check_guards(kernel, placement, found)
        return found[len(placement.guards) :]


class WasmBackend(GuestBackend):
    """The kernels of ``target`` ("scalar" or "simd128") on ``host``."""

    def __init__(
        self, target: str, host: Host, folder: Path | None = None, kernels: Mapping[str, Kernel] = KERNELS
    ) -> None:
        name = f"wasm-{target}@{host.name}"
        module = read_module(target, host.command, folder or module_dir(), kernels)
        super().__init__(name, lambda: host.load(module, kernels, name))


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
