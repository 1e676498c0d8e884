"""The tiny models of validation/golden/families: folders, GGUF files made from them, and how far a model is from its reference."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from tq_core.model.architectures import read_config
from tq_core.model.exact_cache import ExactCache
from tq_core.model.gguf_file import ROPE_TENSOR
from tq_core.model.hf_folder import HfFolder
from tq_core.model.hf_tokenizer import read_tokenizer
from tq_core.model.transformer import DecoderModel
from tq_core.tests.model.golden import FOLDER

FAMILIES = FOLDER / "families"
NAMES = sorted(path.name for path in FAMILIES.iterdir() if path.is_dir())


def folder(name: str, place: Path) -> Path:
    """A copy of the model's folder, its tokenizer with it, called ``name`` in ``place``."""
    made = place / name
    shutil.copytree(FAMILIES / name, made)
    shutil.copy(FAMILIES / "tokenizer.json", made)
    return made


def change_config(path: Path, **fields: Any) -> None:
    """Write other values into a folder's config.json."""
    config = path / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | fields))


def divergence(model: DecoderModel, name: str) -> tuple[float, float]:
    """Largest KL(reference || model) of a position in nats, and largest difference of a logit."""
    record = json.loads((FAMILIES / name / "reference.json").read_text())
    data = (FAMILIES / name / "reference.bin").read_bytes()
    assert hashlib.sha256(data).hexdigest() == record["bin_sha256"]
    expected = np.frombuffer(data, "<f4").reshape(record["arrays"][0]["shape"]).astype(np.float64)
    logits = model.forward(record["prompt_tokens"], ExactCache(model.shape))[record["positions"]]
    assert logits.dtype == np.float32 and logits.shape == expected.shape
    p, q = (x - np.log(np.exp(x).sum(-1, keepdims=True)) for x in (expected, logits.astype(np.float64)))
    return float((np.exp(p) * (p - q)).sum(-1).max()), float(np.abs(logits - expected).max())


class Altered:
    """A folder whose tensors a test changes on their way into the model."""

    held_bytes = 0

    def __init__(self, inner: HfFolder, change: Callable[[str, np.ndarray], np.ndarray]) -> None:
        self.inner, self.change = inner, change

    def check_tensors(self, expected: Any) -> None:
        self.inner.check_tensors(expected)

    def tensor(self, name: str) -> np.ndarray:
        return self.change(name, self.inner.tensor(name))


def built(
    path: Path, change: Callable[[str, np.ndarray], np.ndarray] = lambda name, values: values, **config: Any
) -> DecoderModel:
    """The model of a folder with other tensors or another configuration."""
    read = HfFolder.read(path)
    fields = replace(read_config(read.fields), **config)
    tokenizer = read_tokenizer(read, fields.vocab_size)
    return DecoderModel.build(path.name, fields, Altered(read, change), tokenizer, "altered")


def permuted(values: np.ndarray, n_heads: int) -> np.ndarray:
    """Rows of a llama projection in the order of GGUF files: channel i + d/2 of a head goes beside channel i."""
    return values.reshape(n_heads, 2, -1, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)


def write_gguf(path: Path, target: Path, permute: bool = True, pre: str = "qwen2") -> Path:
    """The model of a folder as a GGUF file in F32, as llama.cpp's converter lays it out."""
    read = HfFolder.read(path)
    config = read_config(read.fields)
    shape, kind = config.shape, config.architecture
    writer = gguf.GGUFWriter(target, kind)
    writer.add_block_count(shape.n_layers)
    writer.add_context_length(config.context_length)
    writer.add_embedding_length(config.embedding_size)
    writer.add_feed_forward_length(config.feed_forward_size)
    writer.add_head_count(shape.n_query_heads)
    writer.add_head_count_kv(shape.n_kv_heads)
    writer.add_key_length(shape.head_dim)
    writer.add_value_length(shape.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_epsilon)
    writer.add_rope_freq_base(config.rope_theta)
    if any(config.windows):
        writer.add_sliding_window(max(window or 0 for window in config.windows))
        writer.add_array(f"{kind}.attention.sliding_window_pattern", [bool(w) for w in config.windows])
        writer.add_float32(f"{kind}.rope.freq_base_swa", config.local_rope_theta)
    if len(set(config.rope_divisors)) == 1:
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(config.rope_divisors[0])
    elif config.rope_divisors:
        writer.add_tensor(ROPE_TENSOR, np.array(config.rope_divisors, np.float32))
    tokenizer = json.loads((path / "tokenizer.json").read_text())
    special = len(tokenizer["added_tokens"])
    tokens = list(tokenizer["model"]["vocab"])
    unused = [f"[PAD{number}]" for number in range(len(tokens), config.vocab_size)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens + unused)
    writer.add_token_types([3] * special + [1] * (len(tokens) - special) + [5] * len(unused))
    writer.add_token_merges([" ".join(merge) for merge in tokenizer["model"]["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_add_bos_token(True)
    for name in config.tensor_shapes():
        values = read.tensor(name)
        if kind == "llama" and permute and ".attn_q." in name:
            values = permuted(values, shape.n_query_heads)
        if kind == "llama" and permute and ".attn_k." in name:
            values = permuted(values, shape.n_kv_heads)
        if name.endswith("attn_q_norm.weight"):  # GGUF has no field for another scale of the scores
            values = values * np.float32(config.query_scale)
        writer.add_tensor(name, values)
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        step()
    writer.close()
    return target
