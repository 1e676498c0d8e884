"""Attention over a batch equals each sequence's own, for any order of pages, and refuses tables that lie."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tq_core.cache.batch import HalfPart, paged_attention
from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs import turbo_step
from tq_core.codecs.arms import Arm
from tq_core.errors import DTypeError, PageError, ShapeError, TqError, ValueRangeError
from tq_core.kernels.backend import Backend, NumpyBackend
from tq_core.kernels.native import NativeBackend
from tq_core.shapes import ModelShape
from tq_core.tests.cache.worlds import arm, tokens

SHAPE = ModelShape(1, 6, 2, 32)
LENGTHS = (150, 0, 1, 47, 129)  # tokens of each sequence
ARMS = ("structured-turbo", "kivi-control", "paged-halves")


def shared(caches: list[PagedCache], name: str, seed: int) -> HalfPart:
    """The pages of one store of all caches, shuffled into one pool; counts and tables with them."""
    stores = [c.stores[name] for c in caches]
    size, tables = stores[0].layout.page_bytes, [s.pages(0).table for s in stores]
    total, width = sum(map(len, tables)), max(map(len, tables))
    places = np.random.default_rng(seed).permutation(total + 3)[:total].astype(np.uint32)
    pool = np.full((total + 3) * size + 7, 0xAB, np.uint8)  # pages of nobody, and a rest that is no page
    block_tables = np.full((len(caches), width), 2**32 - 1, np.uint32)  # beyond a context: never looked at
    for row, (store, table) in enumerate(zip(stores, tables)):
        mine, places = places[: len(table)], places[len(table) :]
        block_tables[row, : len(table)] = mine
        for page, place in zip(table, mine):
            pool[place * size : (place + 1) * size] = store.pool.page(int(page))
    counts, firsts = (np.array([f(s) for s in stores]) for f in (lambda s: s.count(0), lambda s: s.first[0]))
    return HalfPart(pool, block_tables, counts.astype(np.int32), firsts.astype(np.int64))


def world(name: str, backend: Backend, window: int = 9, sinks: int = 3) -> tuple[Arm, list[PagedCache], Any]:
    """An arm, one cache per sequence, and the last token's queries (n_sequences, n_query_heads, head_dim)."""
    made, caches, queries = arm(name, window=window, sinks=sinks), [], []
    for i, n in enumerate(LENGTHS):
        q, k, v = tokens(n + 1, SHAPE, seed=i)
        caches.append(PagedCache(SHAPE, made, backend))
        caches[-1].append(0, k[:n], v[:n])
        queries.append(q[n])
    return made, caches, np.stack(queries)


def together(made: Arm, caches: list[PagedCache], queries: Any, seed: int, **more: Any) -> np.ndarray:
    packed = shared(caches, "packed", seed)
    return paged_attention(
        queries, packed.pool, packed.block_tables, packed.counts, keys=made.key_codec, values=made.value_codec,
        n_kv_heads=SHAPE.n_kv_heads, sinks=shared(caches, "sinks", seed), recent=shared(caches, "recent", seed), **more,
    )  # fmt: skip


@pytest.mark.parametrize("name", ARMS)
def test_a_batch_equals_its_sequences_in_any_order_of_pages(name: str) -> None:
    backend = NumpyBackend()
    made, caches, queries = world(name, backend)
    alone = np.stack([c._attend_one(0, q) for c, q in zip(caches, queries)])
    assert not alone[1].any() and alone[0].any()  # the sequence without a token, and one with
    for seed in (1, 2):
        assert together(made, caches, queries, seed, backend=backend).tobytes() == alone.tobytes()
    some = [3, 0, 0]  # in another order, one of them twice
    again = together(made, [caches[i] for i in some], queries[some], 5, backend=backend)
    assert again.tobytes() == alone[some].tobytes()


@pytest.mark.parametrize("name", [pytest.param(ARMS[0], marks=pytest.mark.slow), *ARMS[1:]])
def test_threads_change_no_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turbo_step, "CHUNK_PAGES", 1)  # the long sequences have two chunks
    backend = NativeBackend("scalar")
    made, caches, queries = world(name, backend)
    want = together(made, caches, queries, 1, backend=NumpyBackend())
    for threads in (1, 2, 3):
        for _ in range(3):
            got = together(made, caches, queries, 1, backend=backend, threads=threads)
            assert got.tobytes() == want.tobytes(), threads


def test_sequences_may_share_pages() -> None:
    backend = NumpyBackend()
    made, caches, queries = world("structured-turbo", backend, window=0, sinks=0)
    packed = shared(caches[:1], "packed", 3)
    codecs = {"keys": made.key_codec, "values": made.value_codec, "n_kv_heads": 2, "backend": backend}
    tables = np.repeat(packed.block_tables, 2, axis=0)
    twice = paged_attention(queries[:2], packed.pool, tables, np.array([150, 128]), **codecs)
    for i, n in enumerate((150, 128)):
        own = paged_attention(queries[i : i + 1], packed.pool, tables[:1], np.array([n]), **codecs)
        assert own.tobytes() == twice[i : i + 1].tobytes()
    assert not np.array_equal(twice[0], twice[1])


