"""Folders and files that are no model, or not a whole one: refused, with the field that is wrong."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tq_core.errors import ModelFileError
from tq_core.model.zoo import load_model
from tq_core.tests.model.families import change_config, folder
from tq_core.tests.model.test_own_models import load


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
