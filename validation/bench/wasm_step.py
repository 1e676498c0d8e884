"""The decode step in WebAssembly: the same kernel calls as the native step, through every host and through node.

Buffers are placed once in linear memory. A step is then a list of operations on addresses: copy (to, from, bytes), which
resets the softmax states, and call (kernel, arguments).
"""

from __future__ import annotations

import base64
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tq_core.codecs.turbo_step import LOG2_E, chunk_pages
from tq_core.errors import BackendError, TqError
from tq_core.kernels.hosts import HOSTS, get_host, host_statuses
from tq_core.kernels.table import KERNELS
from tq_core.kernels.wasm import module_dir, read_module
from tq_core.kernels.wasm_memory import place
from tq_core.math.quantize import QUERY_MAX
from tq_core.show.lines import LineProcess
from tq_core.show.node_step import NODE_FLAGS
from validation.bench.ours import Entry, step_arrays
from validation.bench.timing import Timed
from validation.bench.world import World

NODE_SCRIPT = Path(__file__).with_name("node_step.mjs")
Operation = list[Any]
Missing = tuple[str, str, str]


@dataclass(frozen=True)
class Program:
    """Buffers by address, and the operations of one step for every layer."""

    writes: list[tuple[int, np.ndarray]]
    steps: list[list[Operation]]
    memory_bytes: int
    output: tuple[int, int]  # address and bytes


def _call(name: str, at: dict[str, int], sizes: dict[str, int], scalars: Mapping[str, float]) -> Operation:
    kernel = KERNELS[name]
    values = [at[a.name] for a in kernel.args] + [sizes[s] for s in kernel.sizes]
    return ["call", name, [*values, *(scalars[s.name] for s in kernel.scalars)]]


def program(world: World, heap_base: int) -> Program:
    """The exact step for linear memory that begins at ``heap_base``. Raises KernelError beyond 4 GiB."""
    made, (heads, d) = step_arrays(world), world.queries.shape
    per_chunk = chunk_pages(world.tokens, world.layout.page_tokens)
    chunks, per = len(made["peaks"]), per_chunk * world.layout.page_tokens
    state = [made[name].reshape(-1) for name in ("peaks", "totals", "outs")]
    for array, value in zip(state, (-np.inf, 0.0, 0.0)):
        array[:] = value
    fresh = np.concatenate(state)
    arrays: dict[str, np.ndarray] = {
        "x": world.queries, "levels": world.books.levels, "book_scale": world.books.scale, "pages": world.tables,
        "layout": world.layout.words, "pool": world.pool, "state": fresh, "fresh": fresh, "plain": made["outs"],
        **{name: made[name] for name in ("rotated", "query", "step", "y")},
    }  # fmt: skip
    for side in ("key", "value"):
        arrays |= {f"{side}_widths": world.widths(side), f"{side}_signs": world.rotations[side].signs}
    arrays["hadamard"] = world.rotations["key"].hadamard
    flat = {name: np.ascontiguousarray(a).reshape(-1).view(np.uint8) for name, a in arrays.items()}
    placed = place([a.nbytes for a in flat.values()], heap_base)
    at = dict(zip(flat, placed.addresses))
    totals_at = at["state"] + state[0].nbytes
    outs_at, order = totals_at + state[1].nbytes, len(arrays["hadamard"])
    unit = float(world.rotations["key"].unit)

    def rotate(x: int, y: int, side: str, n: int, inverse: int) -> Operation:
        where = {"x": x, "signs": at[f"{side}_signs"], "hadamard": at["hadamard"], "y": y}
        return _call("rotate", where, {"n": n, "d": d, "m": order}, {"inverse": inverse, "scale": unit})

    quantize = _call(
        "quantize_query",
        {**at, "x": at["rotated"]},
        {"q": heads, "d": d},
        {"scale": world.scale * LOG2_E, "limit": float(QUERY_MAX)},
    )
    merge = _call(
        "merge_states", {"peaks": at["state"], "totals": totals_at, "outs": at["plain"], "sink": at["y"], "y": at["y"]},
        {"c": chunks, "q": heads, "d": d, "k": 0}, {},
    )  # fmt: skip
    steps = []
    for layer in range(world.layers):
        ops: list[Operation] = [["copy", at["state"], at["fresh"], fresh.nbytes]]
        ops += [rotate(at["x"], at["rotated"], "key", heads, 0), quantize]
        for c in range(chunks):
            table = at["pages"] + 4 * (layer * world.tables.shape[1] + c * per_chunk)
            where = {"pages": table, "peak": at["state"] + 4 * c * heads, "total": totals_at + 4 * c * heads}
            sizes = {
                "q": heads,
                "d": d,
                "e": 0,
                "g": d // 16,
                "w": len(world.books.scale),
                "p": world.tables.shape[1],
                "b": world.pool.size,
            }
            scalars = {
                "n_kv_heads": world.shape.n_kv_heads,
                "n_tokens": min(per, world.tokens - c * per),
                "first": 0,
                "small": 0,
            }
            ops.append(
                _call(
                    "attend_packed",
                    {**at, **where, "centre_query": at["y"], "out": outs_at + 4 * c * heads * d},
                    sizes,
                    scalars,
                )
            )
        steps.append([*ops, rotate(outs_at, at["plain"], "value", chunks * heads, 1), merge])
    writes = list(zip(placed.addresses, flat.values()))
    return Program(writes, steps, placed.end, (at["y"], made["y"].nbytes))


