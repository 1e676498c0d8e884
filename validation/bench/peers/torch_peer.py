"""torch: matrix products and softmax in bfloat16, and scaled_dot_product_attention in float32, bfloat16 and float16."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as functional

from validation.bench.peers.data import Prepared, Work

_TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
CONTESTANTS = [
    ["torch-bf16-matmul", "decode step"],
    ["torch-sdpa-fp32", "decode step"],
    ["torch-sdpa-bf16", "decode step"],
    ["torch-sdpa-fp16", "decode step"],
    ["torch-sdpa-fp32-gqa", "decode step"],
]


def versions() -> dict[str, Any]:
    """torch and the instruction set it dispatches to."""
    return {"torch": torch.__version__, "torch capability": torch.backends.cpu.get_cpu_capability()}


def _tensor(x: np.ndarray, dtype: torch.dtype) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(x)).to(dtype).contiguous()


@torch.inference_mode()
def prepare(name: str, work: Work) -> Prepared | str:
    """ "folded" is the default: query heads of one KV head are rows, so keys are read once for all of them."""
    torch.set_num_threads(work.threads)
    dtype = _TYPES[next(word for word in name.split("-") if word in _TYPES)]
    queries = _tensor(work.folded, dtype)
    matmul, gqa = "matmul" in name, name.endswith("gqa")
    keys, values = _tensor(work.keys, dtype), _tensor(work.values, dtype)
    nbytes = 2 * keys.numel() * keys.element_size()
    stack = [(keys, values)] + [(keys.clone(), values.clone()) for _ in range(work.layers(nbytes) - 1)]
    state: dict[str, torch.Tensor] = {}

    def products(layer: int) -> None:
        k, v = stack[layer]
        scores = torch.matmul(queries, k.transpose(1, 2)) * work.scale
        state["out"] = torch.matmul(torch.softmax(scores, -1), v)

    query = queries.reshape(1, -1, 1, work.head_dim) if gqa else queries[None]

    def attention(layer: int) -> None:
        k, v = stack[layer]
        state["out"] = functional.scaled_dot_product_attention(
            query, k[None], v[None], scale=work.scale, enable_gqa=gqa
        )

    inner = products if matmul else attention

    def run(layer: int) -> None:
        with torch.inference_mode():
            inner(layer)

    return Prepared(run, nbytes, len(stack), lambda: state["out"].float().numpy())
