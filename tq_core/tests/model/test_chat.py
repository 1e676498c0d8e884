"""The conversation formats, each as its models' templates write it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tq_core.errors import ValueRangeError
from tq_core.model.chat import Message, chat_tokens, conversation_format, has_conversations, stop_ids
from tq_core.model.transformer import DecoderModel
from tq_core.model.zoo import load_model
from tq_core.tests.model.families import folder

TURNS = [
    Message("system", " be kind "),
    Message("user", "hi <|im_end|><|eot_id|><end_of_turn>"),
    Message("assistant", "the 1"),
    Message("user", "and\n"),
]
SAID = "hi <|im_end|><|eot_id|><end_of_turn>"
QWEN = "{{- '<|im_start|>system\\nYou are the one.<|im_end|>\\n' }}{{ '<|im_start|>' + message.role }}"
LLAMA3 = "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>' }}"
GEMMA = "{{ '<start_of_turn>' + role + '\\n' }}"
WRITTEN = {
    "chatml": (
        QWEN,
        "<|begin_of_text|><|im_start|>system\n be kind <|im_end|>\n"
        f"<|im_start|>user\n{SAID}<|im_end|>\n<|im_start|>assistant\nthe 1<|im_end|>\n"
        "<|im_start|>user\nand\n<|im_end|>\n<|im_start|>assistant\n",
        (6, 1, 4),
    ),
    "llama3": (
        LLAMA3,
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nbe kind<|eot_id|>"
        f"<|start_header_id|>user<|end_header_id|>\n\n{SAID}<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\nthe 1<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nand<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
        (4, 1),
    ),
    "gemma": (
        GEMMA,
        f"<|begin_of_text|><start_of_turn>user\nbe kind\n\n{SAID}<end_of_turn>\n"
        "<start_of_turn>model\nthe 1<end_of_turn>\n<start_of_turn>user\nand<end_of_turn>\n<start_of_turn>model\n",
        (8, 1, 4),
    ),
}


def model(tmp_path: Path, template: str) -> DecoderModel:
    path = folder("llama", tmp_path)
    if template:
        (path / "chat_template.jinja").write_text(template)
    loaded = load_model(str(path))
    assert isinstance(loaded, DecoderModel)
    return loaded


@pytest.mark.parametrize("name", WRITTEN)
def test_each_format_is_written_as_its_template_does(tmp_path: Path, name: str) -> None:
    template, text, ends = WRITTEN[name]
    tokenizer = model(tmp_path, template).tokenizer
    used = conversation_format(tokenizer)
    assert used is not None and used.name == name
    ids = chat_tokens(tokenizer, TURNS)
    assert tokenizer.decode(ids) == text
    # What a message says is text: no turn ends in it.
    assert ids.count(tokenizer.special[used.end]) == (3 if name == "gemma" else 4)
    assert stop_ids(tokenizer) == ends
    # Apart from that message, the ids are those of the text in one piece.
    plain = [TURNS[2], TURNS[3]]
    assert chat_tokens(tokenizer, plain) == tokenizer.encode(tokenizer.decode(chat_tokens(tokenizer, plain)))


def test_a_templates_own_system_message_is_said_when_there_is_none(tmp_path: Path) -> None:
    tokenizer = model(tmp_path, QWEN).tokenizer
    ids = chat_tokens(tokenizer, TURNS[3:])
    assert tokenizer.decode(ids).startswith(
        "<|begin_of_text|><|im_start|>system\nYou are the one.<|im_end|>\n"
    )
    assert "You are" not in tokenizer.decode(chat_tokens(tokenizer, TURNS))


def test_tokens_without_a_template_are_a_base_models(tmp_path: Path) -> None:
    tokenizer = model(tmp_path, "").tokenizer
    assert "<start_of_turn>" in tokenizer.special and not has_conversations(tokenizer)
    assert stop_ids(tokenizer) == (1, 4)
    with pytest.raises(ValueRangeError, match="chatml, llama3, gemma"):
        chat_tokens(tokenizer, TURNS)


def test_a_template_of_another_format_is_not_guessed_at(tmp_path: Path) -> None:
    assert not has_conversations(model(tmp_path, "[INST] {{ message }} [/INST]").tokenizer)


def test_a_template_among_the_tokenizers_settings_is_found(tmp_path: Path) -> None:
    path = folder("llama", tmp_path)
    for number, value in enumerate(
        ('"<start_of_turn>"', '[{"name": "default", "template": "<start_of_turn>"}]')
    ):
        settings = path / "tokenizer_config.json"
        settings.write_text(f'{{"chat_template": {value}, "n": {number}}}')
        loaded = load_model(str(path))
        assert isinstance(loaded, DecoderModel) and has_conversations(loaded.tokenizer)
