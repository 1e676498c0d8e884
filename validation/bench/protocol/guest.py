"""The same shape and length with the pages in WebAssembly's linear memory: how often that memory grew, and how far."""

from __future__ import annotations

import numpy as np

from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.arms import Arm
from tq_core.errors import TqError
from tq_core.kernels.hosts import HOSTS, host_statuses
from tq_core.kernels.wasm import WasmBackend
from tq_core.shapes import ModelShape
from validation.bench.protocol.rows import Row, figure, not_measured

WHATS = ("WASM memory-growth events", "peak WASM pages")
WASM_PAGE, CHUNK = 65536, 256


def guest_rows(shape: ModelShape, arm: Arm, context: int) -> list[Row]:
    """Both rows; drawn tokens go through every layer, then one token's attention."""
    for status in host_statuses():
        if status.available and not HOSTS[status.name].command:
            break
    else:
        reason = "no WebAssembly host in this process; `tq doctor` says what is missing"
        return [not_measured(what, arm.name, context, reason) for what in WHATS]
    try:
        backend = WasmBackend("simd128", HOSTS[status.name])
        try:
            return _fill(backend, shape, arm, context)
        finally:
            backend.discard()
    except (TqError, MemoryError) as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        return [not_measured(what, arm.name, context, reason) for what in WHATS]


def _fill(backend: WasmBackend, shape: ModelShape, arm: Arm, context: int) -> list[Row]:
    random = np.random.default_rng(3)
    heads = (shape.n_query_heads, shape.n_kv_heads, shape.n_kv_heads)
    queries, keys, values = (random.standard_normal((CHUNK, h, shape.head_dim), np.float32) for h in heads)
    cache = PagedCache(shape, arm, backend, threads=1)
    for start in range(0, context - 1, CHUNK):
        n = min(CHUNK, context - 1 - start)
        with cache.step():
            for layer in range(shape.n_layers):
                cache.append(layer, keys[:n], values[:n])
    for layer in range(shape.n_layers):
        cache.attend(layer, queries[:1], keys[:1], values[:1])
    instance, where = backend.instance(), f"resident pages, {backend.name}"
    note = f"{cache.live_tokens} drawn tokens in {shape.n_layers} layers, one token's attention at the end"
    found = (backend.growth_events, -(-instance.memory_bytes // WASM_PAGE))
    return [figure(what, arm.name, context, [x], where, note) for what, x in zip(WHATS, found)]
