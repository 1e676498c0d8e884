"""Every byte is in the ledger, the ledger is asked of the buffers, and no decoded history hides behind it."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from tq_core.cache.accounting import baseline_bytes
from tq_core.cache.paged_cache import PagedCache
from tq_core.kernels.layout import HEADER_BYTES
from tq_core.kernels.table import LAYOUT
from tq_core.shapes import ModelShape
from tq_core.tests.cache.worlds import ARMS, SHAPE, make, tokens

SINGLE = (
    "headers",
    "padding",
    "idle",
    "recent",
    "sinks",
    "block_tables",
    "scratch",
    "fixed_tables",
    "decoded_shadow",
)
CODED = ("structured-turbo", "kivi-control")


def arrays_of(
    thing: Any, seen: dict[int, np.ndarray] | None = None, visited: set[int] | None = None
) -> dict[int, np.ndarray]:
    """Every numpy array reachable from an object's attributes and containers; the backend is not the cache's."""
    seen, visited = {} if seen is None else seen, set() if visited is None else visited
    if id(thing) in visited:
        return seen
    visited.add(id(thing))
    if isinstance(thing, np.ndarray):
        seen[id(thing)] = thing
    elif isinstance(thing, dict):
        for value in thing.values():
            arrays_of(value, seen, visited)
    elif isinstance(thing, (list, tuple, set)):
        for value in thing:
            arrays_of(value, seen, visited)
    elif hasattr(thing, "__dict__") and not isinstance(thing, type) and not hasattr(thing, "call"):
        arrays_of(vars(thing), seen, visited)
    return seen


@pytest.mark.parametrize("name", ARMS)
@pytest.mark.parametrize("n", [0, 1, 4, 33, 64, 129, 161, 200])
def test_total_is_the_sum_of_its_parts_and_of_the_buffers(name: str, n: int) -> None:
    cache = make(name, window=9, sinks=3)
    q, k, v = tokens(n)
    for layer in range(2):
        cache.append(layer, k, v)
    if n:
        cache.scores(0, q[0])
    ledger = cache.ledger()
    assert ledger.total == sum(cache.buffers().values())
    assert ledger.total == sum(ledger.payload.values()) + sum(getattr(ledger, part) for part in SINGLE)
    assert ledger.tokens_sink + ledger.tokens_compressed + ledger.tokens_recent == ledger.n_tokens == n
    assert ledger.as_dict()["bits_per_channel_all_in"] == ledger.bits_per_channel_stored
    if n:
        assert ledger.bits_per_channel_now == pytest.approx(8 * ledger.total / (n * 2 * 2 * 2 * 48))


@pytest.mark.parametrize("name, streams", [("structured-turbo", 4), ("kivi-control", 6)])
def test_payload_is_pages_times_layout(name: str, streams: int) -> None:
    cache = make(name, window=0)
    _, k, v = tokens(160)
    cache.append(0, k, v)
    cache.append(1, k[:96], v[:96])
    store, ledger = cache.stores["packed"], cache.ledger()
    pages = 2 + 1
    assert store.pool.in_use == pages == sum(len(t) for t in store.tables)
    assert ledger.payload == {stream: pages * 2 * nbytes for stream, nbytes in store.layout.streams}
    assert len(ledger.payload) == streams
    assert ledger.headers == pages * HEADER_BYTES
    assert sum(ledger.payload.values()) + ledger.headers + ledger.padding == pages * store.layout.page_bytes
    if name == "structured-turbo":  # 48 channels: 3.5 bits is 4, 4, 3 over three groups; float16 scales
        assert ledger.payload["key_codes"] == pages * 2 * 128 * (4 + 4 + 3) * 16 // 8
        assert ledger.payload["value_codes"] == pages * 2 * 128 * 3 * 48 // 8
        assert ledger.payload["key_scales"] == pages * 2 * 128 * 2


def test_bits_all_in_count_scales_headers_and_padding() -> None:
    shape = ModelShape(1, 4, 4, 128)
    ledger = make("structured-turbo", shape).ledger()
    assert ledger.bits_per_channel_nominal == (3.5 + 3.0) / 2
    page = 64 + 4 * (128 * (3.5 + 3.0) * 128 / 8 + 2 * 128 * 2)
    assert ledger.bits_per_channel_stored == pytest.approx(8 * page / (128 * 4 * 2 * 128))
    assert 3.25 + 0.125 < ledger.bits_per_channel_all_in < 3.25 + 0.125 + 0.01


def test_baselines() -> None:
    shape = ModelShape(3, 8, 4, 64)
    assert baseline_bytes(shape, 10) == {"fp32": 61440, "fp16": 30720, "fp8": 15360, "q8_0": 16320}
    cache = make("fp16", shape)
    for layer in range(3):
        cache.append(layer, *tokens(10, shape)[1:])
    assert cache.ledger().against() == baseline_bytes(shape, 10)
    assert cache.ledger().recent >= baseline_bytes(shape, 10)["fp16"]


@pytest.mark.parametrize("name", CODED)
def test_compressed_is_smaller_than_float16_once_pages_are_full(name: str) -> None:
    """Real bytes, not a formula: the buffers of 512 tokens without a window against plain float16."""
    shape = ModelShape(1, 2, 1, 64)
    cache = make(name, shape, window=0)
    cache.append(0, *tokens(512, shape)[1:])
    ledger = cache.ledger()
    packed = sum(ledger.payload.values()) + ledger.headers + ledger.padding
    assert packed < ledger.against()["fp16"] * {"structured-turbo": 0.23, "kivi-control": 0.27}[name]
    assert ledger.tokens_compressed == 512


@pytest.mark.parametrize("name", ARMS)
def test_no_array_but_pools_and_tables(name: str) -> None:
    """Walk the cache's object graph: whatever it holds is in buffers(), and nothing is a float."""
    cache = make(name, window=5, sinks=2)
    q, k, v = tokens(170)
    cache.append(0, k[:-3], v[:-3])
    cache.attend(0, q[-3:], k[-3:], v[-3:])
    found = arrays_of(cache)
    stores = cache.stores.values()
    declared = {id(a) for s in stores for a in (s.pool.buffer, s.pool.references)} | {
        id(state.table.held[0]) for s in stores for state in s.layers
    }
    assert declared <= found.keys()  # the walk reaches what it should reach
    assert {a.dtype for a in found.values()} <= {np.dtype(np.uint8), np.dtype(np.uint32)}
    others = [a for key, a in found.items() if key not in declared]
    layout_words = [a for a in others if a.shape == (len(LAYOUT),) and a.dtype == np.uint32]
    assert len(others) == len(layout_words)
    stored = sum(found[key].nbytes for key in declared)
    ledger = cache.ledger()
    assert ledger.total == stored + ledger.scratch + ledger.fixed_tables
    assert ledger.decoded_shadow == 0


