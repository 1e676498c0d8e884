"""The numpy runtime of llama-architecture models.

Touvron et al., "LLaMA" (arXiv 2302.13971): pre-norm decoder blocks with RMSNorm, rotary embedding and
SwiGLU; grouped-query attention as in Ainslie et al. (arXiv 2305.13245). The cache does the attention.
The runtime hands it queries, keys and values and knows nothing of how it keeps them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tq_core.model.config import LlamaConfig
from tq_core.model.gguf_file import GgufFile
from tq_core.model.interface import CHUNK_TOKENS, CacheLike, check_tokens, step_of
from tq_core.model.layers import linear, rms_norm, swiglu
from tq_core.model.rope import RopeTable
from tq_core.model.tokenizer import GgufTokenizer
from tq_core.shapes import ModelShape


@dataclass(frozen=True)
class BlockWeights:
    """One layer, float32; matrices (n_out, n_in). Maps that read the same input are stacked into one."""

    attention_norm: np.ndarray
    query_key_value: np.ndarray
    attention_output: np.ndarray
    feed_forward_norm: np.ndarray
    gate_up: np.ndarray
    down: np.ndarray


@dataclass(frozen=True)
class LlamaWeights:
    """``embedding`` and ``output`` are (vocab_size, embedding_size), one array when they are tied."""

    embedding: np.ndarray
    blocks: tuple[BlockWeights, ...]
    output_norm: np.ndarray
    output: np.ndarray

    @classmethod
    def from_gguf(cls, file: GgufFile, config: LlamaConfig) -> LlamaWeights:
        """Check names, shapes and types of all tensors, then expand them to float32; ModelFileError."""
        file.check_tensors(config.tensor_shapes())

        def stacked(layer: int, *names: str) -> np.ndarray:
            parts = [file.tensor(f"blk.{layer}.{name}.weight") for name in names]
            whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
            whole.flags.writeable = False
            return whole

        embedding = file.tensor("token_embd.weight")
        blocks = tuple(
            BlockWeights(
                attention_norm=stacked(layer, "attn_norm"),
                query_key_value=stacked(layer, "attn_q", "attn_k", "attn_v"),
                attention_output=stacked(layer, "attn_output"),
                feed_forward_norm=stacked(layer, "ffn_norm"),
                gate_up=stacked(layer, "ffn_gate", "ffn_up"),
                down=stacked(layer, "ffn_down"),
            )
            for layer in range(config.shape.n_layers)
        )
        output = embedding if config.tied_output else file.tensor("output.weight")
        return cls(embedding, blocks, file.tensor("output_norm.weight"), output)


@dataclass(frozen=True)
class LlamaModel:
    """A model that runs on any cache with ``attend`` and ``length``; weights are read-only."""

    name: str
    config: LlamaConfig
    weights: LlamaWeights = field(repr=False)
    tokenizer: GgufTokenizer = field(repr=False)
    digest: str
    rope: RopeTable = field(repr=False)

    @classmethod
    def from_gguf(cls, file: GgufFile, name: str) -> LlamaModel:
        """Build the model from a scanned file; ModelFileError when it does not describe one."""
        config = LlamaConfig.from_gguf(file)
        weights = LlamaWeights.from_gguf(file, config)
        rope = RopeTable.build(config.context_length, config.shape.head_dim, config.rope_theta)
        return cls(name, config, weights, GgufTokenizer.from_gguf(file), file.digest, rope)

    @property
    def shape(self) -> ModelShape:
        return self.config.shape

    @property
    def context_length(self) -> int:
        return self.config.context_length

    @property
    def vocab_size(self) -> int:
        return self.config.vocab_size

    def tokenize(self, text: str) -> list[int]:
        """Token ids of ``text``; special tokens such as ``<|im_start|>`` in it become single ids."""
        return self.tokenizer.encode(text)

    def detokenize(self, ids: Sequence[int]) -> str:
        """Text of token ids, special tokens included; bytes that are not UTF-8 yet become U+FFFD."""
        return self.tokenizer.decode(ids)

    def forward(
        self, tokens: Sequence[int] | np.ndarray, cache: CacheLike, last_only: bool = False
    ) -> np.ndarray:
        """Append ``tokens``, integers (n_tokens,), to the cache; return logits.

        Positions continue from ``cache.length``. Logits are float32 (n_tokens, vocab_size), or
        (1, vocab_size) of the last token with ``last_only``. Long inputs run in pieces, so only the
        logits grow with n_tokens (forward_chunks bounds these too). Raises ShapeError, DTypeError or
        ValueRangeError before the cache changes. Interrupted, it leaves the cache as it was.
        """
        tokens = check_tokens(tokens, self.vocab_size, cache.length, self.context_length)
        logits = np.empty((1 if last_only else tokens.size, self.vocab_size), np.float32)
        with step_of(cache):
            for start in range(0, tokens.size, CHUNK_TOKENS):
                hidden = self._blocks(tokens[start : start + CHUNK_TOKENS], cache)
                if not last_only:
                    self._logits(hidden, logits[start : start + len(hidden)])
            if last_only:
                self._logits(hidden[-1:], logits)
        return logits

    def _blocks(self, tokens: np.ndarray, cache: CacheLike) -> np.ndarray:
        # attend() appends, so cache.length may move while the layers run: it is read once, here.
        first = cache.length
        n_tokens, shape = tokens.size, self.shape
        heads = (shape.n_query_heads, shape.n_kv_heads)
        hidden = self.weights.embedding[tokens]
        for layer, block in enumerate(self.weights.blocks):
            normed = rms_norm(hidden, block.attention_norm, self.config.rms_epsilon)
            projected = linear(normed, block.query_key_value).reshape(n_tokens, -1, shape.head_dim)
            queries, keys, values = np.split(projected, [heads[0], heads[0] + heads[1]], axis=1)
            attended = cache.attend(
                layer,
                self.rope.rotate_adjacent(queries, first),
                self.rope.rotate_adjacent(keys, first),
                np.ascontiguousarray(values),
            )
            hidden = hidden + linear(attended.reshape(n_tokens, -1), block.attention_output)
            normed = rms_norm(hidden, block.feed_forward_norm, self.config.rms_epsilon)
            gate, up = np.split(linear(normed, block.gate_up), 2, axis=1)
            hidden = hidden + linear(swiglu(gate, up), block.down)
        return hidden

    def _logits(self, hidden: np.ndarray, out: np.ndarray) -> None:
        normed = rms_norm(hidden, self.weights.output_norm, self.config.rms_epsilon)
        linear(normed, self.weights.output, out)
