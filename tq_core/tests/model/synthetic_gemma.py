"""A small gemma3 GGUF file with random weights and a SentencePiece vocabulary that can be checked by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np

from tq_core.model.gguf_file import GgufFile
from tq_core.model.transformer import DecoderModel

SPECIAL = ["<pad>", "<eos>", "<bos>", "<unk>", "<turn>"]
USER_DEFINED = ["\n", "\n\n", "  ", "   ", "<h1>"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
# Best score first.
PIECES = ["▁t", "he", "▁the", "ab", "aba", "bab", "<e", "os", "<eos", *"▁abcdefghijklmnopqrstuvwxyz<>0", "é"]
TOKENS = SPECIAL + USER_DEFINED + BYTES + PIECES
KINDS = [3] * len(SPECIAL) + [4] * len(USER_DEFINED) + [6] * len(BYTES) + [1] * len(PIECES)
KINDS[TOKENS.index("<unk>")] = 2
SCORES = [-1000.0] * (len(TOKENS) - len(PIECES)) + [-float(rank) for rank in range(len(PIECES))]
N_LAYERS, N_QUERY_HEADS, HEAD_DIM, EMBEDDING, FEED_FORWARD, WINDOW = 7, 4, 32, 64, 96, 24


def metadata() -> dict[str, Any]:
    """Metadata of the file by key; a test changes what it wants to be wrong."""
    return {
        "general.name": "synthetic gemma",
        "gemma3.block_count": N_LAYERS,
        "gemma3.context_length": 400,
        "gemma3.embedding_length": EMBEDDING,
        "gemma3.feed_forward_length": FEED_FORWARD,
        "gemma3.attention.head_count": N_QUERY_HEADS,
        "gemma3.attention.head_count_kv": 1,
        "gemma3.attention.key_length": HEAD_DIM,
        "gemma3.attention.value_length": HEAD_DIM,
        "gemma3.attention.layer_norm_rms_epsilon": 1e-6,
        "gemma3.attention.sliding_window": WINDOW,
        "gemma3.rope.freq_base": 1000000.0,
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": TOKENS,
        "tokenizer.ggml.scores": SCORES,
        "tokenizer.ggml.token_type": KINDS,
        "tokenizer.ggml.bos_token_id": 2,
        "tokenizer.ggml.eos_token_id": 1,
        "tokenizer.ggml.unknown_token_id": 3,
        "tokenizer.ggml.add_space_prefix": False,
    }


def tensors() -> dict[str, np.ndarray]:
    """Random float32 weights by name, the same on every call."""
    random = np.random.default_rng(17)
    shapes: dict[str, tuple[int, ...]] = {"token_embd": (len(TOKENS), EMBEDDING), "output_norm": (EMBEDDING,)}
    block: dict[str, tuple[int, ...]] = {
        "attn_norm": (EMBEDDING,),
        "attn_q": (N_QUERY_HEADS * HEAD_DIM, EMBEDDING),
        "attn_k": (HEAD_DIM, EMBEDDING),
        "attn_v": (HEAD_DIM, EMBEDDING),
        "attn_q_norm": (HEAD_DIM,),
        "attn_k_norm": (HEAD_DIM,),
        "attn_output": (EMBEDDING, N_QUERY_HEADS * HEAD_DIM),
        "post_attention_norm": (EMBEDDING,),
        "ffn_norm": (EMBEDDING,),
        "ffn_gate": (FEED_FORWARD, EMBEDDING),
        "ffn_up": (FEED_FORWARD, EMBEDDING),
        "ffn_down": (EMBEDDING, FEED_FORWARD),
        "post_ffw_norm": (EMBEDDING,),
    }
    for layer in range(N_LAYERS):
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
    """Write the file, all in F32."""
    writer = gguf.GGUFWriter(path, "gemma3")
    for key, value in (metadata() if fields is None else fields).items():
        add = {
            str: writer.add_string,
            bool: writer.add_bool,
            int: writer.add_uint32,
            float: writer.add_float32,
            list: writer.add_array,
        }
        add[type(value)](key, value)
    for name, values in (tensors() if weights is None else weights).items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def load(path: Path) -> DecoderModel:
    """The model in the file."""
    return DecoderModel.from_gguf(GgufFile.read(path), "synthetic gemma")
