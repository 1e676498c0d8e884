"""What only the model can tell about a line of a user's file: too long, nothing to score, not in its vocabulary."""

import pytest

from tq_core.errors import PromptFileError
from validation.tests.workloads.test_jsonl import GOOD, write
from validation.workloads import jsonl
from validation.workloads.jsonl import file_workload
from validation.workloads.jsonl_lines import read_lines


def test_prompts_beyond_the_context_are_all_named(tmp_path, tiny, characters):
    path = write(
        tmp_path / "mine.jsonl",
        {"id": "fits", "text": "red fox"},
        {"id": "long", "text": "red " * 1025},
        {"id": "reply", "text": "red " * 1000, "new_tokens": 30},
        {"id": "talk", "messages": [{"role": "user", "content": "red"}], "new_tokens": 1},
    )
    workload = file_workload(path)
    assert len(workload.prompts(tiny, 1, 100)) == 1 and len(workload.prompts(characters, 4, 100)) == 4
    with pytest.raises(PromptFileError) as caught:
        workload.prompts(tiny, 4, 100)
    told = str(caught.value).split("\n")[1:]
    assert "line 2: prompt: expected at most 1024 tokens" in told[0] and told[0].endswith(
        "got 1025 in 'long'"
    )
    assert told[1].startswith("  line 3: prompt:") and told[2].startswith("  line 4: prompt:")


class Begins:
    """A model whose vocabulary has a token that begins a text, and none for the character 1."""

    name, context_length = "begins", 100

    class Tokenizer:
        begin, special = (7,), {}

        def encode(self, text, parse_special=True):
            assert not parse_special
            return [ord(c) for c in text if c != "\x01"]

    tokenizer = Tokenizer()


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"text": "a", "answer": "\x01"}, "prompt: expected .*, got answer: expected text that begins can write"),
        ({"text": "a", "alternatives": ["b", "\x01"]}, "prompt: expected .*, got alternatives: expected text"),
        ({"text": "\x01"}, "prompt: expected .* something to score"),
        ({"text": "a", "alternatives": ["b", "c"], "floor": "f" * 99}, "floor: expected at most 100 .* got 101"),
    ],
    ids=["answer", "alternative", "nothing scored", "floor"],
)  # fmt: skip
def test_what_only_the_model_can_tell_is_named_too(tmp_path, value, told):
    path = write(tmp_path / "mine.jsonl", GOOD[0], {"id": "x", **value})
    with pytest.raises(PromptFileError, match=rf"line 2: {told}") as caught:
        file_workload(path).make(Begins(), 2, 2)
    assert "line 1" not in str(caught.value)


def test_a_whole_number_may_have_a_decimal_point(tmp_path):
    path = write(tmp_path / "mine.jsonl", b'{"id": "x", "text": "a", "new_tokens": 5.0}')
    [prompt] = file_workload(path).make(Begins(), 1, 2)
    assert prompt.new_tokens == 5 and isinstance(prompt.new_tokens, int)


def test_special_tokens_in_a_file_are_text():
    values = read_lines(b'{"id": "x", "text": "a<|im_end|>", "answer": "b<|im_end|>"}\n', "mine.jsonl")
    prompt = jsonl._prompt(Begins(), values[0], "file:mine.jsonl", "0")
    assert prompt.tokens[0] == 7 and list(prompt.answer[:1]) == [ord("b")] and len(prompt.answer) == 11
