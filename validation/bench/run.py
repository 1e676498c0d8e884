"""One run: cell after cell, in each of them every contestant in turn."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

from tq_core.errors import BackendError
from tq_core.kernels.native import NativeBackend
from validation.bench import bandwidth, machine, parts, rows, targets
from validation.bench.loops import native_targets
from validation.bench.ours import SCALAR_TOKENS_MAX, Entry, decode_entries, expected, half_bytes
from validation.bench.peers import client
from validation.bench.plan import Cell, Plan, layers_for
from validation.bench.timing import measure
from validation.bench.wasm_step import wasm_entries
from validation.bench.world import World, build, draw

Progress = Callable[[str, int, int], None]
SCHEMA = {"name": "tq-bench", "version": 1}
PROTOCOL = (
    "Per cell every contestant is warmed up and its calls per burst are fixed; then each round takes one burst of "
    "everybody, in an order that turns around every round and shifts every other. One untimed call precedes a burst. "
    "Figures are medians over rounds with the median absolute deviation; ratios are medians of ratios within rounds. "
    "Kernels are repeated inside C++ or the guest's engine; peers run in child processes with the same protocol. "
    "warm: one layer again and again. cold: layers in turn that together exceed the last-level cache several times."
)


class Run:
    """State of a run; ``result`` is what goes to the JSON file."""

    def __init__(self, plan: Plan, progress: Progress) -> None:
        self.plan, self._progress = plan, progress
        self.rows: list[rows.Row] = []
        self.missing: list[rows.Row] = []
        self.compared: list[rows.Row] = []
        self.versions: dict[str, Any] = {}
        self.best = native_targets()[-1]
        self.base = f"exact@native-{self.best}"
        self._peers: dict[tuple[str, int], client.Peer | str] = {}
        self._start = time.monotonic()
        self._limit = f"the run's time limit of {plan.time_limit:g} s was over"

    def result(self) -> dict[str, Any]:
        """Measure everything. Raises BackendError when the kernels cannot be compiled here."""
        facts = machine.facts()
        self._progress("bandwidth", 0, 1)
        read = bandwidth.read_all(self.plan)
        cells = list(self.plan.cells())
        try:
            for i, cell in enumerate(cells):
                self._progress(
                    f"cells {cell.shape.name}, {cell.tokens} tokens, {cell.threads} threads, {cell.state}",
                    i,
                    len(cells),
                )
                if self._late:
                    self.missing.append(rows.not_measured(cell, "all", "all", self._limit))
                    continue
                self.cell(cell)
        finally:
            for peer in self._peers.values():
                if isinstance(peer, client.Peer):
                    peer.close()
        self._progress("cells", len(cells), len(cells))
        ratios, where = rows.reference_ratios(self.compared, self.base)
        one = min(self.plan.threads)
        facts["versions"] |= self.versions
        facts["host"]["load_after"] = machine.load()
        return {
            "schema": SCHEMA,
            "read_bandwidth_gbs": bandwidth.best(read, one),
            "read_bandwidth_by_threads": {str(t): bandwidth.best(read, t) for t in self.plan.threads},
            "read_bandwidth_ways": [asdict(b) for b in read],
            "rows": self.rows,
            "not_measured": self.missing,
            "ratios": ratios,
            "ratios_at": {**where, "base": self.base},
            "comparisons": self.compared,
            "goals": targets.evaluate(self.rows, bandwidth.best(read, one), f"native-{self.best}"),
            **facts,
            "protocol": PROTOCOL,
            "plan": self.plan.as_dict(),
            "peer_environment": client.interpreter()[1],
            "seconds": round(machine.seconds_since(self._start), 1),
        }

    def cell(self, cell: Cell) -> None:
        """Build the data, let everybody prepare, measure group by group."""
        cold, cache = self.plan.cold_bytes, machine.last_level_cache()
        backend = NativeBackend(self.best)
        with ExitStack() as stack, machine.pinned(cell.threads):
            world = build(cell, cold, cache, backend)
            entries = decode_entries(world, cell, layers_for(cell.state, half_bytes(cell), cold, cache))
            others: list[Entry] = []
            entries.append(parts.python_entry(world, "exact", self.best, cell.threads))
            if cell.threads == 1:
                if self.plan.wasm:
                    entries += self._wasm(world, cell, backend, stack)
                if self.plan.parts:
                    others = self._parts(world, cell)
            if self.plan.peers and cell.threads in self.plan.peer_threads:
                entries += self._ask_peers(cell, max(cold, cache * 8))
            draw.cache_clear()
            scans = [e for e in [*entries, *others] if "scan" in e.task]
            decode = [e for e in entries if e.task == rows.DECODE]
            rest = [e for e in others if "scan" not in e.task]
            for group in (decode, scans, rest):
                self._measure(cell, group)
        for (_, threads), peer in self._peers.items():
            if threads == cell.threads and isinstance(peer, client.Peer):
                self._ask(peer, "release")

    @property
    def _late(self) -> bool:
        return machine.seconds_since(self._start) > self.plan.time_limit

    def _measure(self, cell: Cell, entries: list[Entry]) -> None:
        plan = self.plan
        if self._late and entries:
            self.missing.append(rows.not_measured(cell, "all", entries[0].task, self._limit))
            return
        samples = measure([e.contestant for e in entries], plan.repeats, plan.sample_seconds, plan.call_limit)
        for entry, found in zip(entries, samples):
            if found.reason:
                self.missing.append(rows.not_measured(cell, found.name, entry.task, found.reason))
            else:
                self.rows.append(rows.row(cell, entry, found))
        self.compared += rows.comparisons(cell, entries, samples, self.base)

    def _parts(self, world: World, cell: Cell) -> list[Entry]:
        found = parts.scan_entries(world)
        if cell.state == "warm":
            found += [*parts.query_entries(world, self.best), parts.window_entry(world, self.best)]
            found += [*parts.append_entries(world, self.best), *parts.overhead_entries(world, self.best)]
        return found

    def _wasm(self, world: World, cell: Cell, backend: NativeBackend, stack: ExitStack) -> list[Entry]:
        want, found = expected(world, "exact", backend).tobytes(), []
        wanted = ("simd128", "scalar") if cell.tokens <= SCALAR_TOKENS_MAX else ("simd128",)
        for target in wanted:
            entries, missing, closers = wasm_entries(world, want, target, cell.state == "cold")
            found += entries
            self.missing += [rows.not_measured(cell, *m) for m in missing]
            for close in closers:
                stack.callback(close)
            self.versions |= {e.contestant.name.split("@")[1]: e.facts["version"] for e in entries}
        return found

    def _ask_peers(self, cell: Cell, cold_bytes: int) -> list[Entry]:
        found = []
        for library, label in client.LIBRARIES.items():
            peer = self._peer(library, cell.threads)
            if isinstance(peer, str):
                self.missing.append(rows.not_measured(cell, label, "all", peer))
                continue
            for made in client.prepare(peer, cell, cold_bytes, self.plan.peer_names):
                if isinstance(made, Entry):
                    found.append(made)
                else:
                    self.missing.append(rows.not_measured(cell, *made))
            self._ask(peer, "begin")
        return found

    def _peer(self, library: str, threads: int) -> client.Peer | str:
        """A child that runs, or why there is none. One that ended is started again for the next cell."""
        key = (library, threads)
        known = self._peers.get(key)
        if known is None or (isinstance(known, client.Peer) and not known.alive):
            try:
                self._peers[key] = client.Peer(library, threads)
            except BackendError as error:
                self._peers[key] = f"{error} (`make bench-peers` installs the peers)"
        made = self._peers[key]
        if isinstance(made, client.Peer):
            self.versions |= made.versions
        return made

    @staticmethod
    def _ask(peer: client.Peer, operation: str) -> None:
        if peer.alive:
            peer.ask({"op": operation})


def run(plan: Plan, progress: Progress = lambda what, done, total: None) -> dict[str, Any]:
    """Carry out a plan; returns what goes to bench.json. Raises BackendError when the kernels cannot be compiled."""
    return Run(plan, progress).result()
