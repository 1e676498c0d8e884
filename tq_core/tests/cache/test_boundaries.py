"""Where tokens are at every length around an edge: of the window, of a page, of a group that leaves together."""

from __future__ import annotations

import numpy as np
import pytest

from tq_core.cache.page import read_header
from tq_core.cache.paged_cache import PagedCache
from tq_core.kernels.layout import HEADER_BYTES, PAGE_TOKENS
from tq_core.shapes import ModelShape
from tq_core.tests.cache.worlds import ARMS, exact_scores, half, make, tokens

SHAPE = ModelShape(n_layers=1, n_query_heads=3, n_kv_heads=1, head_dim=32)
WORST = {"fp16": 0.0, "structured-turbo": 0.12, "kivi-control": 0.12}


def expected_counts(n: int, sinks: int, window: int | None, flush: int) -> tuple[int, int, int]:
    """Sink, packed and recent tokens: whole groups leave as soon as ``window`` tokens remain behind them."""
    rest = max(n - sinks, 0)
    packed = 0 if window is None else max(rest - window, 0) // flush * flush
    return n - rest, packed, rest - packed


def check_everything(cache: PagedCache, k: np.ndarray, v: np.ndarray, q: np.ndarray) -> None:
    """Counts, headers, ledger, exact halves at both ends, bounded error between them."""
    n, arm = len(k), cache.arm
    sinks, packed, recent = expected_counts(n, arm.sinks, arm.window, arm.flush_tokens)
    ledger = cache.ledger()
    assert (ledger.tokens_sink, ledger.tokens_compressed, ledger.tokens_recent) == (sinks, packed, recent)
    assert cache.length == ledger.n_tokens == n
    for stored, given in zip(cache.decode(0), (k, v)):
        exact = np.r_[0:sinks, n - recent : n]
        np.testing.assert_array_equal(stored[exact], half(given)[exact])
        middle = slice(sinks, sinks + packed)
        error = ((stored[middle] - given[middle]) ** 2).sum(axis=(1, 2)) / (given[middle] ** 2).sum(
            axis=(1, 2)
        )
        assert error.max(initial=0) <= WORST[arm.name]
    # Queries become integers of 16 bits: 2e-6 of the lengths that are multiplied here.
    np.testing.assert_allclose(
        cache.scores(0, q), exact_scores(cache.shape, q, cache.decode(0)[0]), atol=2e-4
    )
    assert cache.ledger().total == sum(cache.buffers().values())
    check_headers(cache)


def check_headers(cache: PagedCache) -> None:
    """Every live page says truly what it holds, and pages are numbered without gaps."""
    starts = {"sinks": 0, "packed": cache.arm.sinks}
    for name, store in cache.stores.items():
        for layer, table in enumerate(store.tables):
            headers = [read_header(store.pool.page(int(page))) for page in table]
            per = store.layout.page_tokens
            for i, header in enumerate(headers):
                assert (header.layer, header.page_tokens) == (layer, per)
                assert (header.n_kv_heads, header.head_dim) == (cache.shape.n_kv_heads, cache.shape.head_dim)
                assert header.used == min(per, store.end[layer] - i * per)
                assert header.index == headers[0].index + i
                assert header.first_position == headers[0].first_position + i * per
                assert header.arm_digest.hex() == cache.arm.digest[:16]
                assert header.key_bits == store.keys.nominal_bits(cache.shape.head_dim)
                assert header.value_bits == store.values.nominal_bits(cache.shape.head_dim)
            if headers and name in starts:
                assert (headers[0].index, headers[0].first_position) == (0, starts[name])
            if headers and name == "recent":
                oldest = cache.length - store.count(layer)
                assert headers[0].first_position + store.first[layer] == oldest


@pytest.mark.parametrize("window", [0, 1, 5, 32, 33])
@pytest.mark.parametrize("name", ARMS)
def test_around_the_window_and_the_groups(name: str, window: int) -> None:
    q, k, v = tokens(window + 67, SHAPE, seed=window)
    cache = make(name, SHAPE, window=window)
    for n in range(1, len(k) + 1):
        cache.append(0, k[n - 1 : n], v[n - 1 : n])
        if n in {
            1,
            2,
            31,
            32,
            33,
            window - 1,
            window,
            window + 1,
            window + 31,
            window + 32,
            window + 33,
            len(k),
        }:
            check_everything(cache, k[:n], v[:n], q[0])


@pytest.mark.parametrize("name", ARMS)
def test_around_the_page_edges(name: str) -> None:
    """Packed pages of 128 tokens: one less, full, one more; a group that ends a page, and one that opens it."""
    q, k, v = tokens(PAGE_TOKENS + 40, SHAPE, seed=9)
    cache = make(name, SHAPE, window=0)
    done = 0
    for n in (
        PAGE_TOKENS - 1,
        PAGE_TOKENS,
        PAGE_TOKENS + 1,
        PAGE_TOKENS + 31,
        PAGE_TOKENS + 32,
        PAGE_TOKENS + 33,
    ):
        cache.append(0, k[done:n], v[done:n])
        done = n
        check_everything(cache, k[:n], v[:n], q[0])
    if name != "fp16":
        assert len(cache.stores["packed"].tables[0]) == 2


@pytest.mark.parametrize("sinks", [1, 31, 32, 33])
@pytest.mark.parametrize("name", ARMS)
def test_around_the_sinks(name: str, sinks: int) -> None:
    q, k, v = tokens(sinks + 40, SHAPE, seed=sinks)
    cache = make(name, SHAPE, window=2, sinks=sinks)
    done = 0
    for n in (sinks - 1, sinks, sinks + 1, sinks + 3, sinks + 34, sinks + 40):
        cache.append(0, k[done:n], v[done:n])
        done = n
        check_everything(cache, k[:n], v[:n], q[0])


@pytest.mark.parametrize("head_dim", [16, 80, 96, 112, 160, 256])
@pytest.mark.parametrize("name", ARMS)
def test_other_head_sizes(name: str, head_dim: int) -> None:
    shape = ModelShape(1, 5, 5, head_dim)
    q, k, v = tokens(40, shape, seed=head_dim)
    cache = make(name, shape, window=3, sinks=1)
    cache.append(0, k, v)
    check_everything(cache, k, v, q[0])


def test_a_page_of_the_pool_is_its_header_and_its_streams() -> None:
    """The bytes at the header's place are the header: nothing of a stream runs into it."""
    cache = make("structured-turbo", SHAPE, window=0)
    _, k, v = tokens(PAGE_TOKENS, SHAPE)
    cache.append(0, k, v)
    page = cache.stores["packed"].pool.page(int(cache.stores["packed"].tables[0][0]))
    assert page[:HEADER_BYTES].tobytes() == read_header(page).pack()
