"""The in-process ``wasmer`` host: the engine with the Universal artifact format and Cranelift.

The package is pitfall-rich, so everything about it is decided here:

- On an interpreter without a real wheel pip installs a stub of the same version that raises on
  import; that is reported, not raised.
- Only Cranelift is used. Importing the LLVM compiler package can end the process in the dynamic
  loader, and Singlepass has no 128-bit vectors.
- Objects belong to the thread that made them; using one elsewhere panics. A backend makes one
  instance per thread.
- wasmer 1.1 overwrites the index operand of ``i8x16.swizzle``: right once, wrong if the index is
  used again. The kernels use each index once and a self-test at load proves it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np

from tq_core.errors import BackendError, KernelError
from tq_core.kernels.hosts.base import (
    WASM_PAGE_BYTES,
    HostStatus,
    ReactorInstance,
    check_exports,
    installed_version,
)
from tq_core.kernels.table import Kernel


def _load_package() -> tuple[Any, Any]:
    """(wasmer, Cranelift compiler class). Raises BackendError with what is wrong."""
    try:
        import wasmer
        import wasmer_compiler_cranelift as cranelift
    except ImportError as error:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        if "not available on this system" in str(error):
            reason = (
                f"the installed package is a stub, there is no wheel for Python {version} on this machine"
            )
        elif isinstance(error, ModuleNotFoundError):
            reason = f"module {error.name} is not installed (wheels end at Python 3.10; conda-forge has 3.11)"
        else:
            reason = str(error)
        raise BackendError(f"wasmer: not available: {reason}") from error
    return wasmer, cranelift.Compiler


def _guarded(action: str, work: Any) -> Any:
    """Run ``work``; a Rust panic, which Python sees as a BaseException, becomes a BackendError."""
    try:
        return work()
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:
        raise BackendError(f"wasmer: cannot {action}: {type(error).__name__}: {error}") from error


class WasmerInstance(ReactorInstance):
    def __init__(self, module: bytes, kernels: Mapping[str, Kernel], label: str) -> None:
        wasmer, compiler = _load_package()
        self._thread = threading.get_ident()

        def make() -> Any:
            store = wasmer.Store(wasmer.engine.Universal(compiler))
            return wasmer.Instance(wasmer.Module(store, module))

        self._instance = _guarded(f"load {label}", make)
        exports = dict(iter(self._instance.exports))
        check_exports(exports, kernels, label)
        self._functions = {name: exports[name] for name in kernels}
        self._memory = exports["memory"]
        self.heap_base = exports["__heap_base"].value
        self.origin = self.view().ctypes.data

    def _check_thread(self) -> None:
        if threading.get_ident() != self._thread:
            raise BackendError("wasmer: expected the thread that made the instance, got another one")

    @property
    def memory_bytes(self) -> int:
        self._check_thread()
        return self._memory.data_size

    def _grow(self, memory_bytes: int) -> None:
        missing = memory_bytes - self.memory_bytes
        if missing > 0:
            pages = -(-missing // WASM_PAGE_BYTES)
            _guarded(f"grow the memory to {memory_bytes} bytes", lambda: self._memory.grow(pages))

    def view(self) -> np.ndarray:
        self._check_thread()
        return np.frombuffer(self._memory.buffer, np.uint8)

    def _invoke(self, kernel: Kernel, values: list[int | float]) -> None:
        try:
            self._functions[kernel.name](*values)
        except RuntimeError as error:
            raise KernelError(f"{kernel.name}: trapped in wasmer: {error}") from error


class WasmerHost:
    name = "wasmer"
    command = False

    def status(self) -> HostStatus:
        try:
            wasmer, compiler = _load_package()
            _guarded("make a store", lambda: wasmer.Store(wasmer.engine.Universal(compiler)))
        except BackendError as error:
            return HostStatus(self.name, False, "", str(error))
        return HostStatus(self.name, True, installed_version("wasmer"), "in this process, Cranelift")

    def load(self, module: bytes, kernels: Mapping[str, Kernel], label: str) -> WasmerInstance:
        return WasmerInstance(module, kernels, label)
