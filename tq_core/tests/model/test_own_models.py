"""A model by its path: what is read, how it is called, and refusal of folders that are not what they should be."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tq_core.errors import ModelFileError, ModelUnavailable, ValueRangeError
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


def written(name: str, text: str) -> Callable[[Path], None]:
    return lambda path: (path / name).write_text(text) and None  # type: ignore[func-returns-value]


def without(name: str) -> Callable[[Path], None]:
    return lambda path: (path / name).unlink()


def config(**fields: Any) -> Callable[[Path], None]:
    return lambda path: change_config(path, **fields)


def index(change: Callable[[dict[str, str]], None]) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        file = path / "model.safetensors.index.json"
        content = json.loads(file.read_text())
        change(content["weight_map"])
        file.write_text(json.dumps(content))

    return apply


def truncated(path: Path) -> None:
    shard = path / "model-00002-of-00003.safetensors"
    os.truncate(shard, shard.stat().st_size - 1)


def tokenizer(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        content = json.loads((path / "tokenizer.json").read_text())
        change(content)
        (path / "tokenizer.json").write_text(json.dumps(content))

    return apply


YARN = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 1e4,
    "factor": 4.0,
    "low_freq_factor": 4.0,
    "high_freq_factor": 1.0,
}
WRONG: dict[str, tuple[Callable[[Path], None], str]] = {
    "no config": (without("config.json"), "a file config.json"),
    "no tokenizer": (without("tokenizer.json"), "tokenizer.json"),
    "no index": (without("model.safetensors.index.json"), "model.safetensors.index.json and its files"),
    "no shard": (without("model-00003-of-00003.safetensors"), "a file model-00003-of-00003.safetensors beside it"),
    "a shard cut short": (truncated, "size of model-00002"),
    "index of no object": (written("model.safetensors.index.json", "[]"), "JSON object"),
    "index without a map": (written("model.safetensors.index.json", "{}"), "weight_map"),
    "index with numbers": (written("model.safetensors.index.json", '{"weight_map": {"a": 1}}'), "weight_map"),
    "index that leaves the folder": (
        index(lambda places: places.update({"model.norm.weight": "../model-00001-of-00003.safetensors"})),
        "plain name",
    ),
    "index with another place": (
        index(lambda places: places.update({"model.norm.weight": "model-00001-of-00003.safetensors"})),
        "place of model.norm.weight",
    ),
    "index with a tensor more": (
        index(lambda places: places.update({"model.more": "model-00001-of-00003.safetensors"})),
        "model.more",
    ),
    "index with a tensor less": (index(lambda places: places.pop("model.norm.weight") and None), "place of model.norm"),
    "config of no JSON": (written("config.json", "{"), "config.json: expected JSON"),
    "config of no text": (lambda path: (path / "config.json").write_bytes(b"\xff\xfe") and None, "UTF-8"),
    "deep config": (written("config.json", "[" * 100_000), "config.json: expected JSON"),
    "family": (config(model_type="mamba"), "model_type: expected one of llama, qwen2, qwen3, gemma, gemma3_text, got 'mamba'"),
    "no family": (config(model_type=None), "model_type"),
    "another family": (config(model_type="llama"), "attn_k.bias|attn_q.bias|attn_v.bias"),
    "missing tensors": (config(num_hidden_layers=3), "blk.2.attn_norm.weight: expected a tensor"),
    "tensors left": (config(num_hidden_layers=1), "blk.1"),
    "other shapes": (config(intermediate_size=32), "shape of model.layers.0.mlp.gate_proj.weight"),
    "other heads": (config(num_attention_heads=4), "shape of model.layers.0.self_attn.q_proj.weight"),
    "heads that do not divide": (config(num_attention_heads=3, num_key_value_heads=2), "attention shape"),
    "no layers": (config(num_hidden_layers=0), "num_hidden_layers"),
    "layers as text": (config(num_hidden_layers="2"), "num_hidden_layers"),
    "layers as a flag": (config(num_hidden_layers=True), "num_hidden_layers"),
    "epsilon": (config(rms_norm_eps=float("nan")), "rms_norm_eps"),
    "vocabulary": (config(vocab_size=64), "ids in 0..63"),
    "yarn": (config(rope_parameters=YARN), "rope_type: expected one of default, linear, llama3, got 'yarn'"),
    "yarn, old form": (config(rope_parameters=None, rope_scaling={"type": "yarn", "factor": 4.0}), "rope_type"),
    "scaling without a factor": (config(rope_parameters={"rope_type": "linear"}), "factor"),
    "scaling turned round": (config(rope_parameters=LLAMA3 | {"original_max_position_embeddings": 32}), "high_freq_factor"),
    "scaling as text": (config(rope_parameters="linear"), "rope_parameters"),
    "quantised weights": (config(quantization_config={"bits": 4}), "quantization_config"),
    "soft capping": (config(attn_logit_softcapping=50.0), "attn_logit_softcapping"),
    "sliding window": (config(use_sliding_window=True), "use_sliding_window"),
    "activation": (config(hidden_act="relu"), "hidden_act: expected None or silu"),
    "end token": (config(eos_token_id=128), "eos_token_id"),
    "no end token": (config(eos_token_id=None), "eos_token_id"),
    "end tokens": (config(eos_token_id=[]), "eos_token_id"),
    "tokenizer of no JSON": (written("tokenizer.json", "no"), "tokenizer.json: expected a tokenizer"),
    "tokenizer of another kind": (written("tokenizer.json", '{"model": {"type": "None"}}'), "expected a tokenizer"),
    "tokenizer with odd merges": (
        tokenizer(lambda content: content["model"].update(merges=["no such pair"])),
        "expected a tokenizer",
    ),
    "tokens behind a text": (
        tokenizer(lambda content: content["post_processor"]["single"].reverse()),
        "tokens before a text only",
    ),
    "template": (written("tokenizer_config.json", '{"chat_template": 5}'), "chat_template"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_folders_are_refused_by_name(tmp_path: Path, case: str) -> None:
    change, field = WRONG[case]
    path = folder("qwen2", tmp_path)
    change(path)
    with pytest.raises(ModelFileError, match=field) as caught:
        load(path)
    assert "expected" in str(caught.value) and "got" in str(caught.value)


def test_gemmas_layers_must_be_known(tmp_path: Path) -> None:
    path = folder("gemma3", tmp_path)
    for kinds, field in (
        (["chunked_attention"] * 2, "layer_types"),
        (["full_attention"], "2 entries"),
        ("x", "list"),
    ):
        change_config(path, layer_types=kinds)
        with pytest.raises(ModelFileError, match=field):
            load(path)
    change_config(path, layer_types=None, sliding_window_pattern=2)
    assert load(path).config.windows == (12, None)
    change_config(path, sliding_window_pattern=None)
    assert load(path).config.windows == (12, 12)
    change_config(path, final_logit_softcapping=30.0)
    with pytest.raises(ModelFileError, match="final_logit_softcapping"):
        load(path)


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


@pytest.mark.parametrize(
    "name", ["./none.gguf", "/none/at/all", "~nobody-of-that-name/x", "a\0b/c", "/dev/null"]
)
def test_a_path_to_nothing_is_refused(name: str) -> None:
    with pytest.raises(ModelFileError, match="expected .*got"):
        load_model(name)


def test_other_files_are_refused(tmp_path: Path) -> None:
    for name in ("m.gguf", "m.bin"):
        (tmp_path / name).write_bytes(b"not a model, whatever it is called")
        with pytest.raises(ModelFileError, match="GGUF magic"):
            load_model(str(tmp_path / name))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelFileError, match="a file config.json"):
        load_model(str(tmp_path / "empty"))
