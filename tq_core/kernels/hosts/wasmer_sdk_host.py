"""The ``wasmer-sdk`` host: the maintained Wasmer runtime, on every Python, driven over pipes.

The SDK runs WASI commands, not exported functions. The kernels are therefore linked once more as a
command with a loop (wasm/command.cpp); a call is one frame in and one frame out (frames.py). The SDK
is asynchronous, so one background thread runs its event loop and calls wait for it with a time
limit: a guest that does not answer is a BackendError, not a hang.

Guests must have ended before the interpreter does, since the runtime's threads abort the process
otherwise. ``_Runtime.close`` is registered at exit for that.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import os
import shutil
import tempfile
import threading
from collections.abc import Coroutine, Mapping
from typing import Any

from tq_core.errors import BackendError, KernelError
from tq_core.kernels.hosts import frames
from tq_core.kernels.hosts.base import HostStatus, installed_version
from tq_core.kernels.hosts.frame_instance import FrameInstance
from tq_core.kernels.table import Kernel

CALL_SECONDS = 60.0
START_SECONDS = 120.0  # the first start compiles the module
CLOSE_SECONDS = 5.0
_TRAP = "command execution failed: RuntimeError"  # how the SDK words a trap


class _Runtime:
    """The event loop's thread, one SDK client on it, and the guests that are alive."""

    def __init__(self) -> None:
        from wasmer_sdk import Wasmer

        self.pid = os.getpid()
        self.guests: set[SdkInstance] = set()
        self._cache = tempfile.mkdtemp(prefix="tq-wasmer-sdk-")
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, name="wasmer-sdk", daemon=True).start()
        self.client = Wasmer(cache_root=self._cache)
        atexit.register(self.close)

    def run(self, work: Coroutine[Any, Any, Any], seconds: float) -> Any:
        """Wait for ``work`` on the loop. Raises BackendError after ``seconds`` or on an SDK error."""
        if os.getpid() != self.pid:
            work.close()
            raise BackendError("wasmer-sdk: expected the process that started the runtime, got a fork of it")
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result(seconds)
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise BackendError(f"wasmer-sdk: expected an answer within {seconds:g} s, got none") from None
        except BackendError:
            raise
        except Exception as error:
            raise BackendError(f"wasmer-sdk: {type(error).__name__}: {error}") from error

    def close(self) -> None:
        """End every guest and the client; safe to call twice."""
        if os.getpid() != self.pid or self.loop.is_closed():
            return
        for guest in list(self.guests):
            guest.close()
        with contextlib.suppress(BackendError):
            self.run(self.client.close(), CLOSE_SECONDS)
        # Readers left to the collector would ask a stopped loop to close them, and be reported for it.
        with contextlib.suppress(BackendError):
            self.run(self.loop.shutdown_asyncgens(), CLOSE_SECONDS)
        self.loop.call_soon_threadsafe(self.loop.stop)
        shutil.rmtree(self._cache, ignore_errors=True)


_runtime: _Runtime | None = None
_runtime_lock = threading.Lock()


def _shared_runtime() -> _Runtime:
    global _runtime
    with _runtime_lock:
        if _runtime is None or _runtime.pid != os.getpid():
            try:
                _runtime = _Runtime()
            except Exception as error:
                raise BackendError(f"wasmer-sdk: not available: {type(error).__name__}: {error}") from error
        return _runtime


class SdkInstance(FrameInstance):
    """A guest process of the SDK."""

    def __init__(self, module: bytes, kernels: Mapping[str, Kernel], label: str, call_seconds: float) -> None:
        super().__init__("wasmer-sdk", kernels)
        self._runtime = _shared_runtime()
        self._seconds = call_seconds
        self._buffer = bytearray()
        self._runtime.guests.add(self)
        try:
            self._runtime.run(self._start(module), START_SECONDS)
            self.transact([], None, (), [])
        except BackendError as error:
            self.close()
            raise BackendError(f"cannot load {label}: {error}") from error

    async def _start(self, module: bytes) -> None:
        client = self._runtime.client
        package = await client.packages.load(module)
        self._sandbox = await client.sandboxes.create(packages=[package])
        # output_bytes=0: the SDK would otherwise keep a copy of everything the guest ever wrote.
        self._process = await self._sandbox.command(package).spawn(
            stdin="pipe", stderr="discard", output_bytes=0
        )
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise BackendError("wasmer-sdk: expected a guest with both pipes, got one without")
        self._stdin, self._chunks = stdin, stdout.__aiter__()

    async def _read(self, nbytes: int) -> bytes:
        while len(self._buffer) < nbytes:
            try:
                self._buffer += await self._chunks.__anext__()
            except StopAsyncIteration:
                output = await self._process.wait()
                raise BackendError(
                    f"wasmer-sdk: the guest ended ({output.reason.value}, exit code {output.exit_code})"
                ) from None
        taken = bytes(memoryview(self._buffer)[:nbytes])
        del self._buffer[:nbytes]
        return taken

    async def _exchange(self, frame: bytes, nbytes: int) -> bytes:
        await self._stdin.write(frame)
        self._accept(await self._read(frames.RESPONSE_BYTES))
        return await self._read(nbytes)

    def _send(self, frame: bytes, nbytes: int) -> bytes:
        try:
            return self._runtime.run(self._exchange(frame, nbytes), self._seconds)
        except BackendError as error:
            if _TRAP in str(error):
                raise KernelError(f"trapped in {error}") from error
            raise

    def close(self) -> None:
        """End the guest: close its input, which ends its loop, and kill it if that is not enough."""
        self._dead = self._dead or "closed"
        if self not in self._runtime.guests:
            return
        self._runtime.guests.discard(self)
        with contextlib.suppress(BackendError):
            self._runtime.run(self._stop(), 2 * CLOSE_SECONDS)

    async def _stop(self) -> None:
        process = getattr(self, "_process", None)
        if process is not None:
            with contextlib.suppress(Exception):
                await process.stdin.close()
            try:
                await asyncio.wait_for(process.wait(), CLOSE_SECONDS / 5)
            except Exception:
                with contextlib.suppress(Exception):
                    await process.kill()
                    await asyncio.wait_for(process.wait(), CLOSE_SECONDS / 5)
        with contextlib.suppress(Exception):
            await asyncio.wait_for(self._sandbox.close(), CLOSE_SECONDS / 5)


class WasmerSdkHost:
    name = "wasmer-sdk"
    command = True

    def __init__(self, call_seconds: float = CALL_SECONDS) -> None:
        self.call_seconds = call_seconds

    def status(self) -> HostStatus:
        try:
            _shared_runtime()
        except BackendError as error:
            return HostStatus(self.name, False, "", str(error))
        return HostStatus(self.name, True, installed_version("wasmer-sdk"), "a WASI command behind pipes")

    def load(self, module: bytes, kernels: Mapping[str, Kernel], label: str) -> SdkInstance:
        return SdkInstance(module, kernels, label, self.call_seconds)
