"""Caches whose tokens slid away, were taken back or are shared, saved and continued like any other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tq_core.cache.paged_cache import PagedCache
from tq_core.cache.saved import load_cache, save_cache
from tq_core.kernels.backend import NumpyBackend
from tq_core.tests.cache.savings import filled
from tq_core.tests.cache.test_saved import ARMS, logical_pages
from tq_core.tests.cache.worlds import SHAPE, tokens

HISTORY = {
    "slid": lambda cache: cache.slide(30),
    "slid into the window": lambda cache: cache.slide(5),
    "all slid": lambda cache: cache.slide(0),
    "taken back in the window": lambda cache: cache.truncate(cache.length - 4),
    "taken back beyond the window": lambda cache: cache.truncate(cache.length - 40),
    "taken back to the sinks": lambda cache: cache.truncate(2),
    "taken back to nothing": lambda cache: cache.truncate(0),
    "slid and taken back": lambda cache: (cache.slide(60), cache.truncate(cache.length - 20)),
    "forked and written": lambda cache: cache.fork().append(0, *tokens(40, seed=3)[1:]),
}


def round_trip(cache: PagedCache, identity: object, path: Path) -> PagedCache:
    ids = np.arange(cache.length)
    save_cache(path, cache, identity, ids)
    loaded, _ = load_cache(path, identity, cache.arm, NumpyBackend())
    return loaded


CASES = [(history, n) for history in HISTORY for n in (20, 175) if n == 175 or "beyond" not in history]


@pytest.mark.slow
@pytest.mark.parametrize("history, n", CASES)
@pytest.mark.parametrize("name", ARMS)
def test_continues_bit_for_bit(name: str, history: str, n: int, tmp_path: Path) -> None:
    cache, identity, _ = filled(name, n)
    HISTORY[history](cache)
    loaded = round_trip(cache, identity, tmp_path / "cache")
    assert (loaded.length, loaded.live_tokens) == (cache.length, cache.live_tokens)
    assert logical_pages(loaded) == logical_pages(cache)
    q, k, v = tokens(60, seed=9)
    for a, b in ((0, 3), (3, 60)):
        for layer in range(SHAPE.n_layers):
            for c in (loaded, cache):
                c.append(layer, k[a : b - 1], v[a : b - 1])
            ours, theirs = (
                c.attend(layer, q[b - 1 : b], k[b - 1 : b], v[b - 1 : b]) for c in (loaded, cache)
            )
            assert ours.tobytes() == theirs.tobytes()
    for c in (loaded, cache):
        c.truncate(c.length - 50)
    assert logical_pages(loaded) == logical_pages(cache)
    for layer in range(SHAPE.n_layers):
        for x, y in zip(loaded.decode(layer), cache.decode(layer)):
            assert x.tobytes() == y.tobytes()
