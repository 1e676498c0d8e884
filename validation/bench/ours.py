"""Our own contestants for the decode step: the fused kernel on native targets, its oracle, and plain float16."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tq_core.codecs import turbo_step
from tq_core.errors import BackendError
from tq_core.kernels.backend import Backend
from tq_core.kernels.native import NativeBackend
from tq_core.math.quantize import QUERY_MAX, SMALL_MAX
from validation.bench import compiled
from validation.bench.loops import FLOAT_TARGETS, Burst, load_bench, native_targets, rotating
from validation.bench.plan import Cell
from validation.bench.timing import Contestant, Timed
from validation.bench.world import F32, World, draw

ORACLE_TOKENS_MAX, SCALAR_TOKENS_MAX = 8192, 1024  # there to be compared with, not to be fast

CHECK_TOKENS_MAX = 8192


@dataclass
class Entry:
    """A contestant with what is known of it: bytes that one call reads, what it does, whether its result was checked."""

    contestant: Contestant
    task: str
    payload_bytes: int
    tokens: int
    facts: dict[str, Any] = field(default_factory=dict)


def step_arrays(world: World) -> dict[str, np.ndarray]:
    """Arrays that a step writes: rotated and quantized queries, a softmax state per chunk, the output."""
    heads, d = world.queries.shape
    chunks = turbo_step.chunk_count(world.tokens, world.layout.page_tokens)
    return {
        "rotated": np.empty((heads, d), np.float32),
        "query": np.empty((heads, d), np.int16),
        "step": np.empty(heads, np.float32),
        "peaks": np.empty((chunks, heads), np.float32),
        "totals": np.empty((chunks, heads), np.float32),
        "outs": np.empty((chunks, heads, d), np.float32),
        "y": np.zeros((heads, d), np.float32),
    }


def _common(world: World) -> list[np.ndarray]:
    keys, values = (world.rotations[side] for side in ("key", "value"))
    arrays: list[np.ndarray] = [
        world.queries,
        keys.signs,
        values.signs,
        keys.hadamard,
        world.widths("key"),
        world.widths("value"),
    ]
    arrays += [world.books.levels, world.books.scale, world.tables, world.layout.words, world.pool]
    return [np.ascontiguousarray(a).reshape(-1) for a in arrays[:-1]] + [arrays[-1]]


def native_step(
    world: World, target: str, small: bool, threads: int, compiler: str = "cling"
) -> tuple[Burst, F32]:
    """(burst of fused steps, array that receives the output). ``compiler`` "g++" ignores the target: see compiled.py."""
    made, (heads, d) = step_arrays(world), world.queries.shape
    sizes = (heads, d, len(world.rotations["key"].hadamard), world.tables.shape[1], world.pool.size)
    numbers = (
        world.shape.n_kv_heads,
        world.tokens,
        turbo_step.chunk_pages(world.tokens, world.layout.page_tokens),
        int(small),
    )
    floats = (
        float(world.rotations["key"].unit),
        world.scale * turbo_step.LOG2_E,
        float(SMALL_MAX if small else QUERY_MAX),
    )
    arrays = [*_common(world), *(a.reshape(-1) for a in made.values())]
    if compiler == "g++":
        call = compiled.step_call(arrays, sizes, numbers, floats)
        return rotating(lambda calls, first: call(calls, first, world.layers, threads), world.layers), made[
            "y"
        ]
    decode = getattr(load_bench(), target).decode

    def run(calls: int, first: int) -> None:
        decode(calls, first, world.layers, threads, *arrays, *sizes, *numbers, *floats)

    return rotating(run, world.layers), made["y"]


def oracle_step(world: World, target: str) -> tuple[Burst, F32]:
    """The float32 step: all scores, softmax, sums."""
    heads, d = world.queries.shape
    made = [np.empty((heads, n), np.float32) for n in (d, world.tokens, d, d)]
    sizes = (heads, d, len(world.rotations["key"].hadamard), world.tables.shape[1], world.pool.size)
    floats = (float(world.rotations["key"].unit), world.scale)
    arrays = [*_common(world), *(a.reshape(-1) for a in made)]
    decode = getattr(load_bench(), target).decode_f32

    def run(calls: int, first: int) -> None:
        decode(calls, first, world.layers, *arrays, *sizes, world.shape.n_kv_heads, world.tokens, *floats)

    return rotating(run, world.layers), made[-1]


def half_data(world: World, layers: int) -> list[np.ndarray]:
    """Keys and values as float16 in the layout of cpp/bench/half_attention.h, each (layers * n_kv_heads * n_tokens * head_dim,)."""
    (_, keys, values), t = draw(world.shape, world.tokens), world.tokens
    h, d = world.shape.n_kv_heads, world.shape.head_dim
    k = keys.astype(np.float16).reshape(t // 32, 32, h, d).transpose(2, 0, 3, 1)
    v = values.astype(np.float16).reshape(t // 128, 128, h, d // 64, 64).transpose(2, 0, 3, 1, 4)
    stacks = [np.empty((layers, h, t * d), np.float16) for _ in range(2)]
    for stack, x in zip(stacks, (k, v)):
        stack[:] = x.reshape(h, t * d)
    return [stack.reshape(-1).view(np.uint16) for stack in stacks]


def half_step(
    world: World, target: str, data: list[np.ndarray], layers: int, threads: int
) -> tuple[Burst, F32]:
    """Attention over float16 rows with the benchmark's own kernel."""
    out = np.zeros(world.queries.shape, np.float32)
    arrays = [world.queries.reshape(-1), *data, out.reshape(-1)]
    attend = getattr(load_bench(), target).half_attend

    def run(calls: int, first: int) -> None:
        attend(
            calls,
            first,
            layers,
            threads,
            *arrays,
            *out.shape,
            world.shape.n_kv_heads,
            world.tokens,
            world.scale * turbo_step.LOG2_E,
        )

    return rotating(run, layers), out


