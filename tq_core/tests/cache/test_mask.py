"""Sliding windows and learned sink logits: exact attention over what a query may see, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tq_core.codecs import turbo_step
from tq_core.codecs.arms import get_arm
from tq_core.codecs.base import Pages
from tq_core.codecs.checkbench import Bench
from tq_core.errors import TqError
from tq_core.kernels.backend import NumpyBackend
from tq_core.kernels.cases import cases
from tq_core.kernels.layout import PageLayout
from tq_core.tests.cache.worlds import ARMS, SHAPE, exact_scores, make, tokens

SINKS = np.array([0.5, 3, -2, -np.inf, 40, -40], np.float32)


def masked_attention(
    q: np.ndarray, keys: np.ndarray, values: np.ndarray, first: int, sinks: Any
) -> np.ndarray:
    """Float64 attention of one token over keys[first:], with one more logit per head when sinks is given."""
    logits = exact_scores(SHAPE, q, keys)[:, first:]
    if sinks is not None:
        logits = np.concatenate([logits, sinks[:, None].astype(np.float64)], axis=1)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    weights = (weights / weights.sum(axis=1, keepdims=True))[:, : len(keys) - first]
    spread = np.repeat(values[first:].astype(np.float64), SHAPE.group_size_heads, axis=1)
    return np.einsum("ht,thd->hd", weights, spread)


@pytest.mark.parametrize("sliding_window", [None, 1, 9, 10, 60, 152, 153, 154, 155, 400])
@pytest.mark.parametrize("name", ARMS)
def test_equals_exact_attention_over_what_is_seen(name: str, sliding_window: int | None) -> None:
    cache = make(name, window=9, sinks=3)
    q, k, v = tokens(155)  # 3 sinks, a full page and a begun one, 9 or more recent tokens
    cache.append(1, k[:-1], v[:-1])
    out = cache.attend(1, q[-1:], k[-1:], v[-1:], SINKS, sliding_window)[0]
    keys, values = cache.decode(1)
    first = 0 if sliding_window is None else max(0, 155 - sliding_window)
    np.testing.assert_allclose(out, masked_attention(q[-1], keys, values, first, SINKS), atol=1e-4)


def test_a_window_that_hides_nothing_and_a_sink_of_minus_infinity_change_no_bit() -> None:
    q, k, v = tokens(150)
    none = np.full(SHAPE.n_query_heads, -np.inf, np.float32)
    plain, masked = make("structured-turbo", window=5), make("structured-turbo", window=5)
    want, got = plain.attend(0, q, k, v), masked.attend(0, q, k, v, none, 150)
    assert want.tobytes() == got.tobytes()


def test_what_is_hidden_does_not_matter() -> None:
    """Other keys and values before the sliding window, and not one bit of the output differs."""
    q, k, v = tokens(150)
    other_k, other_v = k.copy(), v.copy()
    other_k[:70], other_v[:70] = 50 * other_k[:70], -3
    a, b = (make("structured-turbo", window=5) for _ in range(2))
    outs = [c.attend(0, q, x, y, None, 40)[110:] for c, x, y in ((a, k, v), (b, other_k, other_v))]
    assert outs[0].tobytes() == outs[1].tobytes()
    seen = [c.attend(0, q[:1], k[:1], v[:1], None, 150) for c in (a, b)]
    assert np.abs(seen[0] - seen[1]).max() > 0.1  # they are still there


def test_hidden_slots_leave_the_bits_of_a_history_without_them() -> None:
    """Pages before ``first`` and, at a multiple of 16, slots before it: the state is that of the other slots alone."""
    case = next(c for c in cases() if c.kernel == "attend_packed" and c.name.endswith("x300x0"))
    hidden, page_tokens = case.build(), 128
    fewer = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in hidden.items()}
    hidden |= {"first": page_tokens, "n_tokens": 300 - page_tokens}
    fewer |= {"pages": fewer["pages"][1:].copy(), "n_tokens": 300 - page_tokens}
    for arguments in (hidden, fewer):
        NumpyBackend().call("attend_packed", **arguments)
    for name in ("peak", "total", "out"):
        assert hidden[name].tobytes() == fewer[name].tobytes()


@pytest.mark.parametrize("first", [5, 16, 32, 37])
def test_hidden_slots_inside_a_page(first: int) -> None:
    """Against the same tokens stored from slot 0 on: peak and sums bit for bit, total too at a multiple of 16."""
    arm = get_arm("structured-turbo")
    keys, values = Bench(arm.key_codec, NumpyBackend()), Bench(arm.value_codec, NumpyBackend())
    layout = PageLayout(2, 128, keys.codec.streams(48) + values.codec.streams(48))

    def state(skipped: int, hidden: int) -> tuple[np.ndarray, ...]:
        pages = Pages(np.zeros(layout.page_bytes, np.uint8), np.zeros(1, np.uint32), layout)
        for bench, seed in ((keys, 0), (values, 1)):
            bench.codec.append(
                bench.backend, pages, 0, np.ascontiguousarray(bench.tokens(90, seed)[skipped:])
            )
        count = 90 - skipped
        return turbo_step.attend(
            NumpyBackend(), keys.codec, values.codec, keys.queries(), 0.1, pages, count, first=hidden
        )

    (peak, total, out), (peak_alone, total_alone, out_alone) = state(0, first), state(first, 0)
    assert peak.tobytes() == peak_alone.tobytes() and out.tobytes() == out_alone.tobytes()
    np.testing.assert_allclose(total, total_alone, rtol=1e-6)
    assert first % 16 or total.tobytes() == total_alone.tobytes()


@pytest.mark.parametrize(
    "sink_logits, sliding_window, message",
    [
        (np.zeros(6), None, "sink_logits: expected a float32"),
        ([0.0] * 6, None, "sink_logits: expected a float32"),
        (np.zeros(5, np.float32), None, "sink_logits: expected shape"),
        (np.full(6, np.inf, np.float32), None, "sink_logits: expected numbers below"),
        (np.full(6, np.nan, np.float32), None, "sink_logits: expected numbers below"),
        (None, 0, "sliding_window: expected None or at least 1"),
        (None, 2.5, "sliding_window: expected None or at least 1"),
        (None, True, "sliding_window: expected None or at least 1"),
    ],
)
def test_bad_masks_are_refused_before_anything_changes(
    sink_logits: Any, sliding_window: Any, message: str
) -> None:
    cache = make("structured-turbo")
    q, k, v = tokens(3)
    with pytest.raises(TqError, match=f"^{message}"):
        cache.attend(0, q, k, v, sink_logits, sliding_window)
    assert cache.length == 0
