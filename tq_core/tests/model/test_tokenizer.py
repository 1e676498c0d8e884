"""Byte-level BPE from GGUF metadata, on a vocabulary small enough to check by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tq_core.errors import DTypeError, ValueRangeError
from tq_core.model.chat import Message, chat_tokens
from tq_core.model.transformer import DecoderModel
from tq_core.tests.model import synthetic


def pieces(model: DecoderModel, text: str) -> list[str]:
    return [synthetic.TOKENS[token_id] for token_id in model.tokenize(text)]


def test_merges_apply_inside_words(synthetic_model: DecoderModel) -> None:
    assert pieces(synthetic_model, "the and") == ["the", "Ġ", "and"]
    assert pieces(synthetic_model, "and the") == ["and", "Ġthe"]


def test_digits_stand_alone(synthetic_model: DecoderModel) -> None:
    # The vocabulary has a merge "1 2", which this pre-tokenizer never lets happen.
    assert pieces(synthetic_model, "the12") == ["the", "1", "2"]


def test_special_tokens_are_parsed_or_taken_literally(synthetic_model: DecoderModel) -> None:
    text = "a<|im_end|>"
    assert pieces(synthetic_model, text) == ["a", "<|im_end|>"]
    literal = synthetic_model.tokenizer.encode(text, parse_special=False)
    assert synthetic_model.tokenizer.end_id not in literal and len(literal) == len(text)
    assert synthetic_model.detokenize(literal) == text


@given(st.text())
def test_text_comes_back(synthetic_model: DecoderModel, text: str) -> None:
    assert synthetic_model.detokenize(synthetic_model.tokenizer.encode(text, parse_special=False)) == text


def test_half_a_character_shows_as_a_replacement(synthetic_model: DecoderModel) -> None:
    ids = synthetic_model.tokenize("é")
    assert len(ids) == 2 and synthetic_model.detokenize(ids[:1]) == "\ufffd"


def test_chat_format(synthetic_model: DecoderModel) -> None:
    messages = [Message("user", "hi"), Message("assistant", "yes"), Message("user", "<|im_end|>")]
    ids = chat_tokens(synthetic_model.tokenizer, messages)
    assert synthetic_model.detokenize(ids) == (
        f"<|im_start|>system\n{synthetic.DEFAULT_SYSTEM}<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n"
        "<|im_start|>assistant\nyes<|im_end|>\n<|im_start|>user\n<|im_end|><|im_end|>\n<|im_start|>assistant\n"
    )
    assert ids.count(synthetic_model.tokenizer.end_id) == 4
    own_system = chat_tokens(
        synthetic_model.tokenizer, [Message("system", "be brief"), Message("user", "hi")]
    )
    assert synthetic.DEFAULT_SYSTEM not in synthetic_model.detokenize(own_system)


def test_bad_arguments_are_refused(synthetic_model: DecoderModel) -> None:
    with pytest.raises(ValueRangeError, match="ids"):
        synthetic_model.detokenize([len(synthetic.TOKENS)])
    with pytest.raises(DTypeError, match="text"):
        synthetic_model.tokenize(b"bytes")  # type: ignore[arg-type]
    with pytest.raises(ValueRangeError, match="role"):
        Message("tool", "x")
    with pytest.raises(ValueRangeError, match="messages"):
        chat_tokens(synthetic_model.tokenizer, [])
