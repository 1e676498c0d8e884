"""A guest program for another processor, run by qemu's user mode and driven over pipes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import weakref
from collections.abc import Mapping, Sequence

from tq_core.errors import BackendError, KernelError
from tq_core.kernels.hosts import frames
from tq_core.kernels.hosts.frame_instance import FrameInstance
from tq_core.kernels.table import Kernel

CALL_SECONDS = 120.0
CLOSE_SECONDS = 5.0


def _end(process: subprocess.Popen[bytes], owner: int) -> None:
    """Close the guest's input, which ends its loop; kill it if that is not enough."""
    if os.getpid() != owner:  # a fork holds the same pipes, and the guest is not its own
        return
    assert process.stdin and process.stdout
    with contextlib.suppress(OSError):
        process.stdin.close()
    try:
        process.wait(CLOSE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()


class QemuInstance(FrameInstance):
    """One guest process. It ends with ``close``, when it is collected, or with the interpreter."""

    def __init__(
        self,
        command: Sequence[str],
        kernels: Mapping[str, Kernel],
        label: str,
        call_seconds: float = CALL_SECONDS,
    ) -> None:
        super().__init__("qemu", kernels)
        self._seconds, self._late, self._owner = call_seconds, False, os.getpid()
        try:
            self._process = subprocess.Popen(
                list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        except OSError as error:
            raise BackendError(f"cannot load {label}: {error}") from error
        self._finalizer = weakref.finalize(self, _end, self._process, self._owner)
        try:
            self.transact([], None, (), [])
        except (BackendError, KernelError) as error:
            self.close()
            raise BackendError(f"cannot load {label}: {error}") from error

    def _give_up(self) -> None:
        self._late = True
        self._process.kill()

    def _read(self, nbytes: int) -> bytes:
        assert self._process.stdout
        data = self._process.stdout.read(nbytes)
        if len(data) == nbytes:
            return data
        code = self._process.wait()
        if self._late:
            raise BackendError(f"qemu: expected an answer within {self._seconds:g} s, got none")
        if code < 0:  # qemu ends itself with the signal that its guest got
            raise KernelError(f"trapped in qemu: {signal.Signals(-code).name}")
        raise BackendError(f"qemu: the guest ended with exit code {code}")

    def _send(self, frame: bytes, nbytes: int) -> bytes:
        if os.getpid() != self._owner:
            raise BackendError("qemu: expected the process that started the guest, got a fork of it")
        assert self._process.stdin
        timer = threading.Timer(self._seconds, self._give_up)
        timer.daemon = True
        timer.start()
        try:
            # A guest that refuses a frame answers and ends before it has read everything.
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.write(frame)
                self._process.stdin.flush()
            self._accept(self._read(frames.RESPONSE_BYTES))
            return self._read(nbytes)
        finally:
            timer.cancel()

    def close(self) -> None:
        self._dead = self._dead or "closed"
        self._finalizer()
