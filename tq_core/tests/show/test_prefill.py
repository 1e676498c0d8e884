"""A cache that was filled in one go answers as one that took a token at a time."""

from __future__ import annotations

import numpy as np
import pytest

from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.arms import get_arm
from tq_core.errors import CacheStateError
from tq_core.kernels.backend import get_backend
from tq_core.model.fixture import make_fixture
from tq_core.show.prefill import prefill

N = 171
ARMS = (
    ("fp16", {}),
    ("structured-turbo", {"window": 32, "sinks": 4}),
    ("structured-turbo", {"window": 0}),
    ("kivi-control", {"window": 40, "sinks": 2}),
    ("int8", {"window": 500}),
)


@pytest.mark.parametrize(("name", "options"), ARMS)
def test_reads_are_equal_bit_for_bit(name: str, options: dict[str, int]) -> None:
    f, arm = make_fixture(n_tokens=N + 6), get_arm(name, **options)
    one, other = (PagedCache(f.shape, arm, get_backend("numpy"), reserve_tokens=N + 6) for _ in range(2))
    one.append(0, f.keys[:N], f.values[:N])
    prefill(other, 0, f.keys[:N], f.values[:N])
    for t in range(N, N + 6):
        step = slice(t, t + 1)
        answers = [c.attend(0, f.queries[step], f.keys[step], f.values[step]) for c in (one, other)]
        np.testing.assert_array_equal(*answers)
        np.testing.assert_array_equal(*[c.scores(0, f.queries[t]) for c in (one, other)])
    for a, b in zip(one.decode(0), other.decode(0), strict=True):
        np.testing.assert_array_equal(a, b)
    assert one.ledger().bits_per_channel_stored == other.ledger().bits_per_channel_stored
    assert one.ledger().tokens_recent == other.ledger().tokens_recent
    assert one.ledger().total == other.ledger().total


def test_a_layer_with_tokens_is_refused() -> None:
    f = make_fixture(n_tokens=8)
    cache = PagedCache(f.shape, get_arm("fp16"), get_backend("numpy"))
    cache.append(0, f.keys[:1], f.values[:1])
    with pytest.raises(CacheStateError, match="layer 0"):
        prefill(cache, 0, f.keys, f.values)
