"""The parts of a decode step and of an append, on the pages that a pass has filled.

A fused step has no seam between query, keys and values. Its parts are the separate kernels over the same pages, and
the rows say so. Kernel calls are recorded from the codec and then repeated: in a C++ loop where the backend is native.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tq_core.cache.attention import turbo_step
from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.base import Pages
from tq_core.codecs.fp16 import HalfKeys, HalfValues
from tq_core.kernels.backend import Backend
from tq_core.kernels.layout import PageLayout
from validation.bench.loops import repeated
from validation.bench.protocol.rows import Row, figure, not_measured
from validation.bench.protocol.seams import Clock, Recorder, TimedCache
from validation.bench.timing import Timed
from validation.bench.timing import measure as take

SAMPLE_SECONDS, CALL_LIMIT = 0.005, 20.0
IN_LOOP, IN_PYTHON = "kernel in a C++ loop", "python step"


def part_rows(timed: TimedCache, arm: str, context: int, repeats: int) -> list[Row]:
    """Append, query transform, key scan and value scan of one layer of a filled cache."""
    cache, layer = timed.cache, timed.layer
    store = cache.stores["recent" if cache.arm.window is None else "packed"]
    n_tokens = store.count(layer)
    scans = ("query-transform time", "key-scan time", "value-scan time")
    if n_tokens == 0 or timed.queries is None:
        reason = f"no token of {context} has left the float16 window"
        return [
            append_row(cache, arm, context, repeats, timed.clock),
            *(not_measured(w, arm, context, reason) for w in scans),
        ]
    backend, query = cache.backend, timed.queries
    scale = float(np.float32(query.shape[1] ** -0.5))
    weights = np.random.default_rng(1).dirichlet(np.ones(n_tokens), len(query)).astype(np.float32)
    scores, out = np.zeros((len(query), n_tokens), np.float32), np.zeros_like(query)
    pages = store.pages(layer)

    def keys(through: Backend) -> None:
        store.keys.scores(through, query, scale, pages, n_tokens, scores, 0)

    def values(through: Backend) -> None:
        store.values.weighted_sum(through, weights, pages, n_tokens, 0, out)

    fused = turbo_step.fusable(store.keys, store.values) is not None
    said = f"layer {layer}, {n_tokens} tokens in pages" + (
        "" if cache.arm.window is None else ", without the window"
    )
    if fused:
        said += "; the arm's own step fuses query, keys and values, these are separate kernels over its pages"
    found: dict[str, Row] = {}
    turns: list[tuple[str, dict[str, Any]]] = []
    for what, side, prefix in (("key-scan time", keys, "score"), ("value-scan time", values, "sum")):
        recorder = Recorder(backend)
        side(recorder)
        scans_made = [c for c in recorder.calls if c[0].startswith(prefix)]
        turns += [c for c in recorder.calls if not c[0].startswith(prefix)]
        if scans_made:
            samples, where = _kernel_samples(scans_made, backend, repeats, timed.clock)
            found[what] = figure(what, arm, context, samples, where, f"{said}; {_names(scans_made)}")
        else:
            note = f"{said}; this codec scans in numpy, its query transform is in the figure"
            samples = _python_samples(lambda side=side: side(backend), repeats, timed.clock)  # type: ignore[misc]
            found[what] = figure(what, arm, context, samples, IN_PYTHON, note)
    what = scans[0]
    if turns:
        samples, where = _kernel_samples(turns, backend, repeats, timed.clock)
        note = f"{said}; queries to the codes' basis and sums back: {_names(turns)}"
        found[what] = figure(what, arm, context, samples, where, note)
    else:
        found[what] = not_measured(what, arm, context, "no kernel turns a query of this arm")
    return [append_row(cache, arm, context, repeats, timed.clock), *(found[w] for w in scans)]


def append_row(cache: PagedCache, arm: str, context: int, repeats: int, clock: Clock) -> Row:
    """Encoding a flush group of drawn tokens into an empty page, keys and values together."""
    coded = cache.arm.window is not None
    codecs: tuple[Any, Any] = (
        (cache.arm.key_codec, cache.arm.value_codec) if coded else (HalfKeys(), HalfValues())
    )
    shape, n = cache.shape, max(cache.arm.flush_tokens, 1)
    streams = codecs[0].streams(shape.head_dim) + codecs[1].streams(shape.head_dim)
    layout = PageLayout(shape.n_kv_heads, codecs[0].page_tokens, streams)
    table = np.arange(-(-n // layout.page_tokens), dtype=np.uint32)
    pages = Pages(np.zeros(len(table) * layout.page_bytes, np.uint8), table, layout, 0, cache.arm.sinks)
    random = np.random.default_rng(2)
    tokens = [random.standard_normal((n, shape.n_kv_heads, shape.head_dim), np.float32) for _ in codecs]

    def append() -> None:
        for codec, x in zip(codecs, tokens):
            codec.append(cache.backend, pages, 0, x)

    note = f"{n} token{'s' * (n > 1)} at once, keys and values"
    samples = [x / n for x in _python_samples(append, repeats, clock)]
    return figure("append-only codec time", arm, context, samples, IN_PYTHON, note)


def _names(calls: list[tuple[str, dict[str, Any]]]) -> str:
    return ", ".join(dict.fromkeys(name for name, _ in calls))


def _python_samples(step: Callable[[], None], repeats: int, clock: Clock) -> list[float]:
    """Microseconds of a Python call, one sample per round."""

    def burst(calls: int) -> None:
        for _ in range(calls):
            step()

    return _samples([Timed("part", burst, clock)], repeats)


def _kernel_samples(
    calls: list[tuple[str, dict[str, Any]]], backend: Backend, repeats: int, clock: Clock
) -> tuple[list[float], str]:
    """(microseconds of all calls together, one sample per round; where that was measured)."""
    if not backend.name.startswith("native-"):

        def run() -> None:
            for kernel, arguments in calls:
                backend.call(kernel, **arguments)

        return _python_samples(run, repeats, clock), f"{IN_PYTHON}, {backend.name}"
    target = backend.name.removeprefix("native-")
    bursts = [Timed(kernel, repeated(kernel, target, **arguments), clock) for kernel, arguments in calls]
    return _samples(bursts, repeats), IN_LOOP


def _samples(timed: list[Timed], repeats: int) -> list[float]:
    found = take(timed, repeats, SAMPLE_SECONDS, CALL_LIMIT)
    if any(s.reason for s in found):
        return []
    return [sum(ns) / 1000 for ns in zip(*(s.ns for s in found))]
