"""The parts of a step and what surrounds it: scans, append, query, softmax, window, page allocation, Python's calls."""

from __future__ import annotations

from typing import Any

import numpy as np

from tq_core.cache.pool import PagePool
from tq_core.codecs.base import Pages
from tq_core.codecs.fp16 import HalfKeys, HalfValues
from tq_core.kernels.arguments import bind
from tq_core.kernels.cling import load_kernels
from tq_core.kernels.layout import PageLayout
from tq_core.kernels.native import NativeBackend
from tq_core.math.quantize import QUERY_MAX, NormMode
from validation.bench.loops import native_targets, repeated
from validation.bench.ours import Entry, expected, step_arrays
from validation.bench.timing import Timed
from validation.bench.world import World, draw

WINDOW_TOKENS = 128


def _scan_targets() -> list[str]:
    return [t for t in native_targets() if t != "scalar"] or ["scalar"]


def scan_entries(world: World) -> list[Entry]:
    """All key scores, and all value sums, over packed pages, on every vector target."""
    heads, d = world.queries.shape
    random = np.random.default_rng(7)
    query = random.integers(-int(QUERY_MAX), int(QUERY_MAX), (heads, d)).astype(np.int16)
    step = np.full(heads, 1e-6, np.float32)
    scores = np.zeros((heads, world.tokens), np.float32)
    weights = random.dirichlet(np.ones(world.tokens), heads).astype(np.float32)
    streams, entries = dict(world.layout.streams), []
    for target in _scan_targets():
        for side in ("key", "value"):
            stored = {k: v for k, v in world.stored(side).items() if k != "pages"}
            if side == "key":
                burst = repeated(
                    "score_keys",
                    target,
                    world.tables,
                    query=query,
                    step=step,
                    centre_query=query[:, :0].astype(np.float32),
                    scores=scores,
                    **stored,
                )
            else:
                out = np.zeros((heads, d), np.float32)
                burst = repeated("sum_values", target, world.tables, weights=weights, out=out, **stored)
            per_page = world.shape.n_kv_heads * (streams[f"{side}_codes"] + streams[f"{side}_scales"])
            nbytes = per_page * world.tokens // world.layout.page_tokens
            timed = Timed(f"{side}-scan@native-{target}", burst)
            entries.append(
                Entry(timed, f"{side} scan", nbytes, world.tokens, {"backend": f"native-{target}"})
            )
    return entries


def python_entry(world: World, arithmetic: str, target: str, threads: int) -> Entry:
    """The fused step as the cache calls it: checks, Python between the kernels, and the library's own threads."""
    backend = NativeBackend(target)

    def burst(calls: int) -> None:
        for _ in range(calls):
            expected(world, arithmetic, backend, threads)

    alone, together = (expected(world, arithmetic, backend, n).tobytes() for n in (1, threads))
    facts = {
        "backend": f"native-{target}",
        "checked": "same bits" if alone == together else "DIFFERS",
        "calls_from": "Python, checked",
    }
    timed = Timed(f"{arithmetic}-checked@native-{target}", burst)
    return Entry(timed, "decode step", world.payload_bytes, world.tokens, facts)


def append_entries(world: World, target: str) -> list[Entry]:
    """Signs, transform, scale, codes and packing: one token, and a page full of them."""
    per_page, entries = world.layout.page_tokens, []
    pool = world.pool[: world.layout.page_bytes].copy()
    for n in (1, per_page):
        _, keys, values = draw(world.shape, n)
        for side, x, mode in (("key", keys, NormMode.matched), ("value", values, NormMode.min_mse)):
            rotation = world.rotations[side]
            option: dict[str, Any] = {"centre_tokens": 0} if side == "key" else {}
            burst = repeated(
                f"append_{side}s", target, x=x, signs=rotation.signs, hadamard=rotation.hadamard,
                widths=world.widths(side), levels=world.books.levels, book_scale=world.books.scale,
                boundaries=world.books.boundaries, pages=np.zeros(1, np.uint32), layout=world.layout.words,
                pool=pool, norm_mode=int(mode), first=0,
                **option,
            )  # fmt: skip
            timed = Timed(f"append-{side}s-{n}@native-{target}", burst)
            entries.append(Entry(timed, "append", x.nbytes, n, {"backend": f"native-{target}"}))
    return entries


