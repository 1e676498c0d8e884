"""The tiny transformer in torch, for training: starting weights and the forward pass on whole episodes.

`c` is the CONFIG of train_tiny.py. Matrices are (n_out, n_in).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

LOOK_BACK, LOOK_BACK_PAIRS = 0.9, 12  # strength, and how many of the fastest RoPE pairs carry it


def parameter_shapes(c: dict) -> dict[str, tuple[int, ...]]:
    d, q, kv = c["d_model"], c["n_query_heads"] * c["head_dim"], c["n_kv_heads"] * c["head_dim"]
    shapes: dict[str, tuple[int, ...]] = {"embedding": (c["vocab_size"], d)}
    for i in range(c["n_layers"]):
        shapes |= {
            f"layers.{i}.attention_norm": (d,),
            f"layers.{i}.wq": (q, d),
            f"layers.{i}.wk": (kv, d),
            f"layers.{i}.wv": (kv, d),
            f"layers.{i}.wo": (d, q),
            f"layers.{i}.ffn_norm": (d,),
            f"layers.{i}.w_gate": (c["d_ff"], d),
            f"layers.{i}.w_up": (c["d_ff"], d),
            f"layers.{i}.w_down": (d, c["d_ff"]),
        }
    return shapes | {"final_norm": (d,), "head": (c["vocab_size"], d)}


def initial_weights(c: dict) -> dict[str, torch.Tensor]:
    weights = {}
    for name, shape in parameter_shapes(c).items():
        if len(shape) == 1:
            weights[name] = torch.ones(shape)
        elif name == "embedding":
            weights[name] = torch.randn(shape)
        else:
            shrink = math.sqrt(2 * c["n_layers"]) if name.endswith(("wo", "w_down")) else 1.0
            weights[name] = torch.randn(shape) / math.sqrt(shape[1]) / shrink
    look_back(weights, c)
    return {name: w.requires_grad_() for name, w in weights.items()}


def look_back(weights: dict[str, torch.Tensor], c: dict) -> None:
    """Start head h of the first layer with a preference for the token h + 1 places back.

    All embeddings share one direction; the first layer's keys turn it into a constant in the fast RoPE
    pairs, and each query head holds the same constant turned back by its offset. Left to chance, finding
    these offsets takes most of the run.
    """
    dim, half = c["head_dim"], c["head_dim"] // 2
    shared = torch.full((c["d_model"],), c["d_model"] ** -0.5)
    weights["embedding"] += shared * c["d_model"] ** 0.5
    frequency = c["rope_base"] ** (-torch.arange(half) * 2 / dim)
    strength = LOOK_BACK * (torch.arange(half) < LOOK_BACK_PAIRS)
    for head in range(c["n_kv_heads"]):
        weights["layers.0.wk"][head * dim : head * dim + half] += strength[:, None] * shared
    for head in range(c["n_query_heads"]):
        angle = -(head + 1) * frequency
        turned = torch.cat((strength * angle.cos(), strength * angle.sin()))
        weights["layers.0.wq"][head * dim : (head + 1) * dim] += turned[:, None] * shared


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def forward(w: dict[str, torch.Tensor], c: dict, tokens: torch.Tensor) -> torch.Tensor:
    """Logits (batch, n_tokens, vocab_size)."""
    batch, n = tokens.shape
    hq, hkv, dim, eps = c["n_query_heads"], c["n_kv_heads"], c["head_dim"], c["norm_eps"]
    frequency = c["rope_base"] ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    angle = torch.arange(n, dtype=torch.float64)[:, None] * frequency
    cos, sin = angle.cos().float(), angle.sin().float()
    x = w["embedding"][tokens]
    for i in range(c["n_layers"]):
        p = f"layers.{i}."
        h = rms_norm(x, w[p + "attention_norm"], eps)
        q = (h @ w[p + "wq"].T).view(batch, n, hq, dim).transpose(1, 2)
        k = (h @ w[p + "wk"].T).view(batch, n, hkv, dim).transpose(1, 2)
        v = (h @ w[p + "wv"].T).view(batch, n, hkv, dim).transpose(1, 2)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k, v = k.repeat_interleave(hq // hkv, 1), v.repeat_interleave(hq // hkv, 1)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + o.transpose(1, 2).reshape(batch, n, hq * dim) @ w[p + "wo"].T
        h = rms_norm(x, w[p + "ffn_norm"], eps)
        x = x + (F.silu(h @ w[p + "w_gate"].T) * (h @ w[p + "w_up"].T)) @ w[p + "w_down"].T
    return rms_norm(x, w["final_norm"], eps) @ w["head"].T
