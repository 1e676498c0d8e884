"""Attention over the cache: equal to exact attention over what is stored, for any split of the tokens into calls."""

from __future__ import annotations

import numpy as np
import pytest

from tq_core.codecs import turbo_step
from tq_core.shapes import ModelShape
from tq_core.tests.cache.worlds import ARMS, SHAPE, exact_attention, exact_scores, half, make, tokens

CODED = ("structured-turbo", "kivi-control")


@pytest.mark.parametrize("sinks, window", [(0, 0), (3, 9), (0, 40)])
@pytest.mark.parametrize("name", ARMS)
def test_equals_exact_attention_over_the_decoded_tokens(name: str, sinks: int, window: int) -> None:
    cache = make(name, window=window, sinks=sinks)
    q, k, v = tokens(75)
    cache.append(1, k[:-1], v[:-1])
    out = cache.attend(1, q[-1:], k[-1:], v[-1:])[0]
    keys, values = cache.decode(1)
    assert len(keys) == len(values) == 75
    np.testing.assert_allclose(cache.scores(1, q[-1]), exact_scores(SHAPE, q[-1], keys), atol=1e-4)
    np.testing.assert_allclose(out, exact_attention(SHAPE, q[-1], keys, values), atol=1e-4)


@pytest.mark.parametrize("name", ARMS)
def test_many_tokens_in_one_call_equal_one_token_per_call(name: str) -> None:
    q, k, v = tokens(53)
    at_once, one_by_one, uneven = (make(name, window=7, sinks=2) for _ in range(3))
    want = at_once.attend(0, q, k, v)
    singles = np.concatenate(
        [one_by_one.attend(0, q[i : i + 1], k[i : i + 1], v[i : i + 1]) for i in range(53)]
    )
    assert singles.tobytes() == want.tobytes()
    cuts = [0, 1, 1, 18, 50, 53]  # an empty call among them
    parts = np.concatenate([uneven.attend(0, q[a:b], k[a:b], v[a:b]) for a, b in zip(cuts, cuts[1:])])
    assert parts.tobytes() == want.tobytes()


@pytest.mark.parametrize("name", ARMS)
def test_no_token_sees_a_later_one(name: str) -> None:
    q, k, v = tokens(45)
    changed = v.copy()
    changed[40:] += 100
    a, b = (make(name, window=4).attend(0, q, k, x) for x in (v, changed))
    assert a[:40].tobytes() == b[:40].tobytes()
    assert np.abs(a[40:] - b[40:]).max() > 1
    np.testing.assert_array_equal(
        make("fp16").attend(0, q[:1], k[:1], v[:1])[0], np.repeat(half(v[0]), 3, axis=0)
    )


@pytest.mark.parametrize("name", CODED)
def test_up_to_the_window_it_is_the_fp16_arm_bit_for_bit_and_not_beyond(name: str) -> None:
    window = 33
    q, k, v = tokens(window + 32)
    cache, plain = make(name, window=window), make("fp16")
    ours, theirs = (
        cache.attend(0, q[:window], k[:window], v[:window]),
        plain.attend(0, q[:window], k[:window], v[:window]),
    )
    assert ours.tobytes() == theirs.tobytes()
    assert cache.scores(0, q[0]).tobytes() == plain.scores(0, q[0]).tobytes()
    assert cache.ledger().tokens_compressed == 0
    later, exact = (c.attend(0, q[window:], k[window:], v[window:]) for c in (cache, plain))
    assert cache.stores["packed"].count(0) == 32
    assert np.abs(later - exact).max() > 1e-3  # compression is there and shows


def test_halves_in_packed_pages_equal_the_fp16_arm() -> None:
    """Window, packed pages and sinks are one sequence: with a lossless codec only the order of the sums remains."""
    q, k, v = tokens(90)
    split, plain = make("paged-halves", window=17, sinks=5), make("fp16")
    np.testing.assert_allclose(split.attend(0, q, k, v), plain.attend(0, q, k, v), rtol=1e-5, atol=2e-6)
    assert (
        split.stores["sinks"].count(0),
        split.stores["packed"].count(0),
        split.stores["recent"].count(0),
    ) == (5, 68, 17)


@pytest.mark.parametrize("offset", [0.0, 12.0])
@pytest.mark.parametrize("name", CODED)
def test_window_and_older_tokens_share_one_scale(name: str, offset: float) -> None:
    """No shift or gain between a token inside the window and the same token after it left: neither with plain keys nor
    with a common offset in four channels, which per-channel minima take out and put back."""
    shape = ModelShape(1, 4, 2, 64)
    q, k, v = tokens(160, shape)
    k[:, :, :4] += np.float32(offset)
    older, inside = (make(name, shape, window=w, key_bits=4, value_bits=4) for w in (0, 1000))
    older.append(0, k, v)
    inside.append(0, k, v)
    assert (older.stores["packed"].count(0), inside.stores["packed"].count(0)) == (160, 0)
    truth = np.concatenate([inside.scores(0, x).reshape(-1) for x in q[:20]]).astype(np.float64)
    coded = np.concatenate([older.scores(0, x).reshape(-1) for x in q[:20]]).astype(np.float64)
    exact = np.concatenate([exact_scores(shape, x, half(k)).reshape(-1) for x in q[:20]])
    np.testing.assert_allclose(truth, exact, atol=1e-4)
    gain = float((truth - truth.mean()) @ (coded - coded.mean()) / ((truth - truth.mean()) ** 2).sum())
    error = coded - truth
    assert gain == pytest.approx(1, abs=0.02)
    assert abs(error.mean()) < 0.1 * error.std() + 1e-3
    assert error.std() < 0.13 * np.sqrt(
        (k**2).sum(axis=2).mean() / 64
    )  # 4 bits: sqrt(.0095) of the key's size per logit


