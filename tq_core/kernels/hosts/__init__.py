"""WebAssembly hosts: the engines that can run the kernels here, behind one protocol.

Two belong to Wasmer: the in-process module ``wasmer``, for the interpreters that have a wheel, and
``wasmer-sdk``, on every interpreter, which runs a command behind pipes. ``wasmtime`` is beside them
as the independent second opinion.
"""

from __future__ import annotations

import functools

from tq_core.errors import BackendError
from tq_core.kernels.hosts.base import Host, HostStatus, Instance
from tq_core.kernels.hosts.swizzle_probe import swizzle_note
from tq_core.kernels.hosts.wasmer_host import WasmerHost
from tq_core.kernels.hosts.wasmer_sdk_host import WasmerSdkHost
from tq_core.kernels.hosts.wasmtime_host import WasmtimeHost

__all__ = ["HOSTS", "Host", "HostStatus", "Instance", "get_host", "host_statuses", "preferred_wasmer"]

HOSTS: dict[str, Host] = {host.name: host for host in (WasmerHost(), WasmerSdkHost(), WasmtimeHost())}


@functools.cache
def _statuses() -> tuple[HostStatus, ...]:
    return tuple(swizzle_note(host, host.status()) for host in HOSTS.values())


def host_statuses() -> list[HostStatus]:
    """Every known host: available or not, version, and the reason or a remark."""
    return list(_statuses())


def get_host(name: str) -> Host:
    """The host called ``name``. Raises BackendError when it is unknown or does not run here."""
    if name not in HOSTS:
        raise BackendError(f"host: expected one of {', '.join(HOSTS)}, got {name!r}")
    status = next(s for s in _statuses() if s.name == name)
    if not status.available:
        raise BackendError(f"host: {name} does not run here: {status.reason}")
    return HOSTS[name]


def preferred_wasmer() -> Host:
    """The Wasmer host to use: ``wasmer`` if it works here, else ``wasmer-sdk``. Raises BackendError."""
    available = {s.name for s in _statuses() if s.available}
    return get_host("wasmer" if "wasmer" in available else "wasmer-sdk")
