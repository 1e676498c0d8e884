"""The weights of a decoder model, from whatever file holds its tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tq_core.model.config import DecoderConfig
from tq_core.model.memory import check_memory


class TensorSource(Protocol):
    """Tensors by their GGUF names. Both methods raise ModelFileError."""

    @property
    def held_bytes(self) -> int:
        """Memory that the source itself takes."""

    def check_tensors(self, expected: Mapping[str, tuple[int, ...]]) -> None:
        """Refuse unless exactly these tensors are there, in these shapes and a known type."""

    def tensor(self, name: str) -> np.ndarray:
        """Read-only float32, all of it finite."""


@dataclass(frozen=True)
class BlockWeights:
    """One layer, float32; matrices (n_out, n_in). Maps that read the same input are stacked into one.

    The bias, the norms of queries and keys and those after attention and feed-forward are None where there is none.
    """

    attention_norm: np.ndarray
    query_key_value: np.ndarray
    attention_output: np.ndarray
    feed_forward_norm: np.ndarray
    gate_up: np.ndarray
    down: np.ndarray
    query_norm: np.ndarray | None = None
    key_norm: np.ndarray | None = None
    query_key_value_bias: np.ndarray | None = None
    attention_post_norm: np.ndarray | None = None
    feed_forward_post_norm: np.ndarray | None = None


@dataclass(frozen=True)
class DecoderWeights:
    """``embedding`` and ``output`` are (vocab_size, embedding_size), one array when they are tied."""

    embedding: np.ndarray
    blocks: tuple[BlockWeights, ...]
    output_norm: np.ndarray
    output: np.ndarray

    @classmethod
    def read(cls, source: TensorSource, config: DecoderConfig) -> DecoderWeights:
        """Check names, shapes and types of all tensors, then expand them to float32.

        Raises ModelFileError, and ModelUnavailable when they do not fit into this machine's memory.
        """
        source.check_tensors(config.tensor_shapes())
        check_memory(f"weights of {config.name} in float32", config.weight_bytes + source.held_bytes)

        def stacked(layer: int, *names: str, kind: str = "weight") -> np.ndarray:
            parts = [source.tensor(f"blk.{layer}.{name}.{kind}") for name in names]
            whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
            whole.flags.writeable = False
            return whole

        def norm(layer: int, name: str, there: bool) -> np.ndarray | None:
            return stacked(layer, name) if there else None

        def bias(layer: int) -> np.ndarray | None:
            return (
                stacked(layer, "attn_q", "attn_k", "attn_v", kind="bias") if config.projection_bias else None
            )

        embedding = source.tensor("token_embd.weight")
        blocks = tuple(
            BlockWeights(
                attention_norm=stacked(layer, "attn_norm"),
                query_key_value=stacked(layer, "attn_q", "attn_k", "attn_v"),
                attention_output=stacked(layer, "attn_output"),
                feed_forward_norm=stacked(layer, "ffn_norm"),
                gate_up=stacked(layer, "ffn_gate", "ffn_up"),
                down=stacked(layer, "ffn_down"),
                query_key_value_bias=bias(layer),
                query_norm=norm(layer, "attn_q_norm", config.head_norms),
                key_norm=norm(layer, "attn_k_norm", config.head_norms),
                attention_post_norm=norm(layer, "post_attention_norm", config.post_norms),
                feed_forward_post_norm=norm(layer, "post_ffw_norm", config.post_norms),
            )
            for layer in range(config.shape.n_layers)
        )
        output = embedding if config.tied_output else source.tensor("output.weight")
        return cls(embedding, blocks, source.tensor("output_norm.weight"), output)
