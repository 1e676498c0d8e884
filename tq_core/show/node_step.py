"""The same placed work in node, whose engine (V8) is that of a browser; timed there, so that no pipe is in the figures."""

from __future__ import annotations

import base64
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tq_core.errors import BackendError
from tq_core.kernels.table import KERNELS
from tq_core.kernels.wasm import module_dir, read_module
from tq_core.show.guest_step import lay_out
from tq_core.show.lines import LineProcess
from tq_core.show.work import F32, Work

SCRIPT = Path(__file__).with_suffix(".mjs")
# The optimising compiler from the first call on: left to itself, V8 takes seconds of running to get there.
NODE_FLAGS = ("--no-liftoff", "--no-wasm-lazy-compilation")


class NodeStep:
    """Close it: it is a process. Raises BackendError when node is not installed or the module is not built."""

    def __init__(self, work: Work, target: str) -> None:
        self.name, self._shape = f"wasm-{target}@node", work.output.shape
        node = shutil.which("node")
        if node is None:
            raise BackendError("node: not installed")
        read_module(target, False, module_dir(), KERNELS)
        self._child = LineProcess("node", [node, *NODE_FLAGS, str(SCRIPT)], dict(os.environ))
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
        return self._child.ask(request)

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
        self._child.close()