def expected(world: World, arithmetic: str, backend: Backend, threads: int = 1) -> F32:
    """What the library's checked path gives for layer 0."""
    keys, values = world.codecs(arithmetic)
    history = (world.pages(), world.tokens)
    states = turbo_step.attend(backend, keys, values, world.queries, world.scale, *history, threads)
    out = np.zeros_like(world.queries)
    none = np.zeros((0, len(out)), np.float32)
    backend.call("merge_states", peaks=states[0], totals=states[1], outs=states[2], sink=none, y=out)
    return out


def decode_entries(world: World, cell: Cell, half_layers: int) -> list[Entry]:
    """Native contestants of a cell; each has been run once and its output compared before it is handed out."""
    targets = native_targets()
    best, backend = targets[-1], NativeBackend(targets[-1])
    entries = []

    def add(name: str, burst: Burst, payload: int, checked: str, **facts: Any) -> None:
        entries.append(
            Entry(Timed(name, burst), "decode step", payload, cell.tokens, {"checked": checked, **facts})
        )

    want = {kind: expected(world, kind, backend) for kind in ("exact", "fast")}
    chosen = [(best, "exact"), (best, "fast")] + [("avx2", k) for k in want if "avx2" in targets[:-1]]
    for target, kind in [*chosen, ("scalar", "exact")]:
        if target == "scalar" and (cell.threads > 1 or cell.tokens > SCALAR_TOKENS_MAX):
            continue
        burst, y = native_step(world, target, kind == "fast", cell.threads)
        burst(1)
        same = y.tobytes() == want[kind].tobytes()
        name = f"{kind}@native-{target}"
        add(name, burst, world.payload_bytes, "same bits" if same else "DIFFERS", backend=f"native-{target}")
    for name, burst, y, facts in _side_by_side(world, cell):
        burst(1)
        same = y.tobytes() == want["exact"].tobytes()
        add(name, burst, world.payload_bytes, "same bits" if same else "DIFFERS", **facts)
    if cell.threads == 1 and cell.tokens <= ORACLE_TOKENS_MAX:
        burst, y = oracle_step(world, best)
        burst(1)
        error = relative_error(y, want["exact"])
        add(
            f"f32-oracle@native-{best}",
            burst,
            world.payload_bytes,
            f"relative error {error:.1e} to exact",
            backend=f"native-{best}",
        )
    float_targets = [target for target in FLOAT_TARGETS if target in targets]
    data = half_data(world, half_layers) if float_targets else []
    for target in float_targets:
        burst, y = half_step(world, target, data, half_layers, cell.threads)
        checked = "not compared"
        if cell.tokens <= CHECK_TOKENS_MAX:
            burst(1)
            checked = f"relative error {relative_error(y, plain_attention(world)):.1e} to float32"
        add(f"own-fp16@{target}", burst, half_bytes(cell), checked, backend=f"native-{target}")
    return entries


def _side_by_side(world: World, cell: Cell) -> Iterator[tuple[str, Burst, F32, dict[str, Any]]]:
    """The exact step in registers of 128 bits (what SIMD128 is judged by), and compiled ahead of time by g++."""
    if cell.threads > 1:
        return
    if "avx2" in native_targets():
        yield "exact@native128", *native_step(world, "native128", False, 1), {"backend": "native-128-bit"}
    try:
        _, target, version = compiled.library()
    except BackendError:
        return
    yield (
        "exact@g++",
        *native_step(world, target, False, 1, "g++"),
        {"backend": f"native-{target}", "version": version},
    )


def half_bytes(cell: Cell) -> int:
    """Bytes of a layer's keys and values as float16."""
    return 4 * cell.tokens * cell.shape.n_kv_heads * cell.shape.head_dim


def plain_attention(world: World) -> F32:
    """Attention in numpy over the vectors before they were encoded."""
    queries, keys, values = draw(world.shape, world.tokens)
    h, d = world.shape.n_kv_heads, world.shape.head_dim
    scores = np.matmul(queries.reshape(h, -1, d), keys.transpose(1, 2, 0)) * np.float32(world.scale)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return np.matmul(weights, values.transpose(1, 0, 2)).reshape(queries.shape)


def relative_error(got: F32, want: F32) -> float:
    """Largest difference over largest magnitude."""
    return float(np.abs(got - want).max() / np.abs(want).max())
