"""The same placed work in node, whose engine (V8) is that of a browser; timed there, so that no pipe is in the figures."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tq_core.errors import BackendError
from tq_core.kernels.table import KERNELS
from tq_core.kernels.wasm import module_dir, read_module
from tq_core.show.guest_step import lay_out
from tq_core.show.work import F32, Work

SCRIPT = Path(__file__).with_suffix(".mjs")


class NodeStep:
    """Close it: it is a process. Raises BackendError when node is not installed or the module is not built."""

    def __init__(self, work: Work, target: str) -> None:
        self.name, self._shape = f"wasm-{target}@node", work.output.shape
        node = shutil.which("node")
        if node is None:
            raise BackendError("node: not installed")
        read_module(target, False, module_dir(), KERNELS)
        self._process = subprocess.Popen(
            [node, str(SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            hello = self._ask(op="load", module=str(module_dir() / f"tq_{target}.wasm"))
            self.version = str(hello["version"])
            self._prepare(work, int(hello["heap_base"]))
        except BaseException:
            self.close()
            raise

    def _prepare(self, work: Work, heap_base: int) -> None:
        placed = lay_out(work, heap_base)
        self._output = placed.output
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "data"
            with path.open("wb") as file:
                for _, data in (*placed.writes, *placed.resets):
                    file.write(data.data)
            ranges, fresh = (
                [[a, data.nbytes] for a, data in part] for part in (placed.writes, placed.resets)
            )
            calls = [[kernel.name, list(values)] for kernel, values in placed.calls]
            self._ask(
                op="prepare",
                data=str(path),
                ranges=ranges,
                fresh=fresh,
                memory=placed.memory_bytes,
                calls=calls,
            )

    def _ask(self, **request: Any) -> dict[str, Any]:
        sent, received = self._process.stdin, self._process.stdout
        assert sent is not None and received is not None  # both are pipes
        try:
            sent.write(json.dumps(request) + "\n")
            sent.flush()
            line = received.readline()
        except (OSError, ValueError) as error:
            raise BackendError(f"node: expected an answer, got {type(error).__name__}: {error}") from error
        reply: dict[str, Any] = json.loads(line or '{"error": "the process ended"}')
        if "error" in reply:
            raise BackendError(f"node: {reply['error']}")
        return reply

    def sample(self, count: int) -> float:
        """Seconds per run over ``count`` runs, by node's clock."""
        return float(self._ask(op="sample", count=count)["seconds"])

    def run(self) -> None:
        self.sample(1)

    def output(self) -> F32:
        """The result of the last run."""
        address, nbytes = self._output
        raw = base64.b64decode(self._ask(op="read", address=address, nbytes=nbytes)["bytes"])
        return np.frombuffer(raw, np.float32).reshape(self._shape)

    def close(self) -> None:
        """End the process; safe to call twice."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
