"""Fresh wasm backends whose page pools live in linear memory, and why there may be none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from tq_core.codecs.arms import Arm
from tq_core.errors import BackendError, TqError
from tq_core.kernels.hosts import HOSTS, host_statuses
from tq_core.kernels.hosts.base import WASM_PAGE_BYTES
from tq_core.kernels.wasm import WasmBackend

TARGET = "simd128"
PREFERRED = "wasmtime"


class Linear(Protocol):
    """A backend with linear memory, as far as trials ask it."""

    name: str
    parallel: bool

    def call(self, kernel: str, **arguments: Any) -> None: ...

    def instance(self) -> Any: ...

    def held_bytes(self) -> int: ...

    def discard(self) -> None: ...


Fresh = Callable[[], Linear]


def in_kernels(arm: Arm) -> bool:
    """Whether keys and values of an arm are read and written by kernels, so that wasm can run it."""
    return arm.key_codec.tags.same_bits and arm.value_codec.tags.same_bits


def resident_hosts() -> dict[str, str]:
    """Host -> "" when it runs here and shows its memory, else the reason; the preferred one first."""
    found = {}
    for status in sorted(host_statuses(), key=lambda s: s.name != PREFERRED):
        piped = "its memory is behind a pipe" if HOSTS[status.name].command else ""
        found[status.name] = piped if status.available else status.reason
    return found


def fresh(host: str) -> WasmBackend:
    """A backend with a memory of its own. Raises BackendError."""
    backend = WasmBackend(TARGET, HOSTS[host])
    backend.instance()
    return backend


def on_first_host() -> WasmBackend:
    """A fresh backend on the first host that runs. Raises BackendError with every reason when there is none."""
    hosts = resident_hosts()
    for name, reason in hosts.items():
        if not reason:
            try:
                return fresh(name)
            except TqError as error:
                hosts[name] = str(error)
    raise BackendError("no wasm host: " + "; ".join(f"{n}: {r}" for n, r in hosts.items()))


def pages(backend: Linear) -> int:
    """64 KiB pages of the instance's linear memory; it never shrinks, so this is the peak."""
    return backend.instance().memory_bytes // WASM_PAGE_BYTES
