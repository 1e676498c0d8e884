"""Every family against the Transformers library's logits for a tiny random model of it, from both kinds of files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.arms import get_arm
from tq_core.kernels.backend import NumpyBackend
from tq_core.math.rotary import Rotary
from tq_core.model.capture import capture_qkv
from tq_core.model.exact_cache import ExactCache
from tq_core.model.identity import cache_identity
from tq_core.model.transformer import DecoderModel
from tq_core.model.zoo import load_model
from tq_core.tests.model.families import NAMES, built, divergence, folder, write_gguf

# Measured from folders: KL 1e-12, logits within 4e-6; the limits leave room for another BLAS.
KL, LOGIT = 1e-9, 1e-4


def test_all_families_are_here() -> None:
    assert NAMES == ["gemma", "gemma3", "llama", "llama-linear", "qwen2", "qwen3"]


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_gives_the_references_logits(tmp_path: Path, name: str) -> None:
    model = load_model(str(folder(name, tmp_path)))
    assert isinstance(model, DecoderModel)
    kl, logit = divergence(model, name)
    assert kl < KL and logit < LOGIT


@pytest.mark.parametrize("name", NAMES)
def test_a_gguf_file_gives_the_references_logits(tmp_path: Path, name: str) -> None:
    path = write_gguf(folder(name, tmp_path), tmp_path / "model.gguf")
    model = load_model(str(path))
    assert isinstance(model, DecoderModel) and model.name == "model.gguf"
    kl, logit = divergence(model, name)
    # The library writes epsilon and the divisors as float32.
    assert kl < KL and logit < LOGIT
    assert model.config.rope_pairing == ("adjacent" if name.startswith("llama") else "half split")


def test_a_gguf_file_without_the_permutation_is_noticed(tmp_path: Path) -> None:
    path = write_gguf(folder("llama", tmp_path), tmp_path / "model.gguf", permute=False)
    assert divergence(load_model(str(path)), "llama")[0] > 1e-3  # type: ignore[arg-type]


def zero(part: str) -> Callable[[str, np.ndarray], np.ndarray]:
    return lambda name, values: values * np.float32(0) if part in name else values


def less_one(name: str, values: np.ndarray) -> np.ndarray:
    return values - np.float32(1) if name.endswith("norm.weight") else values


def swapped(name: str, values: np.ndarray) -> np.ndarray:
    """The two norms of Gemma 3 around attention that are easily taken for each other."""
    return values[::-1] if name.endswith(("post_attention_norm.weight", "ffn_norm.weight")) else values


FAULTS: list[tuple[str, str, dict[str, Any]]] = [
    ("llama", "pairing", {"rope_pairing": "adjacent"}),
    ("llama", "no scaling", {"rope_divisors": ()}),
    ("llama", "linear scaling", {"rope_divisors": (4.0,) * 8}),
    ("llama-linear", "no scaling", {"rope_divisors": ()}),
    ("llama-linear", "base", {"rope_theta": 10000.0, "local_rope_theta": 10000.0}),
    ("llama-linear", "activation", {"activation": "gelu_tanh"}),
    ("qwen2", "no query bias", {"change": zero("attn_q.bias")}),
    ("qwen2", "no key bias", {"change": zero("attn_k.bias")}),
    ("qwen2", "no value bias", {"change": zero("attn_v.bias")}),
    ("qwen2", "base", {"rope_theta": 10000.0, "local_rope_theta": 10000.0}),
    ("qwen3", "pairing", {"rope_pairing": "adjacent"}),
    ("qwen3", "epsilon", {"rms_epsilon": 1e-3}),
    ("gemma", "norms without their 1", {"change": less_one}),
    ("gemma", "embedding scale", {"embedding_scale": 1.0}),
    ("gemma", "activation", {"activation": "silu"}),
    ("gemma3", "norms without their 1", {"change": less_one}),
    ("gemma3", "other norms", {"change": swapped}),
    ("gemma3", "query scale", {"query_scale": 1.0}),
    ("gemma3", "window + 1", {"windows": (13, None)}),
    ("gemma3", "window - 1", {"windows": (11, None)}),
    ("gemma3", "kinds of layers", {"windows": (None, 12)}),
    ("gemma3", "local base", {"local_rope_theta": 1000.0}),
    ("gemma3", "no scaling", {"rope_divisors": ()}),
]


@pytest.mark.parametrize(("name", "fault", "change"), FAULTS, ids=[f"{n}-{f}" for n, f, _ in FAULTS])
def test_a_fault_is_noticed(tmp_path: Path, name: str, fault: str, change: dict[str, Any]) -> None:
    path = folder(name, tmp_path)
    assert divergence(built(path), name)[0] < KL
    assert divergence(built(path, **change), name)[0] > 1000 * KL


@pytest.mark.parametrize("name", ["llama", "qwen2", "gemma3"])
def test_own_models_run_on_the_paged_cache(tmp_path: Path, name: str) -> None:
    model = load_model(str(folder(name, tmp_path)))
    tokens = np.arange(30) * 7 % model.vocab_size
    cache = PagedCache(model.shape, get_arm("fp16", sinks=4), NumpyBackend())
    exact = model.forward(tokens, ExactCache(model.shape))
    assert np.abs(model.forward(tokens, cache) - exact).max() < 0.02 < np.abs(exact).max() / 10


def test_the_rotary_embedding_is_undone_with_its_scaling(tmp_path: Path) -> None:
    model = load_model(str(folder("llama", tmp_path)))
    assert isinstance(model, DecoderModel) and model.rotary == model.rotary_of(1)
    keys = capture_qkv(model, np.arange(24))[0][1]
    plain = model.rotary.rotate(keys, np.arange(24), inverse=True)  # type: ignore[union-attr]
    table = model.ropes[10000.0, model.config.rope_divisors]
    np.testing.assert_allclose(table.rotate(plain, 0, "half split"), keys, atol=1e-5)
    without = Rotary(10000.0, "half")
    assert np.abs(without.rotate(plain, np.arange(24)) - keys).max() > 0.1
    assert without.identity() == {"theta": 10000.0, "pairing": "half"}
    assert "divisors" in model.rotary.identity()  # type: ignore[union-attr]


def test_scaling_is_in_the_identity(tmp_path: Path) -> None:
    path, arm = folder("llama-linear", tmp_path), get_arm("fp16")
    positions = {
        cache_identity(built(path, rope_divisors=d), arm).positions for d in ((), (2.0,) * 8, (4.0,) * 8)
    }
    assert len(positions) == 3 and any("no scaling" in text for text in positions)


def test_a_bias_of_keys_can_be_had_from_the_model(tmp_path: Path) -> None:
    model = load_model(str(folder("qwen2", tmp_path)))
    assert isinstance(model, DecoderModel)
    sizes = [block.query_key_value_bias.shape for block in model.weights.blocks]  # type: ignore[union-attr]
    assert sizes == [(16 * (2 + 1 + 1),)] * 2
    assert all(block.query_norm is None for block in model.weights.blocks)