def host_runner(
    world: World, host_name: str, target: str
) -> tuple[Callable[[int], None], Callable[[], bytes], Callable[[], None]]:
    """(burst, output, close) on a Python host. Raises BackendError or KernelError."""
    host = get_host(host_name)
    instance = host.load(
        read_module(target, host.command, module_dir(), KERNELS), KERNELS, f"wasm-{target}@{host_name}"
    )
    made = program(world, instance.heap_base)
    instance.grow(made.memory_bytes)
    for address, data in made.writes:
        instance.transact([(address, data)], None, (), [])
    data_at, position = dict(made.writes), 0
    steps = []
    for ops in made.steps:
        (_, to, source, _), *calls = ops
        pending = [(to, data_at[source])]  # the copy travels with the first call
        steps.append(
            [
                (pending if i == 0 else [], KERNELS[name], tuple(values))
                for i, (_, name, values) in enumerate(calls)
            ]
        )

    def burst(calls: int) -> None:
        nonlocal position
        for _ in range(calls):
            for writes, kernel, values in steps[position % len(steps)]:
                instance.transact(writes, kernel, values, [])
            position += 1

    return burst, lambda: instance.transact([], None, (), [made.output])[0].tobytes(), instance.close


class NodeContestant:
    """The step in node: V8, without Python between the calls."""

    def __init__(self, world: World, target: str) -> None:
        self.name = f"wasm-{target}@node"
        node = shutil.which("node")
        if node is None:
            raise BackendError("node: not installed")
        module = module_dir() / f"tq_{target}.wasm"
        read_module(target, False, module_dir(), KERNELS)
        self._child = LineProcess("node", [node, *NODE_FLAGS, str(NODE_SCRIPT)], dict(os.environ))
        hello = self._child.ask({"op": "load", "module": str(module)})
        self.version, made = hello["version"], program(world, int(hello["heap_base"]))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "data"
            with path.open("wb") as file:
                for _, data in made.writes:
                    file.write(data.data)
            ranges = [[address, data.nbytes] for address, data in made.writes]
            prepared = {
                "op": "prepare",
                "data": str(path),
                "ranges": ranges,
                "memory": made.memory_bytes,
                "steps": made.steps,
            }
            self._child.ask(prepared)
        self._output = made.output

    def sample(self, calls: int) -> float:
        return float(self._child.ask({"op": "sample", "calls": calls})["ns"])

    def output(self) -> bytes:
        address, nbytes = self._output
        return base64.b64decode(
            self._child.ask({"op": "read", "address": address, "nbytes": nbytes})["bytes"]
        )

    def close(self) -> None:
        self._child.close()


def wasm_entries(
    world: World, want: bytes, target: str, cold: bool
) -> tuple[list[Entry], list[Missing], list[Callable[[], None]]]:
    """(contestants, what is missing and why, what to call afterwards). ``want`` is the native step's output."""
    entries: list[Entry] = []
    missing: list[Missing] = []
    closers: list[Callable[[], None]] = []

    def add(name: str, contestant: Any, output: bytes, version: str) -> None:
        checked = "same bits" if output == want else "DIFFERS"
        facts = {"checked": checked, "backend": name, "version": version}
        entries.append(Entry(contestant, "decode step", world.payload_bytes, world.tokens, facts))

    for status in host_statuses():
        name = f"wasm-{target}@{status.name}"
        if not status.available:
            missing.append((name, "decode step", status.reason))
            continue
        if cold and HOSTS[status.name].command:
            missing.append((name, "decode step", "its memory is behind a pipe: measured warm only"))
            continue
        try:
            burst, output, close = host_runner(world, status.name, target)
            closers.append(close)
            burst(1)
            add(name, Timed(name, burst), output(), status.version)
        except TqError as error:
            missing.append((name, "decode step", str(error)))
    try:
        node = NodeContestant(world, target)
        closers.append(node.close)
        node.sample(1)
        add(node.name, node, node.output(), node.version)
    except TqError as error:
        missing.append((f"wasm-{target}@node", "decode step", str(error)))
    return entries, missing, closers
