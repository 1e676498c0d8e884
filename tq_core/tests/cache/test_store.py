"""A page store on its own: batches that cross pages, dropping, and what a page's header says then."""

from __future__ import annotations

import numpy as np
import pytest

from tq_core.cache.page import read_header
from tq_core.cache.store import PageStore
from tq_core.codecs.fp16 import HalfKeys, HalfValues
from tq_core.codecs.kivi import KiviKeys, KiviValues
from tq_core.kernels.backend import NumpyBackend
from tq_core.tests.cache.worlds import SHAPE, half, tokens

DIGEST = "0123456789abcdef" * 4


def halves() -> PageStore:
    return PageStore(SHAPE, HalfKeys(), HalfValues(), NumpyBackend(), DIGEST)


def used(store: PageStore, layer: int) -> list[int]:
    return [read_header(store.pool.page(int(page))).used for page in store.tables[layer]]


@pytest.mark.parametrize("sizes", [(100,), (31, 1, 1, 67), (33, 0, 67)])
def test_batches_across_pages(sizes: tuple[int, ...]) -> None:
    store, (_, k, v) = halves(), tokens(100)
    start = 0
    for n in sizes:
        store.append(1, k[start : start + n], v[start : start + n], 5 + start)
        start += n
    assert used(store, 1) == [32, 32, 32, 4]
    firsts = [read_header(store.pool.page(int(page))).first_position for page in store.tables[1]]
    assert firsts == [5, 37, 69, 101]
    assert (store.count(0), store.count(1)) == (0, 100)
    for got, want in zip(store.decode(1), (k, v)):
        np.testing.assert_array_equal(got, half(want))


@pytest.mark.parametrize("dropped", [1, 31, 32, 33, 64, 99, 100])
def test_dropping_the_oldest(dropped: int) -> None:
    store, (_, k, v) = halves(), tokens(150)
    store.append(0, k[:100], v[:100], 0)
    for got, want in zip(store.oldest(0, dropped), (k, v)):
        np.testing.assert_array_equal(got, half(want[:dropped]))
    store.drop_oldest(0, dropped)
    assert len(store.tables[0]) == store.pool.in_use == 4 - dropped // 32
    store.append(0, k[100:], v[100:], 100)
    assert store.count(0) == 150 - dropped
    for got, want in zip(store.decode(0), (k, v)):
        np.testing.assert_array_equal(got, half(want[dropped:]))
    headers = [read_header(store.pool.page(int(page))) for page in store.tables[0]]
    assert [h.index for h in headers] == list(range(dropped // 32, 5))
    assert [h.first_position for h in headers] == [32 * h.index for h in headers]


def test_dropping_what_is_not_there_is_refused() -> None:
    store, (_, k, v) = halves(), tokens(10)
    store.append(0, k, v, 0)
    for call in (
        lambda: store.drop_oldest(0, 11),
        lambda: store.oldest(0, 11),
        lambda: store.drop_oldest(0, -1),
    ):
        with pytest.raises(ValueError, match=r"^n: expected 0\.\.10, got "):
            call()
    assert store.count(0) == 10


def test_groups_fill_several_pages_at_once() -> None:
    store = PageStore(SHAPE, KiviKeys(4), KiviValues(4), NumpyBackend(), DIGEST)
    _, k, v = tokens(320)
    store.append(0, k, v, 0)
    assert used(store, 0) == [128, 128, 64]
    for got, want in zip(store.decode(0), (k, v)):
        assert float(((got - want) ** 2).sum() / (want**2).sum()) < 0.01
