"""The diagnosis names the part that was ruined, and no other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tq_core.codecs.arms import get_arm
from tq_core.errors import ValueRangeError
from tq_core.kernels.backend import get_backend
from tq_core.model.exact_cache import ExactCache
from validation.alignment import (
    Part,
    RestoredCache,
    alternative_scores,
    channel_parts,
    layer_parts,
    log_odds,
    ranking,
    recoveries,
)
from validation.logit_scores import log_softmax
from validation.simulate import SimulatedCache
from validation.workloads.catalogue import prompts_of
from validation.workloads.prompt import Prompt

NUMPY = get_backend("numpy")
LAYER, CHANNEL = 1, 37


class Ruined:
    """A codec at 8 bits that loses one channel of one layer: it decodes to a constant."""

    def __init__(self, codec: Any, layer: int, channel: int, value: float) -> None:
        self._codec, self._layer, self._channel, self._value = codec, layer, channel, value

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codec, name)

    def decode(self, pages: Any, n_tokens: int, head_dim: int) -> np.ndarray:
        rows = self._codec.decode(pages, n_tokens, head_dim)
        if pages.layer == self._layer:
            rows[..., self._channel] = self._value
        return rows


def arm(side: str = "values", value: float = 40.0, window: int = 16) -> Any:
    sound = get_arm("int8", window=window)
    codec = {"keys": sound.key_codec, "values": sound.value_codec}[side]
    bad = Ruined(codec, LAYER, CHANNEL, value)
    return replace(sound, name="ruined", **{"key_codec" if side == "keys" else "value_codec": bad})


@pytest.fixture(scope="module")
def prompts(tiny) -> list[Prompt]:
    return prompts_of(tiny, "episodes", 6, 160)


@pytest.fixture(scope="module")
def flipped(tiny, prompts) -> list[Prompt]:
    rows = recoveries(tiny, prompts, arm(), [Part("keys", (0,))], NUMPY)
    names = {r["prompt"] for r in rows}
    assert names, "the ruined channel changes a choice"
    return [p for p in prompts if p.name in names][:2]


def test_the_ruined_layer_and_side_are_named(tiny, flipped):
    ranked = ranking(recoveries(tiny, flipped, arm(), layer_parts(tiny.shape), NUMPY))
    assert len(ranked) == 2 * tiny.shape.n_layers
    assert ranked[0]["part"] == f"values, layers {LAYER}" and ranked[0]["recovered"] > 0.9
    assert all(abs(r["recovered"]) < 0.2 for r in ranked[1:])


def test_the_ruined_channel_is_named(tiny, flipped):
    parts = channel_parts(tiny.shape, 8, Part("values", (LAYER,)))
    ranked = ranking(recoveries(tiny, flipped, arm(), parts, NUMPY))
    assert ranked[0]["part"] == f"values, layers {LAYER}, channels 32-39" and ranked[0]["recovered"] > 0.9
    alone = [Part("values", (LAYER,), None, (c,)) for c in (CHANNEL - 1, CHANNEL, CHANNEL + 1)]
    shares = {r["channels"][0]: r["recovered"] for r in recoveries(tiny, flipped[:1], arm(), alone, NUMPY)}
    assert shares[CHANNEL] > 0.9 and abs(shares[CHANNEL - 1]) < 0.1 and abs(shares[CHANNEL + 1]) < 0.1


def test_without_a_flip_there_is_nothing_to_explain(tiny, prompts):
    sound = get_arm("int8", window=16)
    assert recoveries(tiny, prompts[:2], sound, layer_parts(tiny.shape)[:1], NUMPY) == []
    rows = recoveries(tiny, prompts[:1], sound, [Part("keys")], NUMPY, only_flipped=False)
    assert len(rows) == 1 and np.isfinite(rows[0]["recovered"])
    exact = recoveries(
        tiny, prompts[:1], get_arm("int8", window=1000), [Part("keys")], NUMPY, only_flipped=False
    )
    assert abs(exact[0]["reference"] - exact[0]["arm"]) < 0.01, "float16 rows alone change next to nothing"


def read(cache: Any, pieces: list[int]) -> np.ndarray:
    rng = np.random.default_rng(4)
    n, shape = sum(pieces), cache.shape
    heads = (shape.n_query_heads, shape.n_kv_heads, shape.n_kv_heads)
    q, k, v = (rng.standard_normal((n, h, shape.head_dim)).astype(np.float32) for h in heads)
    out, at = [], 0
    for size in pieces:
        out.append(cache.attend(LAYER, q[at : at + size], k[at : at + size], v[at : at + size]))
        at += size
    return np.concatenate(out)


def test_restoring_nothing_changes_nothing_and_all_of_it_is_float16(tiny):
    pieces = [50, 3, 60]
    made = [RestoredCache(tiny.shape, arm(), p, NUMPY) for p in (None, Part("values", (0,)))]
    plain = read(SimulatedCache(tiny.shape, arm(), NUMPY), pieces)
    assert all(np.array_equal(read(c, pieces), plain) for c in made)
    half = read(SimulatedCache(tiny.shape, replace(arm(), window=1000), NUMPY), pieces)
    cache = RestoredCache(tiny.shape, arm(), Part("values"), NUMPY)
    read(cache, pieces)
    keys, values = cache.coded(LAYER)
    assert len(values) == 113 - 16 and np.array_equal(values, cache._layers[LAYER].values[:97])
    assert not np.array_equal(keys, cache._layers[LAYER].keys[:97])
    assert np.abs(plain - half).max() > 1, "the ruined channel shows"


def test_a_fork_leaves_the_first_cache_alone(tiny, prompts):
    prompt = prompts[0]
    first = RestoredCache(tiny.shape, arm(), Part("keys", (0,)), NUMPY)
    tiny.forward(prompt.tokens[:80], first)
    fork = first.fork()
    once = tiny.forward(prompt.tokens[80:120], fork)
    assert first.length == 80 and fork.length == 120
    assert np.array_equal(once, tiny.forward(prompt.tokens[80:120], first.fork()))


def test_alternatives_are_scored_as_continuations(tiny, prompts):
    p = prompts[0]
    scores = alternative_scores(tiny, p, RestoredCache(tiny.shape, get_arm("fp16"), None, NUMPY))
    for score, alternative in zip(scores, p.alternatives, strict=True):
        whole = np.concatenate([p.tokens, alternative])
        log_p = log_softmax(tiny.forward(whole, ExactCache(tiny.shape)))[len(p.tokens) - 1 : -1]
        assert abs(score - log_p[np.arange(len(alternative)), alternative].sum()) < 0.05
    assert abs(log_odds(np.log([0.5, 0.25, 0.25]))) < 1e-12 and log_odds(np.log([0.8, 0.2])) == pytest.approx(
        np.log(4)
    )


def test_parts_have_names_and_limits(tiny):
    assert Part("keys", (3,), None, tuple(range(8))).name == "keys, layers 3, channels 0-7"
    assert Part("values", None, (1,), (2, 5)).name == "values, KV heads 1, channels 2 5"
    whole = channel_parts(tiny.shape, 24)
    assert [len(p.channels) for p in whole] == [24, 24, 16] * 2
    assert (
        sum(p.mask(tiny.shape, 0, "keys").sum() for p in whole) == tiny.shape.n_kv_heads * tiny.shape.head_dim
    )
    with pytest.raises(ValueRangeError, match="side"):
        Part("queries")
    for wrong in (Part("keys", (9,)), Part("keys", None, (9,)), Part("keys", None, None, (99,))):
        with pytest.raises(ValueRangeError, match="expected numbers in"):
            RestoredCache(tiny.shape, arm(), wrong, NUMPY)
    with pytest.raises(ValueRangeError, match="two alternatives"):
        alternative_scores(tiny, Prompt("x", "x", "x", "x", "0", np.zeros(3, np.int32)), None)
