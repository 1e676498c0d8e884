"""A model's caches are saved and reused under its identity: the answer is the one that an unbroken run gives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tq_core.cache.identity import CacheIdentity, explain_mismatch
from tq_core.cache.paged_cache import PagedCache
from tq_core.cache.prefix import match_prefix
from tq_core.cache.saved import load_cache, save_cache
from tq_core.codecs.arms import get_arm
from tq_core.errors import DTypeError, IdentityMismatch
from tq_core.kernels.backend import NumpyBackend
from tq_core.model import chat, identity
from tq_core.model.identity import cache_identity
from tq_core.model.tiny import load_tiny
from tq_core.model.transformer import DecoderModel
from tq_core.tests.model import synthetic

ARM = get_arm("structured-turbo", window=8, sinks=2)


def named(a: CacheIdentity, b: CacheIdentity) -> list[str]:
    return [line.split(":")[0] for line in explain_mismatch(a, b)]


def test_a_saved_prompt_continues_as_if_it_had_never_been_saved(tmp_path: Path) -> None:
    model = load_tiny(NumpyBackend())
    mine, prompt = cache_identity(model, ARM), np.arange(30) % model.vocab_size
    straight = PagedCache(model.shape, ARM, NumpyBackend())
    model.forward(prompt[:25], straight)
    save_cache(tmp_path / "cache", straight, mine, prompt[:25])
    loaded, saved = load_cache(tmp_path / "cache", mine, ARM, NumpyBackend())
    reused = match_prefix(saved, prompt)
    assert reused == loaded.length == 25
    assert model.forward(prompt[reused:], loaded).tobytes() == model.forward(prompt[25:], straight).tobytes()


def test_other_weights_of_the_same_name_and_shape_are_refused(tmp_path: Path) -> None:
    model = load_tiny(NumpyBackend())
    cache = PagedCache(model.shape, ARM, NumpyBackend())
    model.forward([1, 2, 3], cache)
    save_cache(tmp_path / "cache", cache, cache_identity(model, ARM), [1, 2, 3])
    rebaked = replace(model, digest="00" * 32)
    assert rebaked.name == model.name
    with pytest.raises(IdentityMismatch, match=r"^model_digest: expected 0000.*"):
        load_cache(tmp_path / "cache", cache_identity(rebaked, ARM), ARM, NumpyBackend())
    with pytest.raises(IdentityMismatch, match=r"^adapter_digest: expected abc"):
        load_cache(tmp_path / "cache", cache_identity(model, ARM, "abc"), ARM, NumpyBackend())


def test_the_rotary_embedding_is_in_it() -> None:
    model = load_tiny(NumpyBackend())
    turned = {**model.weights, "rope_turn": model.weights["rope_turn"] * 2}
    assert named(cache_identity(model, ARM), cache_identity(replace(model, weights=turned), ARM)) == [
        "positions"
    ]


def test_a_llama_models_facts_each_show_in_their_field(synthetic_model: DecoderModel) -> None:
    base = cache_identity(synthetic_model, ARM)
    assert base.model_digest == synthetic_model.digest
    turned = replace(synthetic_model, config=replace(synthetic_model.config, rope_theta=500000.0))
    assert named(base, cache_identity(turned, ARM)) == ["positions"]
    words = replace(synthetic_model.tokenizer, digest="00" * 32)
    assert named(base, cache_identity(replace(synthetic_model, tokenizer=words), ARM)) == ["tokenizer_digest"]


def test_another_conversation_format_shows(
    synthetic_model: DecoderModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = cache_identity(synthetic_model, ARM)
    plain = chat.chat_tokens
    monkeypatch.setattr(identity, "chat_tokens", lambda tokenizer, turns: plain(tokenizer, turns)[:-1])
    assert named(base, cache_identity(synthetic_model, ARM)) == ["chat_template_digest"]


def test_the_tokenizers_digest_is_of_what_decides_the_ids(tmp_path: Path) -> None:
    seen = {synthetic.load(synthetic.write(tmp_path / "a.gguf")).tokenizer.digest}
    for key in ("tokenizer.ggml.merges", "tokenizer.ggml.eos_token_id", "tokenizer.ggml.token_type"):
        facts = synthetic.metadata()
        facts[key] = {"tokenizer.ggml.merges": lambda v: v[:-1], "tokenizer.ggml.eos_token_id": lambda v: v - 1,
                      "tokenizer.ggml.token_type": lambda v: [*v[:-1], 6]}[key](facts[key])  # fmt: skip
        seen.add(synthetic.load(synthetic.write(tmp_path / "b.gguf", facts)).tokenizer.digest)
    assert len(seen) == 4


def test_a_model_of_an_unknown_kind_is_refused() -> None:
    unknown: Any = SimpleNamespace(shape=load_tiny(NumpyBackend()).shape, digest="00")
    with pytest.raises(DTypeError, match="^model: expected a DecoderModel or TinyModel, got SimpleNamespace"):
        cache_identity(unknown, ARM)
