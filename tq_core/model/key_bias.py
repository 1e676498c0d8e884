"""The bias of a model's key projections: the offset that all keys of a head share before RoPE.

Qwen2's projections have one and llama's have not. It is known exactly, so storing keys without it needs no
calibration text: ``offset.with_key_offset(arm, offset_of(bias), Rotary(theta, pairing))``.
"""

from __future__ import annotations

import numpy as np

from tq_core.model.gguf_file import GgufFile
from tq_core.model.gguf_header import require
from tq_core.shapes import ModelShape


def key_bias(file: GgufFile, shape: ModelShape) -> np.ndarray | None:
    """Float32 (n_layers, n_kv_heads, head_dim) in the file's own channel order; None when no layer has a bias.

    Raises ModelFileError when only some layers have one, or one of another size.
    """
    names = [f"blk.{layer}.attn_k.bias" for layer in range(shape.n_layers)]
    there = [name for name in names if name in file.header.tensors]
    if not there:
        return None
    size = (shape.n_kv_heads * shape.head_dim,)
    for name in names:
        require(name in there, name, "a bias in every layer", "none")
        got = file.header.tensors[name].shape
        require(got == size, f"shape of {name}", f"{size}", got)
    biases = [file.tensor(name).reshape(shape.n_kv_heads, shape.head_dim) for name in names]
    return np.stack(biases)
