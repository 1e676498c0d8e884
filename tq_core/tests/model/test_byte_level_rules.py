"""The rules by which byte-level BPE cuts text into words: that of a GGUF file against the one of tokenizer.json."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tq_core.model.gguf_file import GgufFile
from tq_core.model.tokenizer import TextTokenizer
from tq_core.model.transformer import DecoderModel
from tq_core.model.zoo import load_model
from tq_core.tests.model import synthetic
from tq_core.tests.model.families import folder, write_gguf

TEXT = st.text(
    st.sampled_from("theandTHEAND 'sS12345\n.,!?-") | st.characters(min_codepoint=32, max_codepoint=126)
)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[TextTokenizer, TextTokenizer]:
    """From tokenizer.json, whose rule is Qwen's, and from a GGUF file that only names it."""
    place = tmp_path_factory.mktemp("families")
    path = folder("qwen2", place)
    model = load_model(str(path))
    assert isinstance(model, DecoderModel)
    return model.tokenizer, TextTokenizer.from_gguf(GgufFile.read(write_gguf(path, place / "m.gguf")))


@given(TEXT)
def test_qwens_rule_is_that_of_its_tokenizer(both: tuple[TextTokenizer, TextTokenizer], text: str) -> None:
    ours, theirs = both[1].encode(text), both[0].encode(text)
    assert ours == theirs
    assert both[1].decode(ours) == text


def test_begin_and_special_tokens_agree(both: tuple[TextTokenizer, TextTokenizer]) -> None:
    assert both[0].begin == both[1].begin == (0,)
    assert both[0].special == both[1].special
    text = "the<|im_end|>and"
    assert both[0].encode(text) == both[1].encode(text)
    assert both[0].encode(text, parse_special=False) == both[1].encode(text, parse_special=False)


def pieces(tmp_path: Path, pre: str, text: str) -> list[str]:
    facts = synthetic.metadata() | {"tokenizer.ggml.pre": pre}
    facts["tokenizer.ggml.merges"] = [*synthetic.MERGES, "12 3", "' s", "Ċ Ċ"]
    facts["tokenizer.ggml.tokens"] = [*synthetic.TOKENS, "123", "'s", "ĊĊ", "whole"]
    facts["tokenizer.ggml.token_type"] = [*facts["tokenizer.ggml.token_type"], 1, 1, 1, 1]
    path = synthetic.write(tmp_path / f"{pre}.gguf", facts)
    tokenizer = TextTokenizer.from_gguf(GgufFile.read(path))
    return [facts["tokenizer.ggml.tokens"][number] for number in tokenizer.encode(text)]


def test_digits_stand_together_as_the_rule_says(tmp_path: Path) -> None:
    assert pieces(tmp_path, "llama-bpe", "1231 the") == ["123", "1", "Ġthe"]
    assert pieces(tmp_path, "qwen2", "123") == pieces(tmp_path, "smollm", "123") == ["1", "2", "3"]


def test_a_word_that_is_a_token_needs_no_merges_for_llama_3(tmp_path: Path) -> None:
    assert pieces(tmp_path, "llama-bpe", "whole") == ["whole"]
    assert pieces(tmp_path, "qwen2", "whole") == list("whole")


def test_lines_and_endings(tmp_path: Path) -> None:
    for rule in ("llama-bpe", "qwen2"):
        assert pieces(tmp_path, rule, "A'S\n\n1") == ["A", "'", "S", "ĊĊ", "1"]
        assert pieces(tmp_path, rule, "a's") == ["a", "'s"]


def test_qwen_composes_characters(tmp_path: Path) -> None:
    assert pieces(tmp_path, "qwen2", "e\u0301") == pieces(tmp_path, "qwen2", "é") == ["Ã", "©"]
    assert pieces(tmp_path, "llama-bpe", "e\u0301") != pieces(tmp_path, "llama-bpe", "é")
