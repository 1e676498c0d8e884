"""Native backends: the kernels of cpp/tq compiled in this process by Cling, one per instruction set.

On x86-64 the targets are below. On aarch64 there is NEON, which every such processor has; that machine
was not at hand, so what is tested of NEON is the same header cross-built and run by qemu.py.
"""

from __future__ import annotations

import platform
import threading
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from tq_core.errors import BackendError
from tq_core.kernels import cling
from tq_core.kernels.arguments import bind
from tq_core.kernels.backend import Backend, BackendStatus
from tq_core.kernels.table import KERNELS

# Target namespace -> CPU features it needs, narrowest first.
TARGETS: dict[str, frozenset[str]] = {
    "scalar": frozenset(),
    "avx2": frozenset({"avx2", "f16c"}),
    "avxvnni": frozenset({"avx2", "f16c", "avx_vnni"}),
    "avx512": frozenset({"avx512f", "avx512bw", "avx512vl", "avx512dq"}),
    "avx512vnni": frozenset({"avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_vnni"}),
}
# Targets of other machines are not listed: no setting or package could make them run here.
if platform.machine() in ("aarch64", "arm64"):
    TARGETS["neon"] = frozenset()


_COMPILING = threading.Lock()


@lru_cache(maxsize=1)
def cpu_features() -> frozenset[str]:
    """Instruction-set flags of this CPU as Linux names them; empty where that cannot be read."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    flags = next((line.split(":", 1)[1] for line in lines if line.startswith("flags")), "")
    return frozenset(flags.split())


class NativeBackend:
    """Kernels of one target namespace, called through cppyy without copying the arrays.

    Calls run with Python's lock released, so those of several threads run side by side. ``kernels`` is the C++ namespace
    that holds the targets, the project's own when None.
    """

    parallel = True

    def __init__(self, target: str, kernels: Any = None) -> None:
        self.name = f"native-{target}"
        space = getattr(cling.load_kernels() if kernels is None else kernels, target)
        self._functions = {name: getattr(space, name) for name in KERNELS}
        self._compiled: set[str] = set()

    def call(self, kernel: str, **arguments: Any) -> None:
        bound = bind(kernel, arguments)
        # cppyy refuses empty arrays; a kernel reads nothing from one, so any address will do.
        arrays = [a if a.size else np.zeros(1, a.dtype) for a in bound.arrays]
        function = self._functions[kernel]
        if kernel not in self._compiled:
            # Cling compiles at the first call, and its compiler is one for the whole process.
            with _COMPILING:
                function(*arrays, *bound.sizes, *bound.scalars)
                function.__release_gil__ = True
                self._compiled.add(kernel)
            return
        function(*arrays, *bound.sizes, *bound.scalars)


def candidates() -> Iterator[tuple[BackendStatus, Callable[[], Backend]]]:
    """Status and factory of every native target."""
    try:
        cling.load_kernels()
        broken = ""
    except BackendError as error:
        broken = str(error)
    for target, needs in TARGETS.items():
        missing = sorted(needs - cpu_features())
        if platform.machine() not in cling.BASELINE and target not in ("scalar", "neon"):
            reason = f"needs an x86-64 machine, this is {platform.machine()}"
        elif broken:
            reason = broken
        elif missing:
            reason = f"this CPU lacks {', '.join(missing)}"
        else:
            reason = ""
        note = reason or f"cppyy, {cling.cling_facts()['compiler']}"
        if not reason and not cling.cling_facts()["baseline"]:
            note += " (host flags: cppyy was imported before the baseline was pinned)"
        yield BackendStatus(f"native-{target}", not reason, note), partial(NativeBackend, target)
