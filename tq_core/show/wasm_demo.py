"""Two things about a wasm module's linear memory that a notebook can show: its growth, and a view gone stale."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tq_core.errors import BackendError
from tq_core.kernels.hosts import HOSTS, Host, host_statuses
from tq_core.kernels.wasm import WasmBackend

PAGE = 65536


def in_process_host() -> Host:
    """The host whose memory Python can look into: ``wasmer`` where it imports, else ``wasmtime``. Raises BackendError."""
    usable = [s.name for s in host_statuses() if s.available and not HOSTS[s.name].command]
    if not usable:
        raise BackendError(
            "host: expected one that runs in this process, got none; `make setup` installs wasmtime"
        )
    return HOSTS[usable[0]]


@dataclass(frozen=True)
class StaleView:
    """Lengths in bytes: of a view taken before the memory grew, of that same view after, of the memory after."""

    before: int
    old_view: int
    memory: int

    @property
    def unreachable(self) -> int:
        """Bytes of the memory that the old view does not reach."""
        return self.memory - self.old_view


def look_at_growth(pages: int = 16) -> StaleView:
    """Take a view, let the memory grow, compare; the old view's bytes are not touched, they may be unmapped.

    Raises BackendError without a host in this process or without built modules.
    """
    backend = WasmBackend("scalar", in_process_host())
    instance = backend.instance()
    before = instance.memory_bytes
    view = instance.view()  # type: ignore[attr-defined]
    instance.grow(before + pages * PAGE)
    found = StaleView(before, view.size, instance.memory_bytes)
    backend.discard()
    return found


def growth_of_calls(rows: tuple[int, ...]) -> list[list[object]]:
    """(rows of a softmax call, growth events so far, memory in KiB) for calls of growing size on a fresh instance."""
    backend = WasmBackend("scalar", in_process_host())
    found: list[list[object]] = []
    for n in rows:
        backend.call("softmax", scores=np.zeros((n, 1024), np.float32), n_tokens=1024)
        found.append([n, backend.growth_events, backend.instance().memory_bytes // 1024])
    backend.discard()
    return found
