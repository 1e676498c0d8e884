"""The numpy runtime of decoder models: the families Llama, Qwen2, Qwen3, Gemma and Gemma 3.

Touvron et al., "LLaMA" (arXiv 2302.13971): pre-norm decoder blocks with RMSNorm, rotary embedding and a gated
feed-forward unit; grouped-query attention as in Ainslie et al. (arXiv 2305.13245). The others add biases of queries,
keys and values, norms of queries and keys, norms after attention and feed-forward, and layers that see a sliding window
only (architectures.py). The cache does the attention. The runtime hands it queries, keys, values and the layer's
window, and knows nothing of how it keeps them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tq_core.math.rotary import Rotary
from tq_core.model.architectures import read_config
from tq_core.model.config import DecoderConfig
from tq_core.model.gguf_fields import GgufFields
from tq_core.model.gguf_file import GgufFile
from tq_core.model.hf_folder import HfFolder
from tq_core.model.hf_tokenizer import read_tokenizer
from tq_core.model.interface import CHUNK_TOKENS, CacheLike, check_tokens, step_of
from tq_core.model.layers import GATES, linear, require_float32, rms_norm
from tq_core.model.rope import RopeTable
from tq_core.model.tokenizer import TextTokenizer
from tq_core.model.weights import BlockWeights, DecoderWeights, TensorSource
from tq_core.shapes import ModelShape


@dataclass(frozen=True)
class DecoderModel:
    """A model that runs on any cache with ``attend`` and ``length``; weights are read-only."""

    name: str
    config: DecoderConfig
    weights: DecoderWeights = field(repr=False)
    tokenizer: TextTokenizer = field(repr=False)
    digest: str
    ropes: Mapping[tuple[float, tuple[float, ...]], RopeTable] = field(repr=False)  # by base and divisors

    @classmethod
    def from_gguf(cls, file: GgufFile, name: str) -> DecoderModel:
        """Build the model from a scanned file; ModelFileError when it does not describe one."""
        return cls.build(
            name, read_config(GgufFields(file)), file, TextTokenizer.from_gguf(file), file.digest
        )

    @classmethod
    def from_folder(cls, folder: HfFolder, name: str) -> DecoderModel:
        """The same from a folder with config.json, safetensors and tokenizer.json."""
        config = read_config(folder.fields)
        tokenizer = read_tokenizer(folder, config.vocab_size)
        return cls.build(name, config, folder, tokenizer, folder.digest())

    @classmethod
    def build(
        cls, name: str, config: DecoderConfig, source: TensorSource, tokenizer: TextTokenizer, digest: str
    ) -> DecoderModel:
        """A model from its parts; the errors of DecoderWeights.read."""
        weights = DecoderWeights.read(source, config)
        n_positions, head_dim, layers = (
            config.context_length,
            config.shape.head_dim,
            range(config.shape.n_layers),
        )
        keys = {(config.theta(layer), config.divisors(layer)) for layer in layers}
        ropes = {key: RopeTable.build(n_positions, head_dim, *key) for key in keys}
        return cls(name, config, weights, tokenizer, digest, ropes)

    def rotary_of(self, layer: int) -> Rotary:
        """The rotary embedding of a layer's queries and keys, for whoever has to undo it."""
        pairing = "half" if self.config.rope_pairing == "half split" else self.config.rope_pairing
        return Rotary(self.config.theta(layer), pairing, self.config.divisors(layer))

    @property
    def shape(self) -> ModelShape:
        return self.config.shape

    @property
    def context_length(self) -> int:
        return self.config.context_length

    @property
    def rotary(self) -> Rotary | None:
        """The embedding of queries and keys, for codecs that undo it; None when layers have different ones."""
        return self.rotary_of(0) if len(self.ropes) == 1 else None

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
        mapped = linear(normed, block.query_key_value)
        if block.query_key_value_bias is not None:
            mapped += block.query_key_value_bias
        projected = mapped.reshape(len(normed), -1, shape.head_dim)
        heads = [shape.n_query_heads, shape.n_query_heads + shape.n_kv_heads]
        queries, keys, values = np.split(projected, heads, axis=1)
        config = self.config
        rope, pairing = self.ropes[config.theta(layer), config.divisors(layer)], config.rope_pairing
        queries = rope.rotate(self._normed(queries, block.query_norm), first, pairing)
        keys = rope.rotate(self._normed(keys, block.key_norm), first, pairing)
        if config.query_scale != 1.0:  # caches divide scores by sqrt(head_dim)
            queries *= np.float32(config.query_scale)
        return queries, keys, np.ascontiguousarray(values)

    def _normed(self, inputs: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        return inputs if weight is None else rms_norm(inputs, weight, self.config.rms_epsilon)

    def _logits(self, hidden: np.ndarray, out: np.ndarray) -> None:
        normed = rms_norm(hidden, self.weights.output_norm, self.config.rms_epsilon)
        linear(normed, self.weights.output, out)
