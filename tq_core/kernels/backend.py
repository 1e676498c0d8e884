"""Ways to run a kernel, behind one narrow interface: numpy, native targets, wasm targets on hosts."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Protocol

from tq_core.errors import BackendError
from tq_core.kernels.arguments import bind
from tq_core.kernels.table import KERNELS
from tq_core.kernels.twins import KERNEL_FUNCTIONS


class Backend(Protocol):
    """One way to run the kernels of the table; ``parallel`` when calls of several threads run side by side."""

    name: str
    parallel: bool

    def call(self, kernel: str, **arguments: Any) -> None:
        """Run a kernel; outputs are written into the arrays given. Raises as ``arguments.bind`` does."""


@dataclass(frozen=True)
class BackendStatus:
    """Whether a backend can run here, and why not. A ``slow`` one is run only when it is asked for."""

    name: str
    available: bool
    reason: str
    slow: bool = False


class NumpyBackend:
    """The reference: what the other backends must equal bit for bit."""

    name = "numpy"
    parallel = False

    def call(self, kernel: str, **arguments: Any) -> None:
        bound = bind(kernel, arguments)
        values = dict(zip((a.name for a in bound.kernel.args), bound.arrays))
        scalars = dict(zip((s.name for s in bound.kernel.scalars), bound.scalars))
        KERNEL_FUNCTIONS[kernel](**values, **scalars)


@dataclass(frozen=True)
class _Candidate:
    status: BackendStatus
    make: Callable[[], Backend]


@lru_cache(maxsize=1)
def _candidates() -> dict[str, _Candidate]:
    """Every backend that this project knows, probed once per process."""
    from tq_core.kernels import native, qemu, wasm

    found = [_Candidate(BackendStatus("numpy", True, f"the reference, {len(KERNELS)} kernels"), NumpyBackend)]
    for module in (native, wasm, qemu):
        found += [_Candidate(status, make) for status, make in module.candidates()]
    return {c.status.name: c for c in found}


def backend_statuses() -> list[BackendStatus]:
    """Every known backend with its availability and, if it is missing, the reason."""
    return [c.status for c in _candidates().values()]


def available_backends(slow: bool = False) -> list[str]:
    """Names of the backends that run here; the slow ones, which come last, on request."""
    return [s.name for s in backend_statuses() if s.available and (slow or not s.slow)]


@cache
def _make(name: str) -> Backend:
    return NumpyBackend() if name == NumpyBackend.name else _candidates()[name].make()


def get_backend(name: str | None = None) -> Backend:
    """The backend called ``name``; None takes $TQ_BACKEND, else the widest native target, else numpy.

    Raises BackendError for an unknown name or a backend that cannot run here, with the reason.
    """
    name = name or os.environ.get("TQ_BACKEND")
    if name == NumpyBackend.name:  # it needs none of the hosts and compilers, whose probing takes seconds
        return _make(name)
    if name is None:
        native = [n for n in available_backends() if n.startswith("native-")]
        name = native[-1] if native else "numpy"
    known = _candidates()
    if name not in known:
        raise BackendError(f"backend: expected one of {', '.join(known)}, got {name!r}")
    status = known[name].status
    if not status.available:
        raise BackendError(f"backend: {name} is not available here: {status.reason}")
    return _make(name)
