"""Centred keys: window, sinks and packed tokens stay on one scale of logits, and an offset costs no accuracy."""

from __future__ import annotations

import numpy as np
import pytest

from tq_core.cache.page import PageFlags, read_header
from tq_core.cache.paged_cache import PagedCache
from tq_core.cache.saved import image_of
from tq_core.codecs.arms import get_arm
from tq_core.codecs.base import Pages
from tq_core.codecs.turboquant import CENTRE_TOKENS, TurboKeys
from tq_core.errors import ShapeError, TqError
from tq_core.kernels.backend import NumpyBackend
from tq_core.kernels.layout import PageLayout
from tq_core.tests.cache.savings import identity_of
from tq_core.tests.cache.worlds import SHAPE, exact_attention, exact_scores, half, make, tokens

TOKENS = 3 + 150 + 40  # sinks, a full page and a begun one, the window


def offset(size: float) -> np.ndarray:
    """A vector per layer and KV head, on a few channels, as key projections with a bias give."""
    centres = np.zeros((SHAPE.n_layers, SHAPE.n_kv_heads, SHAPE.head_dim), np.float32)
    centres[..., [3, 17, 40]] = size * np.array([1, -2, 1.5], np.float32)
    return centres


def cache_of(kind: str, centres: np.ndarray, arithmetic: str = "exact") -> PagedCache:
    """Uncentred, centred by the page, or by the very vector that the keys share."""
    arm = get_arm(
        "structured-turbo",
        window=9,
        sinks=3,
        arithmetic=arithmetic,
        key_centre="page" if kind == "page" else "none",
    )
    return PagedCache(SHAPE, arm, NumpyBackend(), key_centres=centres if kind == "static" else None)


def worst(kind: str, size: float, arithmetic: str = "exact") -> float:
    """Largest error of a logit, against the keys that went in."""
    centres = offset(size)
    cache = cache_of(kind, centres, arithmetic)
    q, k, v = tokens(TOKENS)
    k += centres[1]
    cache.append(1, k, v)
    assert cache.stores["packed"].count(1) > 128
    errors = cache.scores(1, q[0]) - exact_scores(SHAPE, q[0], k)
    softmax_free = errors - np.median(errors[:, -9:], axis=1)[:, None]  # relative to the window's logits
    return float(np.abs(softmax_free).max())


@pytest.mark.slow
@pytest.mark.parametrize("arithmetic", ["exact", "f32", "fast"])
@pytest.mark.parametrize("kind", ["page", "static"])
def test_an_offset_of_all_keys_costs_no_accuracy(kind: str, arithmetic: str) -> None:
    clean = worst("none", 0.0, arithmetic)
    assert (
        worst(kind, 30.0, arithmetic) < 1.5 * clean
    )  # float16 centres and the mean of 32 noisy keys included
    assert worst("none", 30.0, arithmetic) > 5 * clean


@pytest.mark.parametrize("size", [0.0, 30.0])
@pytest.mark.parametrize("kind", ["none", "page", "static"])
def test_reads_are_those_of_the_decoded_tokens(kind: str, size: float) -> None:
    """Logits and outputs follow from what decode gives: nothing that was taken off is missing anywhere."""
    centres = offset(size)
    cache = cache_of(kind, centres)
    q, k, v = tokens(TOKENS)
    k += centres[1]
    cache.append(1, k[:-1], v[:-1])
    out = cache.attend(1, q[-1:], k[-1:], v[-1:])[0]
    keys, values = cache.decode(1)
    np.testing.assert_allclose(cache.scores(1, q[-1]), exact_scores(SHAPE, q[-1], keys), atol=1e-3)
    np.testing.assert_allclose(out, exact_attention(SHAPE, q[-1], keys, values), atol=3e-3)
    assert np.abs(keys[:3] - half(k[:3])).max() == 0  # sinks are float16, uncentred
    assert size == 0 or kind == "none" or np.abs(keys - k).max() < 3