def test_the_walk_would_see_a_shadow() -> None:
    cache = make("structured-turbo", window=5)
    cache.shadow = {"layer": [np.zeros((9, 2, 48), np.float32)]}  # type: ignore[attr-defined]
    assert any(a.dtype == np.float32 for a in arrays_of(cache).values())
    assert cache.ledger().decoded_shadow == 9 * 2 * 48 * 4
    cache.shadow["more"] = ({"deep": np.zeros(5, np.float16)},)  # type: ignore[attr-defined]
    assert cache.ledger().decoded_shadow == 9 * 2 * 48 * 4 + 10


def _peak_of_one_step(cache: PagedCache, q: np.ndarray, k: np.ndarray, v: np.ndarray) -> int:
    cache.attend(0, q, k, v)  # growth of the pools, first-use tables
    tracemalloc.start()
    cache.attend(0, q, k, v)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize("name", CODED)
def test_a_step_needs_no_memory_that_grows_like_the_history(name: str) -> None:
    """Decoding keys and values as float32 would take 2 * 4 * head_dim bytes per token; scores take 4 per query head."""
    shape = ModelShape(1, 2, 1, 64)
    q, k, v = tokens(1, shape)
    cache = make(name, shape, reserve_tokens=1200, window=4)
    peaks = []
    for _ in range(2):
        cache.append(0, *tokens(540, shape)[1:])
        peaks.append(_peak_of_one_step(cache, q, k, v))
    grown = (peaks[1] - peaks[0]) / 540
    assert grown < 100 < 2 * 4 * 64, peaks


@pytest.mark.parametrize("name", CODED)
def test_removing_compression_would_be_noticed(name: str) -> None:
    q, k, v = tokens(80)
    cache, plain = make(name, window=8), make("fp16")
    ours, theirs = cache.attend(0, q, k, v), plain.attend(0, q, k, v)
    cache.append(1, k, v)
    assert cache.ledger().tokens_compressed >= 64
    assert sum(cache.ledger().payload.values()) > 0
    assert np.abs(ours[-1] - theirs[-1]).max() > 1e-3
    assert plain.ledger().tokens_compressed == 0
    assert not plain.ledger().payload


@pytest.mark.parametrize("name", ARMS)
def test_reserving_moves_bytes_to_idle_and_changes_no_result(name: str) -> None:
    q, k, v = tokens(60)
    grown, reserved = make(name, window=8), make(name, window=8, reserve_tokens=200)
    assert grown.attend(0, q, k, v).tobytes() == reserved.attend(0, q, k, v).tobytes()
    assert reserved.ledger().idle > grown.ledger().idle
    assert reserved.ledger().total == sum(reserved.buffers().values())
    assert all(s.pool.growth_events == 0 for s in reserved.stores.values())
    assert SHAPE.n_layers == 2


def test_steps_of_many_tokens_do_not_double_the_window() -> None:
    """The old window stays until a step has happened; the pool grows by what that takes, not to twice its size."""
    shape = ModelShape(4, 4, 2, 32)
    cache = make("structured-turbo", shape, window=64, reserve_tokens=400)
    pool, reserved = cache.stores["recent"].pool, cache.stores["recent"].pool.capacity
    q, k, v = tokens(400, shape)
    for start in range(0, 400, 50):
        piece = slice(start, start + 50)
        with cache.step():
            for layer in range(shape.n_layers):
                cache.attend(layer, q[piece], k[piece], v[piece])
    assert pool.high_water > reserved  # else there was nothing to grow for
    assert pool.capacity <= pool.high_water + pool.high_water // 8 < 2 * reserved
