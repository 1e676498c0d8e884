"""Gemma-3-270M against two independent runtimes, frozen in validation/golden/gemma."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from tq_core.model.exact_cache import ExactCache
from tq_core.model.generate import generate
from tq_core.model.outline import known
from tq_core.model.sources import GEMMA
from tq_core.model.transformer import DecoderModel
from tq_core.tests.model.golden import FOLDER, Golden, agreement, distance

CASES = json.loads((FOLDER / "gemma" / "cases.json").read_text())
NAMES = ["transformers", "llama_cpp", "llama_cpp_f16_cache", "llama_cpp_f32"]


def read(name: str) -> Golden:
    return Golden.read("gemma", name)


@pytest.mark.parametrize("name", NAMES)
def test_golden_files_are_whole_and_about_this_model(name: str) -> None:
    golden = read(name)
    assert len(golden.record["prompt_tokens"]) == CASES["prompt_tokens"]
    # Predictions on both sides of the sliding window of 512 tokens.
    assert (golden.positions >= 512).sum() >= 16 and (golden.positions < 512).sum() >= 16
    if name != "llama_cpp_f32":
        assert golden.record["model_sha256"] == GEMMA.file_sha256


def test_llama_cpp_is_as_far_from_itself() -> None:
    assert 0.001 < distance(read("llama_cpp"), read("llama_cpp_f16_cache")) < 0.02


@pytest.mark.model
@pytest.mark.slow
def test_logits_match_float64(gemma: DecoderModel) -> None:
    got = agreement(gemma, read("transformers"))
    # Measured: KL 2e-11, log-probabilities within 1e-4. The limits leave room for another BLAS.
    assert got.kl_mean < 1e-8
    assert got.log_prob_difference < 2e-3
    assert got.top1 == 1.0
    # A sliding window of one token more would be noticed.
    longer = tuple(window and window + 1 for window in gemma.config.windows)
    wrong = replace(gemma, config=replace(gemma.config, windows=longer))
    assert agreement(wrong, read("transformers")).kl_mean > 1e-7


@pytest.mark.model
@pytest.mark.slow
def test_logits_are_near_llama_cpp(gemma: DecoderModel) -> None:
    # With float32 weights llama.cpp still takes GELU from a table of float16; on the file itself it also rounds
    # activations to 8 bits.
    expanded, plain = agreement(gemma, read("llama_cpp_f32")), agreement(gemma, read("llama_cpp"))
    assert expanded.kl_mean < 1e-5 and expanded.top1 == 1.0
    assert plain.kl_mean < 0.01 and plain.top1 > 0.85


@pytest.mark.model
def test_token_ids_match_llama_cpp(gemma: DecoderModel) -> None:
    record = read("llama_cpp").record
    assert gemma.tokenize(CASES["prompt"])[: CASES["prompt_tokens"]] == record["prompt_tokens"]
    for text, ids in zip(CASES["tokenizer_texts"], record["tokenizer_ids"], strict=True):
        assert gemma.tokenize(text) == ids, text


@pytest.mark.model
def test_the_card_says_what_the_file_says(gemma: DecoderModel) -> None:
    card = known("gemma3-270m")
    windows = [window for window in gemma.config.windows if window]
    assert (card.shape, card.context_length) == (gemma.shape, gemma.context_length)
    assert (card.local_layers, {card.sliding_window}) == (len(windows), set(windows))


@pytest.mark.model
def test_greedy_text_and_single_steps(gemma: DecoderModel) -> None:
    prompt = gemma.tokenize("The capital of France is")
    cache = ExactCache(gemma.shape)
    new = list(generate(gemma, prompt, cache, 12))
    assert gemma.detokenize(new) == " the capital of the country of France. It is the largest"
    whole = gemma.forward([*prompt, *new[:-1]], ExactCache(gemma.shape))
    assert whole.dtype == np.float32 and whole[len(prompt) - 1 :].argmax(axis=1).tolist() == new
