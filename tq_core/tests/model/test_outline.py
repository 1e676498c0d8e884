"""Outlines of known models and of files; what is broken, hostile or of another kind is refused by name."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import gguf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tq_core.errors import ModelFileError, ValueRangeError
from tq_core.model.outline import KNOWN, known
from tq_core.model.outline_files import CONFIG_BYTES, outline_config, outline_gguf, read_outline
from tq_core.model.sources import SMOLLM2, model_path
from tq_core.model.tiny import TINY
from tq_core.shapes import ModelShape

CONFIG = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "max_position_embeddings": 131072,
}
GEMMA = {
    "gemma3.block_count": 18,
    "gemma3.attention.head_count": 4,
    "gemma3.attention.head_count_kv": 1,
    "gemma3.attention.key_length": 256,
    "gemma3.attention.value_length": 256,
    "gemma3.attention.sliding_window": 512,
    "gemma3.context_length": 32768,
    "gemma3.embedding_length": 640,
}


def write_gguf(path: Path, fields: dict[str, int], architecture: str = "gemma3") -> Path:
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name("a model")
    for key, value in fields.items():
        writer.add_uint32(key, value)
    writer.add_array("tokenizer.ggml.tokens", [f"word {i}" for i in range(2000)])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def test_known_models() -> None:
    assert known("tiny").shape == TINY.shape
    assert known("llama-8b").shape == ModelShape(32, 32, 8, 128)
    assert all(outline.source for outline in KNOWN.values())
    with pytest.raises(ValueRangeError, match="model: expected one of llama-8b"):
        known("gpt")


@pytest.mark.model
def test_smollm2_is_what_its_file_says() -> None:
    path = model_path(SMOLLM2)
    if not path.exists():
        pytest.skip("not exercised: the real model's file is not here")
    read, card = read_outline(path), known("smollm2")
    assert (read.shape, read.context_length) == (card.shape, card.context_length)


def test_config_json(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    for path in (tmp_path, tmp_path / "config.json"):
        outline = read_outline(path)
        assert outline.shape == known("llama-8b").shape
        assert outline.context_length == 131072
        assert (outline.local_layers, outline.remark) == (0, "")
    assert outline_config({**CONFIG, "head_dim": 64}, "c").shape.head_dim == 64
    assert outline_config({**CONFIG, "num_key_value_heads": None}, "c").shape.n_kv_heads == 32
    assert outline_config({"text_config": CONFIG, "model_type": "vision"}, "c").shape.n_layers == 32


@pytest.mark.parametrize(
    "fields, local, remark",
    [
        ({"sliding_window": None}, 0, ""),
        ({"sliding_window": 4096, "use_sliding_window": False}, 0, ""),
        ({"sliding_window": 4096, "model_type": "mistral"}, 32, ""),
        ({"sliding_window": 512, "sliding_window_pattern": 6}, 27, ""),
        ({"sliding_window": 512, "layer_types": ["sliding_attention", "full_attention"] * 16}, 16, ""),
        ({"sliding_window": 512}, 0, "not for which layers"),
    ],
)
def test_sliding_windows_of_a_config(fields: dict[str, Any], local: int, remark: str) -> None:
    outline = outline_config({**CONFIG, **fields}, "config.json")
    assert outline.local_layers == local
    assert (outline.sliding_window > 0) == (local > 0)
    assert remark in outline.remark and bool(remark) == bool(outline.remark)


def test_gguf_of_any_architecture(tmp_path: Path) -> None:
    outline, card = read_outline(write_gguf(tmp_path / "m.gguf", GEMMA)), known("gemma3-270m")
    assert (outline.shape, outline.context_length) == (card.shape, card.context_length)
    assert (outline.local_layers, outline.sliding_window) == (card.local_layers, card.sliding_window)
    plain = {key.replace("gemma3", "qwen2"): value for key, value in GEMMA.items() if "key_" not in key}
    plain["qwen2.embedding_length"] = 4 * 128
    other = read_outline(write_gguf(tmp_path / "q.gguf", plain, "qwen2"))
    assert other.shape.head_dim == 128
    assert "not for which layers" in other.remark


def test_every_truncation_of_a_gguf_is_refused(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", GEMMA)
    data = path.read_bytes()
    for size in (*range(0, 600, 7), len(data) - 40):
        path.write_bytes(data[:size])
        with pytest.raises(ModelFileError):
            read_outline(path)


def test_a_gguf_that_promises_too_much_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    key = b"general.architecture"
    body = struct.pack("<Q", len(key)) + key + struct.pack("<IQ", 8, 1 << 60)
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + body)
    with pytest.raises(ModelFileError, match="length of general.architecture"):
        read_outline(path)


@pytest.mark.parametrize(
    "change, names",
    [
        ({"num_hidden_layers": 0}, "num_hidden_layers"),
        ({"num_hidden_layers": True}, "num_hidden_layers"),
        ({"num_hidden_layers": "32"}, "num_hidden_layers"),
        ({"num_hidden_layers": 10**9}, "layers"),
        ({"num_attention_heads": 30}, "hidden_size"),
        ({"num_key_value_heads": 7}, "n_query_heads"),
        ({"num_key_value_heads": [8, 4]}, "num_key_value_heads"),
        ({"hidden_size": 32 * 20}, "head_dim"),
        ({"head_dim": 1024}, "head_dim"),
        ({"kv_lora_rank": 512}, "kv_lora_rank"),
        ({"layer_types": ["full_attention"]}, "layer_types"),
        ({"sliding_window": -1}, "sliding_window"),
        ({"sliding_window": 1 << 35, "model_type": "mistral"}, "sliding window"),
        ({"max_position_embeddings": 1.5}, "max_position_embeddings"),
    ],
)
def test_a_wrong_config_is_refused_by_field(change: dict[str, Any], names: str) -> None:
    with pytest.raises(ModelFileError, match=names):
        outline_config({**CONFIG, **change}, "config.json")


@pytest.mark.parametrize(
    "change, names",
    [
        ({"gemma3.attention.value_length": 128}, "value_length"),
        ({"gemma3.attention.kv_lora_rank": 512}, "kv_lora_rank"),
        ({"gemma3.block_count": None}, "block_count"),
        ({"gemma3.attention.head_count_kv": [1, 2]}, "head_count_kv"),
        ({"general.architecture": 3}, "general.architecture"),
    ],
)
def test_wrong_metadata_are_refused_by_field(change: dict[str, Any], names: str) -> None:
    with pytest.raises(ModelFileError, match=names):
        outline_gguf({"general.architecture": "gemma3", **GEMMA, **change}, "m.gguf")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{",
        b"\xff\xfe",
        b"null",
        b"[" * 100_000,
        b'{"a": ' + b"9" * 5000 + b"}",
        b" " * (CONFIG_BYTES + 1),
    ],
    ids=lambda d: f"{d[:6]!r}-{len(d)}",
)
def test_what_is_no_config_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(data)
    with pytest.raises(ModelFileError):
        read_outline(path)


def test_no_file_a_folder_without_one_and_a_pipe_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "none.gguf", tmp_path / "pipe"):
        with pytest.raises(ModelFileError, match="model file"):
            read_outline(path)


def test_a_name_from_a_file_cannot_write_to_the_terminal() -> None:
    outline = outline_config({**CONFIG, "_name_or_path": "\x1b[31mred\n" + "x" * 500}, "config.json")
    assert outline.name.isprintable() and len(outline.name) == 80


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=120, deadline=None, derandomize=True)
@given(
    st.dictionaries(
        st.sampled_from([*CONFIG, "text_config", "layer_types", "sliding_window", "head_dim"]), _JSON
    )
)
def test_any_config_is_read_or_refused(change: dict[str, Any]) -> None:
    try:
        outline = outline_config({**CONFIG, **change}, "config.json")
    except ModelFileError:
        return
    assert 0 <= outline.local_layers <= outline.shape.n_layers