def query_entries(world: World, target: str) -> list[Entry]:
    """Rotation and quantization of a token's queries, and a softmax over all scores at once."""
    arrays, rotation = step_arrays(world), world.rotations["key"]
    heads, backend = len(world.queries), {"backend": f"native-{target}"}
    turn = repeated(
        "rotate", target, x=world.queries, signs=rotation.signs, hadamard=rotation.hadamard, y=arrays["rotated"],
        inverse=0, scale=float(rotation.unit),
    )  # fmt: skip
    quantize = repeated(
        "quantize_query", target, x=world.queries, query=arrays["query"], step=arrays["step"],
        scale=world.scale, limit=float(QUERY_MAX),
    )  # fmt: skip
    scores = np.random.default_rng(3).standard_normal((heads, world.tokens), np.float32)
    soft = repeated("softmax", target, scores=scores, n_tokens=world.tokens)
    return [
        Entry(Timed(f"rotate-queries@native-{target}", turn), "query", world.queries.nbytes, 1, backend),
        Entry(
            Timed(f"quantize-queries@native-{target}", quantize), "query", world.queries.nbytes, 1, backend
        ),
        Entry(Timed(f"softmax@native-{target}", soft), "softmax", scores.nbytes, world.tokens, backend),
    ]


def window_entry(world: World, target: str) -> Entry:
    """The step over a recent window of float16 rows, in the contract's arithmetic."""
    shape, n = world.shape, WINDOW_TOKENS
    codecs = (HalfKeys(), HalfValues())
    streams = (*codecs[0].streams(shape.head_dim), *codecs[1].streams(shape.head_dim))
    layout = PageLayout(shape.n_kv_heads, codecs[0].page_tokens, streams)
    count = n // layout.page_tokens
    pages = Pages(np.zeros(count * layout.page_bytes, np.uint8), np.arange(count, dtype=np.uint32), layout)
    queries, *vectors = draw(shape, n)
    for codec, x in zip(codecs, vectors):
        codec.append(NativeBackend(target), pages, 0, x)
    peak = np.zeros(len(queries), np.float32)
    burst = repeated(
        "attend_half", target, query=queries, pages=pages.table, layout=layout.words, pool=pages.pool, peak=peak,
        total=np.ones_like(peak), out=np.zeros_like(queries), n_kv_heads=shape.n_kv_heads, n_tokens=n, first=0,
        scale=world.scale,
    )  # fmt: skip
    nbytes = layout.payload_bytes * count
    return Entry(
        Timed(f"window-fp16@native-{target}", burst), "window", nbytes, n, {"backend": f"native-{target}"}
    )


def overhead_entries(world: World, target: str) -> list[Entry]:
    """A page from the pool and back; and a fused call without tokens: bare through cppyy, and with all checks."""
    pool = PagePool(world.layout.page_bytes, 2)

    def allocate(calls: int) -> None:
        for _ in range(calls):
            pool.release(pool.allocate())

    made, (heads, d) = step_arrays(world), world.queries.shape
    arguments: dict[str, Any] = {
        "query": made["query"], "step": made["step"], "centre_query": world.queries[:, :0].copy(), "key_widths": world.widths("key"),
        "value_widths": world.widths("value"), "levels": world.books.levels, "book_scale": world.books.scale,
        "pages": world.tables[0], "layout": world.layout.words, "pool": world.pool, "peak": np.zeros(heads, np.float32),
        "total": np.zeros(heads, np.float32), "out": np.zeros((heads, d), np.float32),
        "n_kv_heads": world.shape.n_kv_heads, "n_tokens": 0, "first": 0, "small": 0,
    }  # fmt: skip
    bound = bind("attend_packed", arguments)
    arrays = [a if a.size else np.zeros(1, a.dtype) for a in bound.arrays]  # cppyy refuses empty ones
    raw, fixed = getattr(load_kernels(), target).attend_packed, (*arrays, *bound.sizes, *bound.scalars)
    backend = NativeBackend(target)

    def bare(calls: int) -> None:
        for _ in range(calls):
            raw(*fixed)

    def checked(calls: int) -> None:
        for _ in range(calls):
            backend.call("attend_packed", **arguments)

    return [
        Entry(
            Timed("page-allocation", allocate), "allocator", world.layout.page_bytes, world.layout.page_tokens
        ),
        Entry(Timed("python-call-bare", bare), "call overhead", 0, 1),
        Entry(Timed("python-call-checked", checked), "call overhead", 0, 1),
    ]
