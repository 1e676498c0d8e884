"""SentencePiece's BPE on a vocabulary small enough to check by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tq_core.model.transformer import DecoderModel
from tq_core.tests.model import synthetic_gemma as synthetic


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> DecoderModel:
    return synthetic.load(synthetic.write(tmp_path_factory.mktemp("gguf") / "gemma.gguf"))


@pytest.fixture(scope="module")
def prefixed(tmp_path_factory: pytest.TempPathFactory) -> DecoderModel:
    """With a space before every text, as in Llama 2's files, which do not say so."""
    fields = synthetic.metadata()
    del fields["tokenizer.ggml.add_space_prefix"]
    return synthetic.load(synthetic.write(tmp_path_factory.mktemp("gguf") / "prefix.gguf", fields))


def pieces(model: DecoderModel, text: str, parse_special: bool = True) -> list[str]:
    ids = model.tokenizer.encode(text, parse_special=parse_special)
    return [synthetic.TOKENS[token_id] for token_id in ids]


def test_the_best_score_goes_first(model: DecoderModel) -> None:
    assert pieces(model, " the") == ["▁the"]
    assert pieces(model, "the") == ["t", "he"]  # no space is put in front
    assert pieces(model, " t he") == ["▁t", "▁", "he"]


def test_of_equal_scores_the_leftmost_goes_first(model: DecoderModel) -> None:
    # "ab" is better than "bab"; then "aba" from "ab" and "a", at its first place.
    assert pieces(model, "ababa") == ["ab", "aba"]
    assert pieces(model, "abab") == ["ab", "ab"]


def merged_plainly(model: DecoderModel, text: str) -> list[str]:
    """The rule itself: join the neighbours with the best score, the leftmost among equals, until there are none."""
    parts = list(text.replace(" ", "▁"))
    scores = dict(zip(synthetic.TOKENS, synthetic.SCORES, strict=True))
    while True:
        joined = [
            (-scores[a + b], i) for i, (a, b) in enumerate(zip(parts, parts[1:])) if a + b in synthetic.PIECES
        ]
        if not joined:
            return parts
        _, i = min(joined)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]


@given(st.text("abtheos< ", max_size=40).filter(lambda text: "  " not in text))
def test_the_heap_does_what_the_rule_says(model: DecoderModel, text: str) -> None:
    assert pieces(model, text, parse_special=False) == merged_plainly(model, text)


def test_characters_without_a_piece_become_bytes(model: DecoderModel) -> None:
    assert pieces(model, "aßb") == ["a", "<0xC3>", "<0x9F>", "b"]
    assert pieces(model, "é<0x41>") == ["é", "<", "0", "x", *["<0x34>", "<0x31>"], ">"]


def test_special_tokens_are_parsed_or_taken_literally(model: DecoderModel) -> None:
    assert pieces(model, "a<eos>b<h1>") == ["a", "<eos>", "b", "<h1>"]
    # User-defined tokens are text that is always one token; a control token is never made from text by merging.
    assert pieces(model, "a<eos>b<h1>", parse_special=False) == ["a", "<eos", ">", "b", "<h1>"]


def test_runs_of_spaces_and_lines_are_tokens(model: DecoderModel) -> None:
    assert pieces(model, "a   b\n\n\nc  d") == ["a", "   ", "b", "\n\n", "\n", "c", "  ", "d"]


def test_a_text_begins_with_its_token(model: DecoderModel) -> None:
    assert model.tokenize(" the") == [2, *model.tokenizer.encode(" the")]
    assert model.tokenize("") == [2] and model.tokenizer.encode("") == []


@given(st.text().filter(lambda text: "\u2581" not in text))
def test_text_comes_back(model: DecoderModel, text: str) -> None:
    assert model.detokenize(model.tokenizer.encode(text, parse_special=False)) == text


@given(st.text("abtheos ", max_size=30).filter(lambda text: "  " not in text))
def test_llamas_space_before_a_text_comes_and_goes(prefixed: DecoderModel, text: str) -> None:
    assert prefixed.tokenizer.decode(prefixed.tokenizer.encode(text)) == text


def test_llamas_space_stands_before_a_text_and_after_a_special_token(
    model: DecoderModel, prefixed: DecoderModel
) -> None:
    assert prefixed.tokenizer.digest != model.tokenizer.digest
    assert pieces(prefixed, "the") == ["▁the"]
    assert pieces(prefixed, "the<eos>the") == ["▁the", "<eos>", "▁the"]
    assert pieces(prefixed, "") == []
