"""The numpy runtime on a synthetic model: against a plain float64 forward pass, and any split of a prompt."""

from __future__ import annotations

import numpy as np
import pytest

from tq_core.errors import DTypeError, ShapeError, ValueRangeError
from tq_core.model.capture import capture_qkv
from tq_core.model.chat import Message
from tq_core.model.exact_cache import ExactCache
from tq_core.model.generate import chat, generate
from tq_core.model.interface import forward_chunks
from tq_core.model.sampling import Sampling
from tq_core.model.transformer import DecoderModel
from tq_core.tests.model import synthetic

TOKENS = np.random.default_rng(4).integers(0, len(synthetic.TOKENS), 300).astype(np.int32)
# Two layers in float32: 7e-5 was measured at logits of size 11; ten times that leaves room for another BLAS.
CLOSE: dict[str, float] = {"atol": 7e-4, "rtol": 0.0}


def plain_forward(model: DecoderModel, tokens: np.ndarray) -> np.ndarray:
    """The whole model in float64, without a cache, attention as one masked matrix per head."""

    def norm(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + model.config.rms_epsilon) * weight

    def rotate(x: np.ndarray) -> np.ndarray:
        pairs = x[..., 0::2] + 1j * x[..., 1::2]
        exponents = -np.arange(pairs.shape[-1]) / pairs.shape[-1]
        angles = np.arange(len(x))[:, None] * model.config.rope_theta**exponents
        pairs = pairs * np.exp(1j * angles)[:, None]
        return np.stack([pairs.real, pairs.imag], axis=-1).reshape(x.shape)

    n, shape = len(tokens), model.shape
    hidden_from = np.triu(np.ones((n, n), bool), 1)
    hidden = model.weights.embedding[tokens].astype(np.float64)
    for block in model.weights.blocks:
        qkv = (norm(hidden, block.attention_norm) @ block.query_key_value.T).reshape(n, -1, shape.head_dim)
        split = [shape.n_query_heads, shape.n_query_heads + shape.n_kv_heads]
        queries, keys, values = np.split(qkv, split, axis=1)
        queries, keys = rotate(queries), rotate(keys)
        outputs = []
        for head in range(shape.n_query_heads):
            kv_head = head // shape.group_size_heads
            scores = queries[:, head] @ keys[:, kv_head].T / np.sqrt(shape.head_dim)
            weights = np.exp(np.where(hidden_from, -np.inf, scores))
            outputs.append(weights / weights.sum(-1, keepdims=True) @ values[:, kv_head])
        hidden = hidden + np.concatenate(outputs, axis=1) @ block.attention_output.T
        gate, up = np.split(norm(hidden, block.feed_forward_norm) @ block.gate_up.T, 2, axis=1)
        hidden = hidden + gate / (1 + np.exp(-gate)) * up @ block.down.T
    return norm(hidden, model.weights.output_norm) @ model.weights.output.T


def test_logits_match_a_plain_float64_forward_pass(synthetic_model: DecoderModel) -> None:
    logits = synthetic_model.forward(TOKENS, ExactCache(synthetic_model.shape))
    assert logits.dtype == np.float32 and logits.shape == (300, synthetic_model.vocab_size)
    expected = plain_forward(synthetic_model, TOKENS)
    assert np.abs(expected).max() > 1.0
    np.testing.assert_allclose(logits, expected, **CLOSE)


@pytest.mark.parametrize("chunk_tokens", [1, 7, 256, 300])
def test_any_split_of_a_prompt_gives_the_same_logits(
    synthetic_model: DecoderModel, chunk_tokens: int
) -> None:
    whole = synthetic_model.forward(TOKENS, ExactCache(synthetic_model.shape))
    cache = ExactCache(synthetic_model.shape)
    seen = 0
    for start, logits in forward_chunks(synthetic_model, TOKENS, cache, chunk_tokens):
        np.testing.assert_allclose(logits, whole[start : start + len(logits)], **CLOSE)
        seen += len(logits)
    assert seen == cache.length == 300


def test_last_only_is_the_last_row(synthetic_model: DecoderModel) -> None:
    whole = synthetic_model.forward(TOKENS, ExactCache(synthetic_model.shape))
    last = synthetic_model.forward(TOKENS, ExactCache(synthetic_model.shape), last_only=True)
    assert last.shape == (1, synthetic_model.vocab_size)
    np.testing.assert_allclose(last[0], whole[-1], **CLOSE)


