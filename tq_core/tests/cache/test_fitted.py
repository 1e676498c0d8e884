"""An arm with tables per layer and head, through everything that a cache does: decode step, batch, threads, fork, file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tq_core.cache.batch import HalfPart, paged_attention
from tq_core.cache.paged_cache import PagedCache
from tq_core.cache.saved import load_cache, save_cache
from tq_core.codecs.arms import Arm
from tq_core.codecs.fit import fit_arm
from tq_core.errors import CodecError, IdentityMismatch, ShapeError
from tq_core.kernels.backend import NumpyBackend
from tq_core.tests.cache.savings import identity_of
from tq_core.tests.cache.worlds import SHAPE, exact_attention, tokens

pytestmark = pytest.mark.slow  # the numpy backend encodes token by token

N = 60
LOUD = np.linspace(0.3, 2, SHAPE.head_dim).astype(np.float32)


def vectors(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Queries, keys and values whose channels differ, keys with an offset."""
    q, k, v = tokens(n, SHAPE, seed)
    return q * LOUD[::-1], k * LOUD + 1, v * LOUD


def fitted(seed: int = 0, **options: int) -> Arm:
    q, k, v = (
        np.stack(x) for x in zip(*(vectors(200, 90 + layer + seed) for layer in range(SHAPE.n_layers)))
    )
    return fit_arm("best-turbo", k, v, queries=q, **{"window": 9, "sinks": 3, **options})


def cache_of(arm: Arm) -> PagedCache:
    cache = PagedCache(SHAPE, arm, NumpyBackend())
    for layer in range(SHAPE.n_layers):
        cache.append(layer, *vectors(N, layer)[1:])
    return cache


def step(cache: PagedCache, seed: int = 50) -> np.ndarray:
    """The next token's attention in every layer."""
    return np.stack([cache.attend(n, *vectors(1, seed + n)) for n in range(SHAPE.n_layers)])


def test_layers_and_heads_read_their_own_tables() -> None:
    """Close to exact attention in both layers; another fit gives other answers, the same fit the same."""
    arm = fitted(key_bits=4, value_bits=4)
    error = []
    for layer in range(SHAPE.n_layers):
        cache = PagedCache(SHAPE, arm, NumpyBackend())
        q, k, v = vectors(N, layer)
        got = cache.attend(layer, q, k, v)[-1]
        want = exact_attention(SHAPE, q[-1], k, v)
        error.append(float(np.linalg.norm(got - want) / np.linalg.norm(want)))
    assert max(error) < 0.15
    cache = cache_of(arm)
    assert cache.decode(0)[0].shape == (N, SHAPE.n_kv_heads, SHAPE.head_dim)
    assert np.allclose(step(cache), step(cache_of(fitted(key_bits=4, value_bits=4))), atol=0)
    assert not np.array_equal(step(cache_of(arm)), step(cache_of(fitted(seed=7, key_bits=4, value_bits=4))))


def test_a_batch_must_say_its_layer_and_equals_the_cache() -> None:
    arm = fitted()
    cache = cache_of(arm)
    query = vectors(1, 60)[0]
    store, halves = cache.stores["packed"], {}
    for name in ("sinks", "recent"):
        s = cache.stores[name]
        first = np.array([s.first[1]])
        halves[name] = HalfPart(s.pool.buffer, s.tables[1][None].copy(), np.array([s.count(1)]), first)

    def attend(**more: int) -> np.ndarray:
        return paged_attention(
            query, store.pool.buffer, store.tables[1][None].copy(), np.array([store.count(1)]), keys=arm.key_codec,
            values=arm.value_codec, n_kv_heads=SHAPE.n_kv_heads, backend=NumpyBackend(), **halves, **more,
        )  # fmt: skip

    scores = cache.scores(1, query[0])
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    values = np.repeat(cache.decode(1)[1], SHAPE.group_size_heads, axis=1)
    assert np.allclose(attend(layer=1)[0], np.einsum("ht,thd->hd", weights, values), atol=2e-4)
    assert not np.allclose(attend(layer=0), attend(layer=1), atol=1e-2)
    with pytest.raises(CodecError, match="^pages: expected pages that know their layer"):
        attend()
    with pytest.raises(ShapeError, match="^calibration: expected one for layer 2"):
        attend(layer=2)


def test_sequences_of_a_batch_have_their_own_shift() -> None:
    """Keys share an offset of one, so that the coded tokens' peak depends on the query: each sequence's on its own."""
    arm = fitted()
    caches = [cache_of(arm), PagedCache(SHAPE, arm, NumpyBackend())]
    caches[1].append(1, *vectors(N - 20, 77)[1:])
    queries = np.concatenate([vectors(1, 60)[0], -2 * vectors(1, 61)[0]])

    def together(which: list[int]) -> np.ndarray:
        parts = {}
        for name in ("packed", "sinks", "recent"):
            stores = [caches[i].stores[name] for i in which]
            size = stores[0].layout.page_bytes
            pages = [[s.pool.page(int(p)) for p in s.tables[1]] for s in stores]
            pool = np.concatenate([page for own in pages for page in own])
            width, at = max(map(len, pages)), 0
            tables = np.zeros((len(which), width), np.uint32)
            for row, own in enumerate(pages):
                tables[row, : len(own)] = np.arange(at, at + len(own))
                at += len(own)
            assert pool.size == at * size
            counts, firsts = np.array([s.count(1) for s in stores]), np.array([s.first[1] for s in stores])
            parts[name] = HalfPart(pool, tables, counts, firsts)
        packed = parts.pop("packed")
        return paged_attention(
            queries[which], packed.pool, packed.block_tables, packed.counts, keys=arm.key_codec, values=arm.value_codec,
            n_kv_heads=SHAPE.n_kv_heads, backend=NumpyBackend(), layer=1, **parts,
        )  # fmt: skip

    assert np.array_equal(together([0, 1]), np.concatenate([together([0]), together([1])]))


def test_fork_and_file_go_on_alike_and_another_fit_is_refused(tmp_path: Path) -> None:
    arm = fitted()
    cache, path = cache_of(arm), tmp_path / "cache.tq"
    branch = cache.fork()
    save_cache(path, cache, identity_of(SHAPE, arm), np.arange(N, dtype=np.int32))
    back, _ = load_cache(path, identity_of(SHAPE, arm), arm, NumpyBackend())
    want = step(cache)
    assert np.array_equal(step(branch), want) and np.array_equal(step(back), want)
    other = fitted(seed=7)
    with pytest.raises(IdentityMismatch):
        load_cache(path, identity_of(SHAPE, other), other, NumpyBackend())
