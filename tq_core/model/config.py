"""Sizes and constants of a decoder model, and the tensors that it needs."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tq_core.shapes import ModelShape


@dataclass(frozen=True)
class DecoderConfig:
    """Everything about a decoder model but its weights.

    ``rope_pairing`` is "adjacent" for channels (2 i, 2 i + 1) or "half split" for (i, i + head_dim / 2). ``windows``
    has per layer the newest tokens that a query sees, itself included, or None for all of them; layers with a window
    rotate with ``local_rope_theta``, the others with ``rope_theta``. ``activation`` is the gate's: "silu" or
    "gelu_tanh". ``head_norms``: queries and keys are normalised per head before RoPE. ``post_norms``: so are the
    outputs of attention and feed-forward before they are added. ``embedding_scale`` multiplies the embedded tokens,
    ``query_scale`` the queries on top of 1 / sqrt(head_dim). ``projection_bias``: queries, keys and values have one.
    ``rope_divisors``, (head_dim / 2,) or empty, divide the rotary frequencies of the layers without a window.
    """

    name: str
    architecture: str
    shape: ModelShape
    vocab_size: int
    context_length: int
    embedding_size: int
    feed_forward_size: int
    rope_pairing: str
    rope_theta: float
    local_rope_theta: float
    windows: tuple[int | None, ...]
    rms_epsilon: float
    activation: str
    head_norms: bool
    post_norms: bool
    embedding_scale: float
    tied_output: bool
    projection_bias: bool = False
    rope_divisors: tuple[float, ...] = ()
    query_scale: float = 1.0

    def theta(self, layer: int) -> float:
        """Base of the rotary frequencies in ``layer``."""
        return self.rope_theta if self.windows[layer] is None else self.local_rope_theta

    def divisors(self, layer: int) -> tuple[float, ...]:
        """What the rotary frequencies in ``layer`` are divided by; empty for nothing."""
        return self.rope_divisors if self.windows[layer] is None else ()

    @property
    def weight_bytes(self) -> int:
        """Size of all weights as float32."""
        return 4 * sum(prod(shape) for shape in self.tensor_shapes().values())

    def tensor_shapes(self) -> dict[str, tuple[int, ...]]:
        """Every tensor of the model by its GGUF name; matrices are (n_out, n_in)."""
        embedding, hidden, head_dim = self.embedding_size, self.feed_forward_size, self.shape.head_dim
        query_size, kv_size = self.shape.n_query_heads * head_dim, self.shape.n_kv_heads * head_dim
        shapes: dict[str, tuple[int, ...]] = {
            "token_embd.weight": (self.vocab_size, embedding),
            "output_norm.weight": (embedding,),
        }
        if not self.tied_output:
            shapes["output.weight"] = (self.vocab_size, embedding)
        block: dict[str, tuple[int, ...]] = {
            "attn_norm": (embedding,),
            "attn_q": (query_size, embedding),
            "attn_k": (kv_size, embedding),
            "attn_v": (kv_size, embedding),
            "attn_output": (embedding, query_size),
            "ffn_norm": (embedding,),
            "ffn_gate": (hidden, embedding),
            "ffn_up": (hidden, embedding),
            "ffn_down": (embedding, hidden),
        }
        if self.head_norms:
            block |= {"attn_q_norm": (head_dim,), "attn_k_norm": (head_dim,)}
        if self.post_norms:
            block |= {"post_attention_norm": (embedding,), "post_ffw_norm": (embedding,)}
        for layer in range(self.shape.n_layers):
            shapes.update({f"blk.{layer}.{name}.weight": shape for name, shape in block.items()})
            if self.projection_bias:
                biases = {
                    f"blk.{layer}.{name}.bias": block[name][:1] for name in ("attn_q", "attn_k", "attn_v")
                }
                shapes.update(biases)
        return shapes
