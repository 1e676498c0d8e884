"""The child process of the benchmark's own environment: one library, driven by JSON lines.

``python -m validation.bench.peers.worker LIBRARY`` reads requests from standard input and answers on standard output:

{"op": "hello"}                         -> {"versions": {...}, "contestants": [[name, task], ...]}
{"op": "prepare", "name", "n_query_heads", "n_kv_heads", "head_dim", "tokens", "threads", "cold_bytes", "seed"}
                                        -> {"payload_bytes", "layers", "checked"} or {"reason"}
{"op": "sample", "name", "calls"}       -> {"ns": nanoseconds per call, after one call that is not timed}
{"op": "begin"}                         -> {}: all is prepared, what that took is dropped
{"op": "release"}                       -> {}: the cell is over

It needs numpy and that library, and nothing of the project but this folder.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import time
from typing import Any

CHECK_TOKENS_MAX = 8192


def pin(cpus: list[int]) -> None:
    """Keep this process, and the threads that it will start, on these CPUs; before the library is imported."""
    if cpus and hasattr(os, "sched_setaffinity"):
        try:
            os.sched_setaffinity(0, cpus)
        except OSError:
            pass


class Server:
    """The contestants of one library, prepared one cell at a time."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._ready: dict[str, Any] = {}
        self._work: Any = None

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        operation = request["op"]
        if operation == "hello":
            return {"versions": self._library.versions(), "contestants": self._library.CONTESTANTS}
        if operation == "prepare":
            return self._prepare(request)
        if operation == "sample":
            return {"ns": self._sample(self._ready[request["name"]], request["calls"])}
        if operation == "release":
            self._ready.clear()
        self._work = None
        gc.collect()
        return {}

    def _prepare(self, request: dict[str, Any]) -> dict[str, Any]:
        from validation.bench.peers.data import Work

        work = Work.of(request)
        if work == self._work:
            work = self._work  # with the vectors that were drawn for the contestant before
        self._work = work
        made = self._library.prepare(request["name"], work)
        if isinstance(made, str):
            return {"reason": made}
        if work.tokens <= CHECK_TOKENS_MAX and made.output is not None:
            made.run(0)
            made.checked = work.compare(made.output())
        self._ready[request["name"]] = [made, 0]
        return {"payload_bytes": made.payload_bytes, "layers": made.layers, "checked": made.checked}

    @staticmethod
    def _sample(state: list[Any], calls: int) -> float:
        made, position = state
        made.run(position % made.layers)
        begin = position + 1
        start = time.perf_counter_ns()
        for i in range(begin, begin + calls):
            made.run(i % made.layers)
        spent = time.perf_counter_ns() - start
        state[1] = begin + calls
        return spent / calls


def main() -> int:
    library, cpus = sys.argv[1], json.loads(sys.argv[2])
    # Libraries print; only answers may go where the parent reads.
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    pin(cpus)
    try:
        server = Server(importlib.import_module(f"validation.bench.peers.{library}"))
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), file=out)
        return 1
    for line in sys.stdin:
        try:
            reply = server.answer(json.loads(line))
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), file=out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
