"""The parent's side: one child process per library and number of threads, asked one thing at a time.

A child that is not asked waits in a read, so whoever is being measured has the machine for itself.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tq_core.errors import BackendError
from tq_core.paths import ROOT
from tq_core.show.lines import LineProcess
from validation.bench.machine import cpus
from validation.bench.ours import Entry
from validation.bench.peers.install import VENV, python_of
from validation.bench.plan import Cell
from validation.bench.timing import Contestant
from validation.bench.world import SEED

# Module of this folder -> what it needs, for the message when it is missing.
LIBRARIES = {
    "dense": "numpy", "torch_peer": "torch", "llama": "ggml", "aither": "aither-kvcache",
    "faiss_peer": "faiss", "turbovec_peer": "turbovec",
}  # fmt: skip
# Set for old builds of OpenBLAS on some machines; a current one then runs slower than it can.
_UNSET = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")


def interpreter() -> tuple[Path, str]:
    """(Python of the peers' environment, or this one; what was chosen)."""
    chosen = python_of(VENV)
    return (chosen, VENV.name) if chosen.exists() else (Path(sys.executable), "this environment")


def environment(threads: int) -> dict[str, str]:
    """The child's environment: thread counts fixed, libraries free to choose their kernels."""
    kept = {k: v for k, v in os.environ.items() if k not in _UNSET}
    return kept | {name: str(threads) for name in _THREADS} | {"PYTHONPATH": str(ROOT)}


@dataclass
class Peer:
    """A running child. Raises BackendError from every method when the child fails or does not answer."""

    library: str
    threads: int
    versions: dict[str, Any] = field(default_factory=dict)
    contestants: list[list[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        module = ["-m", "validation.bench.peers.worker", self.library, json.dumps(cpus(self.threads))]
        label = LIBRARIES[self.library]
        self._child = LineProcess(label, [str(interpreter()[0]), *module], environment(self.threads))
        try:
            hello = self.ask({"op": "hello"})
        except BaseException:
            self.close()
            raise
        self.versions, self.contestants = hello["versions"], hello["contestants"]

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """One request, one answer."""
        return self._child.ask(request)

    @property
    def alive(self) -> bool:
        """Whether the child still runs."""
        return self._child.alive

    def close(self) -> None:
        """End the child."""
        self._child.close()


@dataclass
class PeerContestant:
    """One way of a peer to do the step."""

    name: str
    peer: Peer

    def sample(self, calls: int) -> float:
        return float(self.peer.ask({"op": "sample", "name": self.name, "calls": calls})["ns"])


def request_for(name: str, cell: Cell, cold_bytes: int) -> dict[str, Any]:
    """The request that prepares a cell."""
    shape = cell.shape
    return {
        "op": "prepare", "name": name, "n_query_heads": shape.n_query_heads, "n_kv_heads": shape.n_kv_heads,
        "head_dim": shape.head_dim, "tokens": cell.tokens, "threads": cell.threads, "seed": SEED,
        "cold_bytes": cold_bytes if cell.state == "cold" else 0,
    }  # fmt: skip


def prepare(
    peer: Peer, cell: Cell, cold_bytes: int, names: tuple[str, ...]
) -> Iterator[Entry | tuple[str, str, str]]:
    """Entries of a cell, or (name, task, reason) of those that cannot be measured."""
    for name, task in peer.contestants:
        if names and name not in names:
            continue
        try:
            made = peer.ask(request_for(name, cell, cold_bytes))
        except BackendError as error:
            yield name, task, str(error)
            continue
        if "reason" in made:
            yield name, task, made["reason"]
            continue
        contestant: Contestant = PeerContestant(name, peer)
        facts = {"checked": made["checked"], "layers": made["layers"], "backend": LIBRARIES[peer.library]}
        yield Entry(contestant, task, made["payload_bytes"], cell.tokens, facts)