def test_positions_matter(synthetic_model: DecoderModel) -> None:
    logits = synthetic_model.forward(np.array([5, 9, 5, 9, 9, 5]), ExactCache(synthetic_model.shape))
    assert np.abs(logits[1] - logits[3]).max() > 1e-2


@pytest.mark.parametrize(
    ("tokens", "error"),
    [
        ([], ShapeError),
        ([[1, 2]], ShapeError),
        ([1.5, 2.0], DTypeError),
        ([-1], ValueRangeError),
        ([len(synthetic.TOKENS)], ValueRangeError),
        ([1] * (synthetic.CONTEXT_LENGTH + 1), ValueRangeError),
    ],
)
def test_bad_tokens_are_refused_before_the_cache_changes(
    synthetic_model: DecoderModel, tokens: list, error: type[Exception]
) -> None:
    cache = ExactCache(synthetic_model.shape)
    with pytest.raises(error, match="tokens"):
        synthetic_model.forward(np.array(tokens), cache)
    with pytest.raises(error, match="tokens"):
        forward_chunks(synthetic_model, np.array(tokens), cache)
    assert cache.length == 0


def test_the_context_may_be_filled_to_the_brim(synthetic_model: DecoderModel) -> None:
    cache = ExactCache(synthetic_model.shape)
    full = np.ones(synthetic.CONTEXT_LENGTH, np.int32)
    assert np.isfinite(synthetic_model.forward(full, cache, last_only=True)).all()
    with pytest.raises(ValueRangeError, match="positions"):
        synthetic_model.forward(np.array([1]), cache)


def test_captured_keys_are_what_the_cache_holds(synthetic_model: DecoderModel) -> None:
    cache = ExactCache(synthetic_model.shape)
    captured = capture_qkv(synthetic_model, TOKENS, cache)
    assert len(captured) == synthetic_model.shape.n_layers
    for layer, (queries, keys, values) in enumerate(captured):
        assert queries.shape == (300, synthetic.N_QUERY_HEADS, synthetic.HEAD_DIM)
        stored_keys, stored_values = cache.decode(layer)
        np.testing.assert_array_equal(keys, stored_keys)
        np.testing.assert_array_equal(values, stored_values)
    np.testing.assert_array_equal(capture_qkv(synthetic_model, TOKENS)[1][0], captured[1][0])


def test_generation_feeds_back_its_own_tokens(synthetic_model: DecoderModel) -> None:
    cache = ExactCache(synthetic_model.shape)
    new = list(generate(synthetic_model, TOKENS[:20], cache, 12))
    assert len(new) == 12 and cache.length == 20 + 11
    whole = np.concatenate([TOKENS[:20], new])
    logits = synthetic_model.forward(whole, ExactCache(synthetic_model.shape))
    assert logits[19:-1].argmax(axis=-1).tolist() == new
    stopped = list(
        generate(synthetic_model, TOKENS[:20], ExactCache(synthetic_model.shape), 12, stop_ids={new[4]})
    )
    assert stopped == new[: new.index(new[4])]


def test_generation_with_a_seed_repeats(synthetic_model: DecoderModel) -> None:
    def text(seed: int) -> list[int]:
        cache = ExactCache(synthetic_model.shape)
        return list(generate(synthetic_model, TOKENS[:5], cache, 20, Sampling(1.0, 0.95, seed)))

    assert text(1) == text(1) != text(2)


def test_generation_ends_with_the_context(synthetic_model: DecoderModel) -> None:
    cache = ExactCache(synthetic_model.shape)
    prompt = np.ones(synthetic.CONTEXT_LENGTH - 2, np.int32)
    assert len(list(generate(synthetic_model, prompt, cache, 50))) == 3
    with pytest.raises(ValueRangeError, match="max_new_tokens"):
        generate(synthetic_model, prompt, cache, -1)


def test_chat_asks_for_an_empty_cache(synthetic_model: DecoderModel) -> None:
    cache = ExactCache(synthetic_model.shape)
    assert isinstance(chat(synthetic_model, [Message("user", "the end")], cache, 3), str)
    with pytest.raises(ValueRangeError, match="cache"):
        chat(synthetic_model, [Message("user", "again")], cache, 3)


def test_weights_cannot_be_changed(synthetic_model: DecoderModel) -> None:
    with pytest.raises(ValueError, match="read-only"):
        synthetic_model.weights.blocks[0].query_key_value[0, 0] = 1.0
