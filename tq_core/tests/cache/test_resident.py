"""A cache whose pages live in a wasm module's linear memory: numpy's bits, no copies of pages, a steady size."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tq_core.cache.paged_cache import PagedCache
from tq_core.cache.saved import load_cache, save_cache
from tq_core.kernels.backend import NumpyBackend, backend_statuses, get_backend
from tq_core.kernels.hosts import HOSTS
from tq_core.kernels.wasm import WasmBackend
from tq_core.kernels.wasm_arena import region_of
from tq_core.kernels.wasm_memory import GROWTH_BYTES
from tq_core.tests.cache.savings import identity_of
from tq_core.tests.cache.test_saved import logical_pages
from tq_core.tests.cache.worlds import SHAPE, arm, tokens

pytestmark = pytest.mark.kernels

ARMS: dict[str, tuple[str, dict[str, Any]]] = {
    "fp16": ("fp16", {}),
    "turbo": ("structured-turbo", {"window": 20, "sinks": 3}),
    "turbo fast": ("structured-turbo", {"window": 20, "sinks": 3, "arithmetic": "fast", "key_bits": 2.5}),
    "kivi": ("kivi-control", {"window": 20, "sinks": 3}),
}


@pytest.fixture(params=["wasmer", "wasmtime"])
def backend(request: pytest.FixtureRequest) -> Iterator[WasmBackend]:
    """A fresh backend on each host in this process."""
    status = next(s for s in backend_statuses() if s.name == f"wasm-simd128@{request.param}")
    if not status.available:
        pytest.skip(f"not exercised: {status.reason}")
    made = WasmBackend("simd128", HOSTS[request.param])
    yield made
    made.discard()


def is_resident(cache: PagedCache, backend: WasmBackend) -> bool:
    return all(region_of(s.pool.buffer, backend.instance()) is not None for s in cache.store_list)


@pytest.mark.parametrize(
    "name", ["fp16", *(pytest.param(n, marks=pytest.mark.slow) for n in ARMS if n != "fp16")]
)
def test_a_session_has_the_bits_of_numpy(backend: WasmBackend, name: str, tmp_path: Path) -> None:
    """Prompt, decode steps over page edges, a fork that goes its own way, rollback, a file, reset."""
    kind, options = ARMS[name]
    ours, theirs = (PagedCache(SHAPE, arm(kind, **options), b) for b in (backend, NumpyBackend()))
    q, k, v = tokens(330)

    def step(a: int, b: int, *pair: PagedCache) -> None:
        for layer in range(SHAPE.n_layers):
            for cache in pair:
                cache.append(layer, k[a : b - 1], v[a : b - 1])
            x, y = (c.attend(layer, q[b - 1 : b], k[b - 1 : b], v[b - 1 : b]) for c in pair)
            assert x.tobytes() == y.tobytes()
            assert pair[0].scores(layer, q[a]).tobytes() == pair[1].scores(layer, q[a]).tobytes()
        assert logical_pages(pair[0]) == logical_pages(pair[1])
        assert pair[0].buffers() == pair[1].buffers()  # the ledger of linear memory is that of a heap
        assert pair[0].ledger() == pair[1].ledger()
        assert pair[0].ledger().total == sum(pair[0].buffers().values())

    for a, b in ((0, 1), (1, 120), (120, 150), (150, 152), (152, 290)):
        step(a, b, ours, theirs)
    for s, t in zip(ours.store_list, theirs.store_list):
        assert s.pool.buffer.tobytes() == t.pool.buffer.tobytes()
    assert is_resident(ours, backend)
    forks = ours.fork(), theirs.fork()
    step(290, 310, *forks)
    for cache in (ours, theirs):
        cache.truncate(270)
    step(270, 300, ours, theirs)
    step(310, 330, *forks)
    identity, ids = identity_of(SHAPE, ours.arm), np.arange(300, dtype=np.int32)
    save_cache(tmp_path / "cache", ours, identity, ids)
    loaded = [load_cache(tmp_path / "cache", identity, ours.arm, b)[0] for b in (backend, NumpyBackend())]
    assert is_resident(loaded[0], backend)
    step(300, 330, *loaded)
    for x, y in zip(loaded[0].decode(1), loaded[1].decode(1)):
        assert x.tobytes() == y.tobytes()
    ours.reset()
    theirs.reset()
    step(0, 60, ours, theirs)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["turbo", "kivi"])
def test_a_steady_session_never_grows(backend: WasmBackend, name: str) -> None:
    kind, options = ARMS[name]
    cache = PagedCache(SHAPE, arm(kind, **options), backend)
    q, k, v = tokens(40)
    seen = []
    for i in range(1200):
        at = slice(i % 40, i % 40 + 1)
        for layer in range(SHAPE.n_layers):
            cache.attend(layer, q[at], k[at], v[at])
        cache.slide(300)
        grown = [s.pool.growth_events for s in cache.store_list]
        seen.append((backend.growth_events, backend.instance().memory_bytes, grown))
    assert seen[600:] == [seen[600]] * 600
    assert is_resident(cache, backend)
    assert seen[-1][1] <= 2 * GROWTH_BYTES


@pytest.mark.slow
def test_a_step_copies_the_same_whatever_the_length(backend: WasmBackend) -> None:
    """Against the same cache on a heap pool, whose step copies every page of the layer."""
    q, k, v = tokens(2600)
    copied: dict[bool, list[int]] = {}
    for resident in (True, False):
        backend.resident = resident
        cache = PagedCache(SHAPE, arm("structured-turbo", window=20), backend)
        assert is_resident(cache, backend) == resident
        copied[resident] = []
        for a, b in ((0, 600), (600, 2500)):
            cache.append(0, k[a:b], v[a:b])
            before = backend.copied_bytes
            cache.attend(0, q[b : b + 1], k[b : b + 1], v[b : b + 1])
            copied[resident].append(backend.copied_bytes - before)
    small, large = copied[True]
    pages = 1900 // cache.stores["packed"].layout.page_tokens
    assert 0 <= large - small <= 4 * 4 * (pages + 1) + 6 * 4 * 200 * (pages + 1)  # block tables and states
    page_bytes = cache.stores["packed"].layout.page_bytes
    assert copied[False][1] - copied[False][0] >= pages * page_bytes
    assert copied[False][1] > 5 * large


def test_caches_that_come_and_go_do_not_leak(backend: WasmBackend) -> None:
    _, k, v = tokens(60)
    sizes = []
    for _ in range(25):
        cache = PagedCache(SHAPE, arm("structured-turbo", window=20), backend, reserve_tokens=4000)
        cache.append(0, k, v)
        cache.close()
        sizes.append(backend.instance().memory_bytes)
    assert sizes[3:] == [sizes[3]] * 22


@pytest.mark.slow
def test_a_cache_outlives_a_failed_instance_and_settles_in_the_next(backend: WasmBackend) -> None:
    caches = [PagedCache(SHAPE, arm("structured-turbo", window=20), b) for b in (backend, NumpyBackend())]
    q, k, v = tokens(300)
    for cache in caches:
        cache.append(0, k[:140], v[:140])
    old = backend.instance()
    backend.discard()
    assert all(region_of(s.pool.buffer, old) is not None for s in caches[0].store_list)
    for i in range(140, 300):
        x, y = (c.attend(0, q[i : i + 1], k[i : i + 1], v[i : i + 1]) for c in caches)
        assert x.tobytes() == y.tobytes()
    assert logical_pages(caches[0]) == logical_pages(caches[1])
    assert backend.instance() is not old
    used = [s.pool for s in caches[0].store_list if s.pool.in_use]
    assert len(used) == 2 and all(region_of(p.buffer, backend.instance()) is not None for p in used)


def test_the_piped_host_says_that_it_copies() -> None:
    status = next(s for s in backend_statuses() if s.name == "wasm-simd128@wasmer-sdk")
    if not status.available:
        pytest.skip(f"not exercised: {status.reason}")
    backend = get_backend(status.name)
    assert isinstance(backend, WasmBackend) and not backend.resident
    caches = [PagedCache(SHAPE, arm("structured-turbo", window=20), b) for b in (backend, NumpyBackend())]
    q, k, v = tokens(60)
    before = backend.copied_bytes
    outs = [c.attend(0, q, k, v).tobytes() for c in caches]
    assert outs[0] == outs[1]
    assert backend.copied_bytes - before > caches[0].stores["recent"].pool.buffer.nbytes
