"""The Gemma 3 architecture on a synthetic model: against a plain float64 forward pass, and what its file must say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.arms import get_arm
from tq_core.errors import ModelFileError, ValueRangeError
from tq_core.kernels.backend import NumpyBackend
from tq_core.model.capture import capture_qkv
from tq_core.model.chat import Message, chat_tokens
from tq_core.model.exact_cache import ExactCache
from tq_core.model.identity import cache_identity
from tq_core.model.interface import forward_chunks
from tq_core.model.transformer import DecoderModel
from tq_core.tests.model import synthetic_gemma as synthetic

TOKENS = np.random.default_rng(4).integers(0, len(synthetic.TOKENS), 90).astype(np.int32)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> DecoderModel:
    return synthetic.load(synthetic.write(tmp_path_factory.mktemp("gguf") / "gemma.gguf"))


def plain_forward(tokens: np.ndarray, window: int = synthetic.WINDOW) -> np.ndarray:
    """The whole model in float64 from the file's tensors, written out without the runtime's parts."""
    weights = {name: values.astype(np.float64) for name, values in synthetic.tensors().items()}
    n, d = len(tokens), synthetic.HEAD_DIM

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * weights[f"{name}.weight"]

    def rotate(x: np.ndarray, theta: float) -> np.ndarray:
        pairs = x[..., : d // 2] + 1j * x[..., d // 2 :]
        turned = pairs * np.exp(1j * np.arange(n)[:, None] * theta ** (-np.arange(d // 2) / (d // 2)))
        return np.concatenate([turned.real, turned.imag], axis=-1)

    hidden = weights["token_embd.weight"][tokens] * 8.0  # sqrt(64)
    ages = np.arange(n)[:, None] - np.arange(n)
    for layer in range(synthetic.N_LAYERS):
        block = f"blk.{layer}."
        whole = layer == 5
        theta, seen = (1e6, ages >= 0) if whole else (1e4, (ages >= 0) & (ages < window))
        x = norm(hidden, f"{block}attn_norm")
        queries, keys, values = (x @ weights[f"{block}attn_{name}.weight"].T for name in "qkv")
        keys = rotate(norm(keys, f"{block}attn_k_norm"), theta)
        outputs = []
        for query in np.split(queries, synthetic.N_QUERY_HEADS, axis=1):
            scores = rotate(norm(query, f"{block}attn_q_norm"), theta) @ keys.T / np.sqrt(d)
            shares = np.exp(np.where(seen, scores, -np.inf))
            outputs.append(shares / shares.sum(-1, keepdims=True) @ values)
        attended = np.concatenate(outputs, axis=1) @ weights[f"{block}attn_output.weight"].T
        hidden = hidden + norm(attended, f"{block}post_attention_norm")
        x = norm(hidden, f"{block}ffn_norm")
        gate, up = (x @ weights[f"{block}ffn_{name}.weight"].T for name in ("gate", "up"))
        gelu = gate / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3)))
        hidden = hidden + norm(gelu * up @ weights[f"{block}ffn_down.weight"].T, f"{block}post_ffw_norm")
    return norm(hidden, "output_norm") @ weights["token_embd.weight"].T


def test_logits_match_a_plain_float64_forward_pass(model: DecoderModel) -> None:
    logits = model.forward(TOKENS, ExactCache(model.shape))
    expected = plain_forward(TOKENS)
    assert logits.dtype == np.float32
    np.testing.assert_allclose(logits, expected, atol=7e-4, rtol=0)
    # A window of one token more or less would be noticed.
    for other in (-1, 1):
        assert np.abs(plain_forward(TOKENS, synthetic.WINDOW + other) - expected).max() > 0.1


@pytest.mark.parametrize("chunk_tokens", [1, 7, 40])
def test_any_split_of_a_prompt_gives_the_same_logits(model: DecoderModel, chunk_tokens: int) -> None:
    whole, cache = model.forward(TOKENS, ExactCache(model.shape)), ExactCache(model.shape)
    for start, logits in forward_chunks(model, TOKENS, cache, chunk_tokens):
        np.testing.assert_allclose(logits, whole[start : start + len(logits)], atol=7e-4, rtol=0)


def test_every_intermediate_result_is_float32(model: DecoderModel) -> None:
    for layer in capture_qkv(model, TOKENS[:9]):
        assert [array.dtype for array in layer] == [np.float32] * 3
    assert model._blocks(TOKENS[:9], ExactCache(model.shape)).dtype == np.float32


def test_the_paged_cache_gives_the_same_logits(model: DecoderModel) -> None:
    cache = PagedCache(model.shape, get_arm("fp16", sinks=4), NumpyBackend())
    tokens = TOKENS[:40]  # more than the sliding window
    got, want = model.forward(tokens, cache), model.forward(tokens, ExactCache(model.shape))
    assert np.abs(got - want).max() < 0.05 < np.abs(want).max() / 100  # float16 keys and values


def test_the_windows_are_in_the_identity(model: DecoderModel) -> None:
    arm = get_arm("structured-turbo")
    assert "sliding windows 24 24 24 24 24 all 24" in cache_identity(model, arm).positions
    seen = {cache_identity(model, arm).positions}
    for change in (
        {"windows": (24,) * 7},
        {"windows": (25, *model.config.windows[1:])},
        {"rope_theta": 5e5},
        {"local_rope_theta": 5e5},
    ):
        seen.add(
            cache_identity(replace(model, config=replace(model.config, **change)), arm).positions  # type: ignore[arg-type]
        )
    assert len(seen) == 5


def test_a_base_model_has_no_conversations(model: DecoderModel) -> None:
    assert cache_identity(model, get_arm("fp16")).chat_template_digest == "none"
    with pytest.raises(ValueRangeError, match="^tokenizer: expected tokens and a template"):
        chat_tokens(model.tokenizer, [Message("user", "hi")])


WRONG: list[tuple[str, Any]] = [
    ("gemma3.attention.key_length", 48),
    ("gemma3.attention.value_length", 16),
    ("gemma3.attention.sliding_window", 0),
    ("gemma3.rope.scaling.type", "linear"),
    ("gemma3.final_logit_softcapping", 30.0),
    ("gemma3.attn_logit_softcapping", 50.0),
    ("gemma3.rope.freq_base_swa", -1.0),
    ("tokenizer.ggml.model", "bert"),
    ("tokenizer.ggml.scores", [0.0]),
    ("tokenizer.ggml.bos_token_id", 100000),
    ("tokenizer.ggml.unknown_token_id", 100000),
    ("tokenizer.ggml.token_type", [1] * len(synthetic.TOKENS)),
    ("tokenizer.ggml.tokens", [*synthetic.TOKENS[:-1], "xÿ"]),
]


@pytest.mark.parametrize(("key", "value"), WRONG)
def test_wrong_metadata_is_refused(tmp_path: Path, key: str, value: Any) -> None:
    path = synthetic.write(tmp_path / "wrong.gguf", synthetic.metadata() | {key: value})
    with pytest.raises(ModelFileError, match=r"expected .*got"):
        synthetic.load(path)


def test_a_missing_norm_is_named(tmp_path: Path) -> None:
    for name in ("attn_q_norm", "post_attention_norm", "post_ffw_norm"):
        weights = synthetic.tensors()
        del weights[f"blk.3.{name}.weight"]
        with pytest.raises(ModelFileError, match=f"blk.3.{name}.weight"):
            synthetic.load(synthetic.write(tmp_path / "missing.gguf", weights=weights))
