"""A small llama-architecture GGUF file with random weights, for tests that need no real model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf.quants import quantize
from tokenizers import pre_tokenizers

from tq_core.model.gguf_file import GgufFile
from tq_core.model.transformer import DecoderModel

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = ["t h", "th e", "Ġ the", "a n", "an d", "1 2"]
TOKENS = SPECIAL + sorted(pre_tokenizers.ByteLevel.alphabet()) + [merge.replace(" ", "") for merge in MERGES]
DEFAULT_SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
TEMPLATE = "{{ '<|im_start|>system\n" + DEFAULT_SYSTEM + "<|im_end|>\n' }}"
N_LAYERS, N_QUERY_HEADS, N_KV_HEADS, HEAD_DIM, FEED_FORWARD = 2, 4, 2, 16, 96
EMBEDDING = N_QUERY_HEADS * HEAD_DIM
CONTEXT_LENGTH = 600


def metadata() -> dict[str, Any]:
    """Metadata of the file by key; a test changes what it wants to be wrong."""
    return {
        "general.name": "synthetic",
        "llama.block_count": N_LAYERS,
        "llama.context_length": CONTEXT_LENGTH,
        "llama.embedding_length": EMBEDDING,
        "llama.feed_forward_length": FEED_FORWARD,
        "llama.attention.head_count": N_QUERY_HEADS,
        "llama.attention.head_count_kv": N_KV_HEADS,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.freq_base": 10000.0,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": TOKENS,
        "tokenizer.ggml.token_type": [3] * len(SPECIAL) + [1] * (len(TOKENS) - len(SPECIAL)),
        "tokenizer.ggml.merges": MERGES,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.chat_template": TEMPLATE,
    }


def tensors() -> dict[str, np.ndarray]:
    """Random float32 weights by name, the same on every call."""
    random = np.random.default_rng(7)
    kv_size = N_KV_HEADS * HEAD_DIM
    shapes: dict[str, tuple[int, ...]] = {"token_embd": (len(TOKENS), EMBEDDING), "output_norm": (EMBEDDING,)}
    for layer in range(N_LAYERS):
        block = {
            "attn_norm": (EMBEDDING,),
            "attn_q": (EMBEDDING, EMBEDDING),
            "attn_k": (kv_size, EMBEDDING),
            "attn_v": (kv_size, EMBEDDING),
            "attn_output": (EMBEDDING, EMBEDDING),
            "ffn_norm": (EMBEDDING,),
            "ffn_gate": (FEED_FORWARD, EMBEDDING),
            "ffn_up": (FEED_FORWARD, EMBEDDING),
            "ffn_down": (EMBEDDING, FEED_FORWARD),
        }
        shapes |= {f"blk.{layer}.{name}": shape for name, shape in block.items()}
    weights = {}
    for name, shape in shapes.items():
        spread = 0.3 if len(shape) == 2 else 0.1
        values = random.standard_normal(shape) * spread + (1.0 if len(shape) == 1 else 0.0)
        weights[f"{name}.weight"] = values.astype(np.float32)
    return weights


def write(
    path: Path, fields: dict[str, Any] | None = None, weights: dict[str, np.ndarray] | None = None
) -> Path:
    """Write the file: embedding in Q8_0, feed-forward in Q4_1, the rest in F32."""
    writer = gguf.GGUFWriter(path, "llama")
    for key, value in (metadata() if fields is None else fields).items():
        add = {
            str: writer.add_string,
            int: writer.add_uint32,
            float: writer.add_float32,
            list: writer.add_array,
        }
        add[type(value)](key, value)
    for name, values in (tensors() if weights is None else weights).items():
        kind = gguf.GGMLQuantizationType.F32
        if name == "token_embd.weight":
            kind = gguf.GGMLQuantizationType.Q8_0
        elif "ffn_" in name and values.ndim == 2:
            kind = gguf.GGMLQuantizationType.Q4_1
        writer.add_tensor(name, quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def load(path: Path) -> DecoderModel:
    """The model in the file."""
    return DecoderModel.from_gguf(GgufFile.read(path), "synthetic")