def test_page_centres_do_not_depend_on_how_tokens_arrive() -> None:
    x = (5 + np.random.default_rng(0).standard_normal((256, 2, 32))).astype(np.float32)
    codec, pools = TurboKeys(centre="page"), []
    for step in (32, 96, 256):
        layout = PageLayout(2, codec.page_tokens, codec.streams(32))
        pages = Pages(np.zeros(2 * layout.page_bytes, np.uint8), np.arange(2, dtype=np.uint32), layout)
        for first in range(0, 256, step):
            codec.append(NumpyBackend(), pages, first, np.ascontiguousarray(x[first : first + step]))
        pools.append(pages.pool)
        stored = pages.stack("key_centres", 256).reshape(2, 2, -1).view(np.float16)
        np.testing.assert_allclose(stored[1], x[128:160].mean(axis=0), rtol=2e-3)
    assert all(np.array_equal(pool, pools[0]) for pool in pools)
    with pytest.raises(ShapeError, match="^x: expected keys in groups of 32"):
        codec.append(NumpyBackend(), pages, 0, np.ascontiguousarray(x[:31]))


def test_the_ledger_counts_centres() -> None:
    plain, paged, fixed = (cache_of(kind, offset(1)) for kind in ("none", "page", "static"))
    _, k, v = tokens(TOKENS)
    for cache in (plain, paged, fixed):
        for layer in range(SHAPE.n_layers):
            cache.append(layer, k, v)
    ledgers = [c.ledger() for c in (plain, paged, fixed)]
    pages = paged.stores["packed"].pool.in_use
    assert ledgers[1].payload["key_centres"] == pages * SHAPE.n_kv_heads * 2 * SHAPE.head_dim
    assert ledgers[2].fixed_tables - ledgers[0].fixed_tables == offset(1).nbytes
    for cache, ledger in zip((plain, paged, fixed), ledgers):
        assert ledger.total == sum(cache.buffers().values()) and ledger.decoded_shadow == 0
    assert 9 <= ledgers[1].tokens_recent < 9 + CENTRE_TOKENS


def test_identity() -> None:
    """Centring changes an arm's digest, and the default none leaves it as it was without the option."""
    arm = get_arm("structured-turbo")
    assert "centre" not in arm.describe()["keys"]
    assert get_arm("structured-turbo", key_centre="page").describe()["keys"]["centre"] == "page"
    assert get_arm("structured-turbo", key_centre="page").digest != arm.digest
    headers = []
    for kind in ("none", "static"):
        cache = cache_of(kind, offset(1))
        cache.append(0, *tokens(TOKENS)[1:])
        store = cache.stores["packed"]
        headers.append(store.pool.page(int(store.tables[0][0]))[:64].tobytes())
    assert headers[0][:32] == headers[1][:32] and headers[0] != headers[1]


def test_pages_say_that_they_are_centred_and_fixed_centres_are_not_saved() -> None:
    _, k, v = tokens(TOKENS)
    for kind, flag in (("none", False), ("page", True)):
        cache = cache_of(kind, offset(1))
        cache.append(0, k, v)
        store = cache.stores["packed"]
        header = read_header(store.pool.page(int(store.tables[0][0])))
        assert bool(header.flags & PageFlags.KEY_CENTRE) == flag
    cache = cache_of("static", offset(1))
    with pytest.raises(TqError, match="^cache: expected one without key_centres"):
        image_of(cache, identity_of(SHAPE, cache.arm), np.arange(0))


def test_bad_centres_are_refused() -> None:
    arm = get_arm("structured-turbo")
    for centres, message in (
        (np.zeros((2, 2, 48)), "key_centres: expected a float32"),
        (np.zeros((1, 2, 48), np.float32), "key_centres: expected shape"),
        (np.full((2, 2, 48), np.nan, np.float32), "key_centres: expected finite"),
    ):
        with pytest.raises(TqError, match=f"^{message}"):
            PagedCache(SHAPE, arm, NumpyBackend(), key_centres=centres)
    with pytest.raises(TqError, match="^centre: expected one of"):
        get_arm("structured-turbo", key_centre="mean")
    assert make("structured-turbo").length == 0
