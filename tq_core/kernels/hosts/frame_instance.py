"""An instance behind two pipes: what every guest that speaks frames has in common."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Mapping

import numpy as np

from tq_core.errors import BackendError, KernelError
from tq_core.kernels.hosts import frames
from tq_core.kernels.hosts.base import Instance
from tq_core.kernels.hosts.frames import Reads, Writes
from tq_core.kernels.table import Kernel


class FrameInstance(Instance):
    """A guest that runs wasm/command.cpp. Any thread may use it, one transaction at a time."""

    def __init__(self, host: str, kernels: Mapping[str, Kernel]) -> None:
        self._host, self._lock = host, threading.Lock()
        self._ids = {name: frames.kernel_id(kernel) for name, kernel in kernels.items()}
        self._memory_bytes = self.heap_base = 0
        self._dead = ""

    @abstractmethod
    def _send(self, frame: bytes, nbytes: int) -> bytes:
        """Write a request, pass the response's head to ``_accept``, and return the ``nbytes`` after it.

        Raises KernelError when the kernel trapped, BackendError when the guest is otherwise gone.
        """

    def _accept(self, head: bytes) -> None:
        status, self._memory_bytes, self.heap_base = frames.response_head(head)
        if status != "OK":
            raise BackendError(f"{self._host}: the guest refused the frame: {status}")

    @property
    def memory_bytes(self) -> int:
        return self._memory_bytes

    def _transact(
        self, kernel: int, words: np.ndarray, wanted: int, writes: Writes, reads: Reads
    ) -> list[np.ndarray]:
        frame = frames.request(kernel, words, wanted, writes, reads)
        sizes = [nbytes for _, nbytes in reads]
        with self._lock:
            if self._dead:
                raise BackendError(f"{self._host}: the guest is closed: {self._dead}")
            try:
                raw = self._send(frame, sum(sizes))
            except BaseException as error:
                self._dead = str(error) or type(error).__name__
                raise
        whole, starts = np.frombuffer(raw, np.uint8), np.cumsum([0, *sizes])
        return [whole[start : start + size] for start, size in zip(starts, sizes, strict=False)]

    def transact(
        self, writes: Writes, kernel: Kernel | None, values: tuple[int | float, ...], reads: Reads
    ) -> list[np.ndarray]:
        if kernel is None:
            return self._transact(frames.NO_KERNEL, np.zeros(0, "<u4"), 0, writes, reads)
        words = frames.words_of(kernel, values)
        try:
            return self._transact(self._ids[kernel.name], words, 0, writes, reads)
        except (BackendError, KernelError) as error:
            raise type(error)(f"{kernel.name}: {error}") from error

    def grow(self, memory_bytes: int) -> None:
        if memory_bytes > self._memory_bytes:
            if memory_bytes >= 2**32:
                raise BackendError(f"{self._host}: cannot grow the memory to {memory_bytes} bytes")
            self._transact(frames.NO_KERNEL, np.zeros(0, "<u4"), memory_bytes, [], [])

    def view(self) -> np.ndarray:
        raise BackendError(
            f"{self._host}: the guest's memory is behind a pipe and cannot be viewed; use read()"
        )
