"""A model by its path: what is read, and how it is called."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from tq_core.errors import ModelUnavailable, ValueRangeError
from tq_core.model import memory
from tq_core.model.hf_folder import HfFolder
from tq_core.model.transformer import DecoderModel
from tq_core.model.zoo import is_model_path, load_model
from tq_core.tests.model.families import change_config, folder, write_gguf


def load(path: Path) -> DecoderModel:
    model = load_model(str(path))
    assert isinstance(model, DecoderModel)
    return model


def test_what_looks_like_a_name_is_not_searched_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [is_model_path(name) for name in ("tiny", "m.gguf", "a/b", "./m", "config.json")] == [False] + [
        True
    ] * 4
    folder("llama", tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueRangeError, match="a path with a slash"):
        load_model("llama")
    assert load_model("./llama").name == "llama"


def test_a_folder_or_a_file_in_it_is_the_same_model(tmp_path: Path) -> None:
    path = folder("qwen2", tmp_path)
    model = load(path)
    assert load(path) is model and load(path / "config.json") is model
    assert load(path / "model-00002-of-00003.safetensors") is model
    assert model.context_length == 128 and model.vocab_size == 128
    assert not any(array.flags.writeable for array in (model.weights.embedding, model.weights.output_norm))


def test_a_folder_called_like_a_known_model_is_not_taken_for_it(tmp_path: Path) -> None:
    path = folder("llama", tmp_path).rename(tmp_path / "tiny")
    assert load(path).name == "tiny (folder)"


def test_the_digest_is_of_every_file(tmp_path: Path) -> None:
    path = folder("qwen2", tmp_path)
    seen = [load(path).digest]
    copied = tmp_path / "copy"
    shutil.copytree(path, copied)
    assert load(copied).digest == seen[0]
    shard = path / "model-00003-of-00003.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1] + b"\x01")
    seen.append(load(path).digest)
    change_config(path, rms_norm_eps=1e-5)
    seen.append(load(path).digest)
    tokenizer = path / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text() + "\n")
    seen.append(load(path).digest)
    assert len(set(seen)) == 4


def test_settings_of_the_tokenizer_do_not_cut_a_text(tmp_path: Path) -> None:
    path = folder("qwen3", tmp_path)
    plain = load(path).tokenize("the and " * 9)
    tokenizer = json.loads((path / "tokenizer.json").read_text())
    tokenizer["truncation"] = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    tokenizer["padding"] = {
        "strategy": {"Fixed": 99}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0,
        "pad_token": "<|begin_of_text|>",
    }  # fmt: skip
    (path / "tokenizer.json").write_text(json.dumps(tokenizer))
    model = load(path)
    assert model.tokenize("the and " * 9) == plain and plain[0] == 0 and len(plain) == 20
    assert model.detokenize(plain[1:]) == "the and " * 9
    assert model.detokenize([5, 127]) == "<|im_start|>"  # 127 is a row of the embedding, and no token
    literal = model.tokenizer.encode("<|im_start|>", parse_special=False)
    assert 5 not in literal and model.tokenizer.encode("<|im_start|>") == [5]


def test_what_ends_a_text_comes_from_the_generation_settings_first(tmp_path: Path) -> None:
    path = folder("llama", tmp_path)
    assert load(path).tokenizer.end_ids == (1, 4)
    (path / "generation_config.json").write_text('{"eos_token_id": 6}')
    assert load(path).tokenizer.end_ids == (6,)


def test_configurations_of_older_libraries_say_the_same(tmp_path: Path) -> None:
    path = folder("llama", tmp_path)
    new = load(path).config
    scaling = json.loads((path / "config.json").read_text())["rope_parameters"]
    theta = scaling.pop("rope_theta")
    change_config(path, rope_parameters=None, rope_theta=theta, rope_scaling=scaling)
    assert load(path).config == new
    path = folder("gemma3", tmp_path)
    new = load(path).config
    old = {
        "rope_theta": 1000.0,
        "rope_local_base_freq": 100.0,
        "rope_scaling": {"rope_type": "linear", "factor": 2.0},
    }
    change_config(path, rope_parameters=None, **old)
    assert load(path).config == new


def test_tables_and_doubled_embeddings_of_old_checkpoints_are_passed_over(tmp_path: Path) -> None:
    path = folder("llama-linear", tmp_path)
    plain = load(path)
    change_config(path, tie_word_embeddings=True)
    tied = load(path)
    assert (
        tied.weights.output is tied.weights.embedding and plain.weights.output is not plain.weights.embedding
    )
    data = (path / "model.safetensors").read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    size = len(data) - end
    table = {"dtype": "F32", "shape": [8], "data_offsets": [size, size + 32]}
    header["model.layers.1.self_attn.rotary_emb.inv_freq"] = table
    text = json.dumps(header).encode()
    (path / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data[end:] + bytes(32))
    assert "model.layers.1.self_attn.rotary_emb.inv_freq" not in HfFolder.read(path).where
    assert np.array_equal(load(path).weights.blocks[1].down, tied.weights.blocks[1].down)


def test_more_than_the_machines_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder("qwen3", tmp_path)
    gguf = write_gguf(path, tmp_path / "m.gguf")
    needed = load(path).config.weight_bytes
    assert memory.machine_bytes() is None or memory.machine_bytes() > 1 << 28  # type: ignore[operator]
    monkeypatch.setattr(memory, "machine_bytes", lambda: needed - 1)
    os.utime(path / "config.json")
    for model in (path, gguf):
        with pytest.raises(
            ModelUnavailable, match="memory: expected weights of .* in float32|memory: expected m.gguf"
        ):
            load_model(str(model))
    monkeypatch.setattr(memory, "machine_bytes", lambda: needed)
    assert load(path).config.weight_bytes == needed
