"""The numpy runtime of decoder models: the llama architecture, and Gemma 3's.

Touvron et al., "LLaMA" (arXiv 2302.13971): pre-norm decoder blocks with RMSNorm, rotary embedding and a gated
feed-forward unit; grouped-query attention as in Ainslie et al. (arXiv 2305.13245). Gemma 3 (arXiv 2503.19786) adds
norms of queries and keys, norms after attention and feed-forward, and layers that see a sliding window only. The
cache does the attention. The runtime hands it queries, keys, values and the layer's window, and knows nothing of how
it keeps them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tq_core.math.rotary import Rotary
from tq_core.model.architectures import read_config
from tq_core.model.config import DecoderConfig
from tq_core.model.gguf_file import GgufFile
from tq_core.model.interface import CHUNK_TOKENS, CacheLike, check_tokens, step_of
from tq_core.model.layers import GATES, linear, require_float32, rms_norm
from tq_core.model.rope import RopeTable
from tq_core.model.tokenizer import GgufTokenizer
from tq_core.shapes import ModelShape


@dataclass(frozen=True)
class BlockWeights:
    """One layer, float32; matrices (n_out, n_in). Maps that read the same input are stacked into one.

    The norms of queries and keys and those after attention and feed-forward are None where the model has none.
    """

    attention_norm: np.ndarray
    query_key_value: np.ndarray
    attention_output: np.ndarray
    feed_forward_norm: np.ndarray
    gate_up: np.ndarray
    down: np.ndarray
    query_norm: np.ndarray | None = None
    key_norm: np.ndarray | None = None
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
    def from_gguf(cls, file: GgufFile, config: DecoderConfig) -> DecoderWeights:
        """Check names, shapes and types of all tensors, then expand them to float32; ModelFileError."""
        file.check_tensors(config.tensor_shapes())

        def stacked(layer: int, *names: str) -> np.ndarray:
            parts = [file.tensor(f"blk.{layer}.{name}.weight") for name in names]
            whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
            whole.flags.writeable = False
            return whole

        def norm(layer: int, name: str, there: bool) -> np.ndarray | None:
            return stacked(layer, name) if there else None

        embedding = file.tensor("token_embd.weight")
        blocks = tuple(
            BlockWeights(
                attention_norm=stacked(layer, "attn_norm"),
                query_key_value=stacked(layer, "attn_q", "attn_k", "attn_v"),
                attention_output=stacked(layer, "attn_output"),
                feed_forward_norm=stacked(layer, "ffn_norm"),
                gate_up=stacked(layer, "ffn_gate", "ffn_up"),
                down=stacked(layer, "ffn_down"),
                query_norm=norm(layer, "attn_q_norm", config.head_norms),
                key_norm=norm(layer, "attn_k_norm", config.head_norms),
                attention_post_norm=norm(layer, "post_attention_norm", config.post_norms),
                feed_forward_post_norm=norm(layer, "post_ffw_norm", config.post_norms),
            )
            for layer in range(config.shape.n_layers)
        )
        output = embedding if config.tied_output else file.tensor("output.weight")
        return cls(embedding, blocks, file.tensor("output_norm.weight"), output)


@dataclass(frozen=True)
class DecoderModel:
    """A model that runs on any cache with ``attend`` and ``length``; weights are read-only."""

    name: str
    config: DecoderConfig
    weights: DecoderWeights = field(repr=False)
    tokenizer: GgufTokenizer = field(repr=False)
    digest: str
    ropes: Mapping[float, RopeTable] = field(repr=False)  # by base

    @classmethod
    def from_gguf(cls, file: GgufFile, name: str) -> DecoderModel:
        """Build the model from a scanned file; ModelFileError when it does not describe one."""
        config = read_config(file)
        weights = DecoderWeights.from_gguf(file, config)
        positions, d = config.context_length, config.shape.head_dim
        thetas = {config.theta(layer) for layer in range(config.shape.n_layers)}
        ropes = {theta: RopeTable.build(positions, d, theta) for theta in thetas}
        return cls(name, config, weights, GgufTokenizer.from_gguf(file), file.digest, ropes)

    def rotary_of(self, layer: int) -> Rotary:
        """The rotary embedding of a layer's queries and keys, for whoever has to undo it."""
        pairing = "half" if self.config.rope_pairing == "half split" else self.config.rope_pairing
        return Rotary(self.config.theta(layer), pairing)

    @property
    def shape(self) -> ModelShape:
        return self.config.shape

    @property
    def context_length(self) -> int:
        return self.config.context_length

    @property
    def rotary(self) -> Rotary | None:
        """The embedding of queries and keys, for codecs that undo it; None when layers have different ones."""
        if len(self.ropes) != 1:
            return None
        return Rotary(
            next(iter(self.ropes)), "adjacent" if self.config.rope_pairing == "adjacent" else "half"
        )

    @property
    def vocab_size(self) -> int:
        return self.config.vocab_size

    def tokenize(self, text: str) -> list[int]:
        """Token ids of ``text``, after the token that begins a text where the model has one.

        Special tokens such as ``<|im_start|>`` in it become single ids.
        """
        return [*self.tokenizer.begin, *self.tokenizer.encode(text)]

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
        config, gated = self.config, GATES[self.config.activation]
        hidden = self.weights.embedding[tokens] * np.float32(config.embedding_scale)
        for layer, block in enumerate(self.weights.blocks):
            normed = rms_norm(hidden, block.attention_norm, config.rms_epsilon)
            queries, keys, values = self._projected(layer, block, normed, first)
            attended = cache.attend(layer, queries, keys, values, sliding_window=config.windows[layer])
            added = linear(attended.reshape(tokens.size, -1), block.attention_output)
            hidden = hidden + self._normed(added, block.attention_post_norm)
            normed = rms_norm(hidden, block.feed_forward_norm, config.rms_epsilon)
            gate, up = np.split(linear(normed, block.gate_up), 2, axis=1)
            hidden = hidden + self._normed(linear(gated(gate, up), block.down), block.feed_forward_post_norm)
        return require_float32("hidden state", hidden)

    def _projected(
        self, layer: int, block: BlockWeights, normed: np.ndarray, first: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Queries, keys and values of the tokens from position ``first`` on, the first two normalised and rotated."""
        shape = self.shape
        projected = linear(normed, block.query_key_value).reshape(len(normed), -1, shape.head_dim)
        heads = [shape.n_query_heads, shape.n_query_heads + shape.n_kv_heads]
        queries, keys, values = np.split(projected, heads, axis=1)
        rope, pairing = self.ropes[self.config.theta(layer)], self.config.rope_pairing
        queries = rope.rotate(self._normed(queries, block.query_norm), first, pairing)
        keys = rope.rotate(self._normed(keys, block.key_norm), first, pairing)
        return queries, keys, np.ascontiguousarray(values)

    def _normed(self, inputs: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        return inputs if weight is None else rms_norm(inputs, weight, self.config.rms_epsilon)

    def _logits(self, hidden: np.ndarray, out: np.ndarray) -> None:
        normed = rms_norm(hidden, self.weights.output_norm, self.config.rms_epsilon)
        linear(normed, self.weights.output, out)