@pytest.mark.parametrize("name", ARMS)
def test_query_heads_read_their_own_kv_head(name: str) -> None:
    """Distinct values per KV head; the interleaved mapping h % n_kv_heads gives other results."""
    q, k, v = tokens(70)
    v += np.array([10, -10], np.float32)[None, :, None]
    out = make(name, window=3).attend(0, q, k, v)
    assert (out[:, :3].mean(axis=(1, 2)) > 5).all()
    assert (out[:, 3:].mean(axis=(1, 2)) < -5).all()
    cache = make(name, window=3)
    cache.append(0, k, v)
    scores, (keys, _) = cache.scores(0, q[-1]), cache.decode(0)
    wrong = np.einsum("hd,thd->ht", q[-1], keys[:, np.arange(6) % 2]) / np.sqrt(48)
    assert np.abs(scores - wrong).max() > 0.5
    np.testing.assert_allclose(scores, exact_scores(SHAPE, q[-1], keys), atol=1e-4)


@pytest.mark.parametrize("name", ARMS)
def test_layers_are_apart(name: str) -> None:
    q, k, v = tokens(40)
    other = tokens(40, seed=1)
    both, alone = make(name, window=4), make(name, window=4)
    for i in range(40):
        both.attend(0, q[i : i + 1], k[i : i + 1], v[i : i + 1])
        both.attend(1, *(x[i : i + 1] for x in other))
    alone.append(0, k, v)
    assert both.scores(0, q[0]).tobytes() == alone.scores(0, q[0]).tobytes()
    assert both.length == 40
    assert alone.length == 0  # layer 1 holds nothing


@pytest.mark.parametrize("name", ARMS)
def test_an_empty_cache_answers(name: str) -> None:
    cache = make(name, window=4)
    assert cache.length == 0
    assert cache.scores(0, tokens(1)[0][0]).shape == (6, 0)
    assert [x.shape for x in cache.decode(1)] == [(0, 2, 48)] * 2
    assert cache.attend(0, *tokens(0)).shape == (0, 6, 48)
    assert cache.ledger().n_tokens == 0


@pytest.mark.parametrize("name", ARMS)
def test_inputs_are_not_modified_and_may_be_strided(name: str) -> None:
    q, k, v = tokens(40)
    wide = [np.repeat(x, 2, axis=2) for x in (q, k, v)]
    strided = [x[:, :, ::2] for x in wide]
    before = [x.tobytes() for x in wide]
    got = make(name, window=4).attend(0, *strided)
    assert [x.tobytes() for x in wide] == before
    assert got.tobytes() == make(name, window=4).attend(0, q, k, v).tobytes()


@pytest.mark.parametrize("arithmetic, limit", [("exact", 1e-4), ("f32", 1e-4), ("fast", 2e-2)])
def test_every_arithmetic_over_several_chunks(
    monkeypatch: pytest.MonkeyPatch, arithmetic: str, limit: float
) -> None:
    """Chunks of one page, each with a softmax state of its own, merge to the attention over the whole."""
    monkeypatch.setattr(turbo_step, "CHUNK_PAGES", 1)
    shape = ModelShape(1, 3, 1, 32)
    cache = make("structured-turbo", shape, window=5, sinks=2, arithmetic=arithmetic)
    q, k, v = tokens(330, shape)
    k[200] *= 6  # one page holds the peak of some heads, so that the merge has to rescale the others
    cache.append(0, k[:-1], v[:-1])
    out = cache.attend(0, q[-1:], k[-1:], v[-1:])[0]
    want = exact_attention(shape, q[-1], *cache.decode(0))
    np.testing.assert_allclose(out, want, atol=limit)
    monkeypatch.undo()
    whole = make("structured-turbo", shape, window=5, sinks=2, arithmetic=arithmetic)
    whole.append(0, k[:-1], v[:-1])
    np.testing.assert_allclose(whole.attend(0, q[-1:], k[-1:], v[-1:])[0], want, atol=limit)


def test_chunks_are_cut_by_length_alone_and_never_more_than_the_limit() -> None:
    page = 128
    for n in (0, 1, 4096, 4097, 65536, 65537, 131072, 1_000_001):
        pages, count = turbo_step.chunk_pages(n, page), turbo_step.chunk_count(n, page)
        assert count <= turbo_step.CHUNKS_MAX and pages >= turbo_step.CHUNK_PAGES
        assert (count - 1) * pages * page < n <= count * pages * page or n == count == 0


@pytest.mark.parametrize("name", CODED)
def test_scratch_stops_growing_with_the_history(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one page per chunk and two chunks at most, a history of five pages and one of three need the same scratch."""
    monkeypatch.setattr(turbo_step, "CHUNK_PAGES", 1)
    monkeypatch.setattr(turbo_step, "CHUNKS_MAX", 2)
    scratch = []
    for n in (400, 660):
        cache = make(name, window=5)
        q, k, v = tokens(n)
        cache.append(0, k[:-1], v[:-1])
        out = cache.attend(0, q[-1:], k[-1:], v[-1:])[0]
        np.testing.assert_allclose(out, exact_attention(SHAPE, q[-1], *cache.decode(0)), atol=1e-4)
        scratch.append(cache.ledger().scratch)
    assert scratch[0] == scratch[1] > 0
