"""The wasmtime host: the second, independent engine, which tells our bugs from a host's."""

from __future__ import annotations

import ctypes
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


class WasmtimeInstance(ReactorInstance):
    def __init__(self, wasmtime: Any, module: bytes, kernels: Mapping[str, Kernel], label: str) -> None:
        self._wasmtime = wasmtime
        try:
            config = wasmtime.Config()
            config.memory_may_move = False  # numpy views of page pools stay valid while the memory grows
            engine = wasmtime.Engine(config)
            self._store = wasmtime.Store(engine)
            exports = wasmtime.Instance(self._store, wasmtime.Module(engine, module), []).exports(self._store)
        except wasmtime.WasmtimeError as error:
            raise BackendError(f"wasmtime: cannot load {label}: {error}") from error
        check_exports(exports, kernels, label)
        self._functions = {name: exports[name] for name in kernels}
        self._memory = exports["memory"]
        self.heap_base = exports["__heap_base"].value(self._store)
        self.origin = self.view().ctypes.data

    @property
    def memory_bytes(self) -> int:
        return self._memory.data_len(self._store)

    def _grow(self, memory_bytes: int) -> None:
        missing = memory_bytes - self.memory_bytes
        if missing > 0:
            try:
                self._memory.grow(self._store, -(-missing // WASM_PAGE_BYTES))
            except self._wasmtime.WasmtimeError as error:
                raise BackendError(
                    f"wasmtime: cannot grow the memory to {memory_bytes} bytes: {error}"
                ) from error

    def view(self) -> np.ndarray:
        address = ctypes.cast(self._memory.data_ptr(self._store), ctypes.c_void_p).value
        return np.frombuffer((ctypes.c_uint8 * self.memory_bytes).from_address(address or 0), np.uint8)

    def _invoke(self, kernel: Kernel, values: list[int | float]) -> None:
        try:
            self._functions[kernel.name](self._store, *values)
        except (self._wasmtime.Trap, self._wasmtime.WasmtimeError) as error:
            reason = str(error).strip().splitlines()[-1].strip()
            raise KernelError(f"{kernel.name}: trapped in wasmtime: {reason}") from error


class WasmtimeHost:
    name = "wasmtime"
    command = False

    def _engine(self) -> Any:
        try:
            import wasmtime
        except (ImportError, OSError) as error:
            raise BackendError(f"wasmtime: cannot be imported: {error}") from error
        return wasmtime

    def status(self) -> HostStatus:
        try:
            self._engine()
        except BackendError as error:
            return HostStatus(self.name, False, "", str(error))
        return HostStatus(self.name, True, installed_version("wasmtime"), "in this process")

    def load(self, module: bytes, kernels: Mapping[str, Kernel], label: str) -> WasmtimeInstance:
        return WasmtimeInstance(self._engine(), module, kernels, label)