def test_no_sequence_and_no_page() -> None:
    made = arm("structured-turbo", window=0)
    codecs = {"keys": made.key_codec, "values": made.value_codec, "n_kv_heads": 2, "backend": NumpyBackend()}
    pool, tables = np.zeros(0, np.uint8), np.zeros((0, 0), np.uint32)
    none = paged_attention(np.zeros((0, 6, 32), np.float32), pool, tables, np.zeros(0, np.int32), **codecs)
    assert none.shape == (0, 6, 32)
    tables = np.zeros((2, 0), np.uint32)
    empty = paged_attention(np.ones((2, 6, 32), np.float32), pool, tables, np.zeros(2, np.int32), **codecs)
    assert empty.shape == (2, 6, 32) and not empty.any()


class _Untouched:
    """A backend that no refused call may reach."""

    name, parallel = "untouched", False

    def call(self, kernel: str, **arguments: Any) -> None:
        raise AssertionError(f"{kernel} ran on arguments that had to be refused")


def _bad(case: str, a: dict[str, Any]) -> dict[str, Any]:
    """One argument made wrong."""
    nan = a["queries"].copy()
    nan[2, 3, 4] = np.nan
    outside, lens = a["block_tables"].copy(), a["context_lens"]
    outside[3, 0] = len(a["pool"]) // 1000
    changed: dict[str, Any] = {
        "queries dtype": {"queries": a["queries"].astype(np.float64)},
        "queries rank": {"queries": a["queries"][0]},
        "queries list": {"queries": a["queries"].tolist()},
        "queries not finite": {"queries": nan},
        "head counts": {"n_kv_heads": 4},
        "no KV head": {"n_kv_heads": 0},
        "head_dim": {"queries": a["queries"][:, :, :24].copy()},
        "pool dtype": {"pool": a["pool"].view(np.int8)},
        "pool rank": {"pool": a["pool"][None]},
        "pool strided": {"pool": np.repeat(a["pool"], 2)[::2]},
        "table dtype": {"block_tables": a["block_tables"].astype(np.int64)},
        "table rank": {"block_tables": a["block_tables"][0]},
        "table rows": {"block_tables": a["block_tables"][:-1]},
        "table outside the pool": {"block_tables": outside},
        "table too short": {"block_tables": a["block_tables"][:, :1]},
        "lens dtype": {"context_lens": lens.astype(np.float32)},
        "lens list": {"context_lens": lens.tolist()},
        "lens rank": {"context_lens": lens[:, None]},
        "lens too few": {"context_lens": lens[:-1]},
        "lens negative": {"context_lens": np.where(lens == 0, -1, lens)},
        "lens past the table": {"context_lens": lens + 300},
        "scale": {"scale": float("nan")},
        "threads": {"threads": 0},
        "pool cut": {"pool": a["pool"][: a["pool"].size // 2]},
        "recent outside": {
            "recent": replace(a["recent"], block_tables=a["recent"].block_tables + np.uint32(99))
        },
        "recent negative": {"recent": replace(a["recent"], firsts=a["recent"].firsts - 200)},
    }
    return {**a, **changed[case]}


@pytest.fixture(scope="module")
def good_call() -> dict[str, Any]:
    """Arguments that nothing is wrong with, but no backend."""
    made, caches, queries = world("structured-turbo", NumpyBackend())
    packed = shared(caches, "packed", 4)
    return {
        "queries": queries, "pool": packed.pool, "block_tables": packed.block_tables, "context_lens": packed.counts,
        "keys": made.key_codec, "values": made.value_codec, "n_kv_heads": 2, "recent": shared(caches, "recent", 4),
    }  # fmt: skip


@pytest.mark.parametrize(
    "case, error, words",
    [
        ("queries dtype", DTypeError, "queries"),
        ("queries rank", ShapeError, "queries"),
        ("queries list", DTypeError, "queries"),
        ("queries not finite", ValueRangeError, "queries: .* token 2, head 3, channel 4"),
        ("head counts", ShapeError, "queries: expected a multiple of 4"),
        ("no KV head", ValueRangeError, "n_kv_heads"),
        ("head_dim", ShapeError, "head_dim"),
        ("pool dtype", DTypeError, "pool"),
        ("pool rank", ShapeError, "pool"),
        ("pool strided", ShapeError, "pool"),
        ("table dtype", DTypeError, "block_tables"),
        ("table rank", ShapeError, "block_tables"),
        ("table rows", ShapeError, "block_tables"),
        ("table outside the pool", PageError, "block_tables of sequence 3: expected page indices below"),
        ("table too short", PageError, "block_tables of sequence 0: expected a table of 2 pages for 138 tokens"),
        ("lens dtype", DTypeError, "context_lens"),
        ("lens list", DTypeError, "context_lens"),
        ("lens rank", ShapeError, "context_lens"),
        ("lens too few", ShapeError, "context_lens"),
        ("lens negative", ValueRangeError, "context_lens"),
        ("lens past the table", PageError, "sequence 0"),
        ("scale", ValueRangeError, "scale"),
        ("threads", ValueRangeError, "threads"),
        ("pool cut", PageError, "block_tables of sequence"),
        ("recent outside", PageError, "recent: block_tables of sequence"),
        ("recent negative", ValueRangeError, "recent: firsts"),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused_before_any_kernel_runs(
    case: str, error: type[TqError], words: str, good_call: dict[str, Any]
) -> None:
    good = dict(good_call)
    with pytest.raises(AssertionError, match="rotate|attend_half"):  # the good call does reach the backend
        paged_attention(**good, backend=_Untouched())
    with pytest.raises(error, match=words):
        paged_attention(**{**_bad(case, good), "backend": _Untouched()})
