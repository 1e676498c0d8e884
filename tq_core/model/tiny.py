"""The tiny transformer: a trained model small enough for the repository, with the same bits everywhere.

Decoder blocks as in LLaMA (arXiv 2302.13971): RMSNorm, RoPE, grouped-query attention, SwiGLU. Trained by
`scripts/train_tiny.py` on the task of `tiny_task`. Every sum runs in lane order, `exp` is the library's own,
and the rotary table grows from stored constants by float64 products; so logits depend on the weights file,
the tokens and the cache, and on no library's choice of order.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path

import numpy as np

from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.arms import get_arm
from tq_core.errors import ModelFileError, check
from tq_core.kernels.backend import Backend, get_backend
from tq_core.math.lanes import exp_f32, lane_sum
from tq_core.math.rotary import Rotary
from tq_core.model import tiny_task
from tq_core.model.interface import CacheLike, check_tokens, step_of
from tq_core.model.rope import RopeTable
from tq_core.shapes import ModelShape

WEIGHTS_FILE = Path(__file__).with_name("data") / "tiny.npz"
RECORD_FILE = WEIGHTS_FILE.with_suffix(".json")
ONE = np.float32(1.0)
_SHAPE = ModelShape(n_layers=3, n_query_heads=4, n_kv_heads=2, head_dim=64)


@dataclass(frozen=True)
class TinyConfig:
    """Sizes of the tiny transformer. `context_length` is the longest text it was trained on.

    A head tells keys apart over any distance only with channel pairs that turn little: with this `rope_theta`, 14
    of 32 pairs stay below half a radian over the whole context. With the 10,000 of RoFormer it would be 5, too few
    for the words of the task.
    """

    shape: ModelShape = _SHAPE
    vocab_size: int = len(tiny_task.VOCABULARY)
    context_length: int = 1024
    embedding_size: int = 128
    feed_forward_size: int = 256
    rope_theta: float = 1000000.0
    rms_epsilon: float = 1e-5

    def tensor_shapes(self) -> dict[str, tuple[int, ...]]:
        """Every trained tensor by name; matrices are (n_out, n_in), stacked where they read the same input."""
        size, d = self.embedding_size, self.shape.head_dim
        n_query, n_kv = self.shape.n_query_heads * d, self.shape.n_kv_heads * d
        shapes: dict[str, tuple[int, ...]] = {"embedding": (self.vocab_size, size)}
        for layer in range(self.shape.n_layers):
            block = {
                "attention_norm": (size,),
                "query_key_value": (n_query + 2 * n_kv, size),
                "attention_output": (size, n_query),
                "feed_forward_norm": (size,),
                "gate_up": (2 * self.feed_forward_size, size),
                "down": (size, self.feed_forward_size),
            }
            shapes.update({f"layers.{layer}.{name}": shape for name, shape in block.items()})
        return {**shapes, "output_norm": (size,), "output": (self.vocab_size, size)}

    def rope_turn(self) -> np.ndarray:
        """Cosine and sine of each pair's angle per position, float64 (2, head_dim / 2).

        They are stored with the weights: cos and sin of a math library may differ in the last bit.
        """
        d = self.shape.head_dim
        angles = self.rope_theta ** (-np.arange(0, d, 2, dtype=np.float64) / d)
        return np.stack([np.cos(angles), np.sin(angles)])


TINY = TinyConfig()


def read_weights(data: bytes, config: TinyConfig = TINY) -> dict[str, np.ndarray]:
    """Read-only tensors of an .npz file: float32 by name (float16 in the file) and float64 `rope_turn`.

    Raises ModelFileError when the file cannot be read, a tensor is missing, unknown or of another shape or
    type, or a number is not finite.
    """
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            found = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, NotImplementedError) as error:
        raise ModelFileError(f"tiny model: expected an .npz file without pickles, got {error}") from error
    half: np.dtype = np.dtype("<f2")
    double: np.dtype = np.dtype("<f8")
    expected: dict[str, tuple[np.dtype, tuple[int, ...]]] = {
        name: (half, shape) for name, shape in config.tensor_shapes().items()
    }
    expected["rope_turn"] = (double, (2, config.shape.head_dim // 2))
    missing, unknown = sorted(set(expected) - set(found)), sorted(set(found) - set(expected))
    check(not missing, "tensors", "all of the model's", f"none called {', '.join(missing)}", ModelFileError)
    check(not unknown, "tensors", "only the model's", ", ".join(unknown), ModelFileError)
    weights = {}
    for name, (dtype, shape) in expected.items():
        array = found[name]
        check(array.dtype == dtype, name, f"type {dtype}", array.dtype, ModelFileError)
        check(array.shape == shape, name, f"shape {shape}", array.shape, ModelFileError)
        check(bool(np.isfinite(array).all()), name, "finite values", "inf or nan", ModelFileError)
        weights[name] = np.ascontiguousarray(array, np.float32 if dtype == half else np.float64)
        weights[name].flags.writeable = False
    return weights


def grow_rope(turn: np.ndarray, n_positions: int) -> RopeTable:
    """The rotary table from one position's turn, float64 (2, head_dim / 2), by repeated doubling.

    Rows m .. 2m - 1 are rows 0 .. m - 1 turned m positions further: products and sums of float64 only, which
    every machine rounds alike. The result is float32 (n_positions, head_dim / 2), error below 2e-7.
    """
    cosines, sines = np.ones((1, turn.shape[1])), np.zeros((1, turn.shape[1]))
    step_cos, step_sin = turn
    while len(cosines) < n_positions:
        further = (cosines * step_cos - sines * step_sin, sines * step_cos + cosines * step_sin)
        cosines, sines = np.concatenate([cosines, further[0]]), np.concatenate([sines, further[1]])
        step_cos, step_sin = step_cos * step_cos - step_sin * step_sin, 2.0 * step_cos * step_sin
    return RopeTable(cosines[:n_positions].astype(np.float32), sines[:n_positions].astype(np.float32))


@dataclass(frozen=True)
class TinyModel:
    """The model on any cache with `attend` and `length`; weights are read-only."""

    weights: dict[str, np.ndarray] = field(repr=False)
    digest: str
    backend: Backend = field(repr=False)
    config: TinyConfig = TINY
    name: str = "tiny"

    def rotary_of(self, layer: int) -> Rotary:
        """The rotary embedding of a layer's queries and keys, for whoever has to undo it."""
        return Rotary(self.config.rope_theta, "half")

    @property
    def shape(self) -> ModelShape:
        return self.config.shape

    @property
    def context_length(self) -> int:
        return self.config.context_length

    @property
    def rotary(self) -> Rotary:
        """The embedding of queries and keys, for codecs that undo it."""
        return Rotary(self.config.rope_theta, "half")

    @property
    def vocab_size(self) -> int:
        return self.config.vocab_size

    @cached_property
    def rope(self) -> RopeTable:
        return grow_rope(self.weights["rope_turn"], self.context_length)

    def tokenize(self, text: str) -> list[int]:
        """Ids of the blank-separated words of `text`; ValueRangeError for a word it does not know."""
        return tiny_task.tokenize(text)

    def detokenize(self, ids: Sequence[int]) -> str:
        """The words of `ids`, joined by blanks; ValueRangeError for an id outside the vocabulary."""
        return tiny_task.detokenize(ids)

    def forward(self, tokens: Sequence[int] | np.ndarray, cache: CacheLike) -> np.ndarray:
        """Append `tokens`, integers (n_tokens,), to the cache; return logits float32 (n_tokens, vocab_size).

        Positions continue from `cache.length`. Raises ShapeError, DTypeError or ValueRangeError before the
        cache changes when tokens are not one row of known ids or do not fit into `context_length`. Interrupted,
        it leaves the cache as it was.
        """
        first = cache.length  # attend() appends, so it moves while the layers run
        tokens = check_tokens(tokens, self.vocab_size, first, self.context_length)
        with step_of(cache):
            return self._forward(tokens, cache, first)

    def _forward(self, tokens: np.ndarray, cache: CacheLike, first: int) -> np.ndarray:
        w, shape, n_tokens = self.weights, self.shape, len(tokens)
        heads = [shape.n_query_heads, shape.n_query_heads + shape.n_kv_heads]
        hidden = w["embedding"][tokens]
        for layer in range(shape.n_layers):
            block = f"layers.{layer}."
            normed = self._norm(hidden, block + "attention_norm")
            projected = self._linear(normed, block + "query_key_value").reshape(n_tokens, -1, shape.head_dim)
            queries, keys, values = np.split(projected, heads, axis=1)
            attended = cache.attend(
                layer,
                self.rope.rotate_half_split(queries, first),
                self.rope.rotate_half_split(keys, first),
                np.ascontiguousarray(values),
            )
            hidden = hidden + self._linear(attended.reshape(n_tokens, -1), block + "attention_output")
            normed = self._norm(hidden, block + "feed_forward_norm")
            gate, up = np.split(self._linear(normed, block + "gate_up"), 2, axis=1)
            hidden = hidden + self._linear(gate / (ONE + exp_f32(-gate)) * up, block + "down")
        return self._linear(self._norm(hidden, "output_norm"), "output")

    def _linear(self, inputs: np.ndarray, name: str) -> np.ndarray:
        weight = self.weights[name]
        outputs = np.empty((len(inputs), len(weight)), np.float32)
        self.backend.call("linear", x=np.ascontiguousarray(inputs), w=weight, y=outputs)
        return outputs

    def _norm(self, inputs: np.ndarray, name: str) -> np.ndarray:
        share = np.float32(1.0 / inputs.shape[1])
        mean_square = lane_sum(inputs * inputs) * share
        scale = ONE / np.sqrt(mean_square + np.float32(self.config.rms_epsilon))
        return inputs * scale[:, None] * self.weights[name]


def load_tiny(backend: Backend | None = None, path: Path = WEIGHTS_FILE) -> TinyModel:
    """The trained model; `backend` runs its linear maps (None: the default backend).

    Raises ModelFileError when the file is missing, is not the one that the training record beside it
    describes, or does not hold the model's tensors.
    """
    try:
        data = path.read_bytes()
        recorded = json.loads(path.with_suffix(".json").read_text())["weights"]["sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        expected = f"{path.name} and its training record"
        raise ModelFileError(f"tiny model: expected {expected}, got {error!r}") from error
    digest = sha256(data).hexdigest()
    check(digest == recorded, path.name, f"SHA-256 {recorded}", digest, ModelFileError)
    return TinyModel(read_weights(data), digest, backend or get_backend())


GOLDEN_SEED, GOLDEN_TOKENS = 11, 97


def golden_cases() -> dict[str, dict[str, np.ndarray]]:
    """Arrays to freeze, by case: the rotary table's last rows, and logits of one episode on the numpy backend with an
    fp16 cache. The first tokens run in one call, the others in two, as prefill and decode do.
    """
    backend = get_backend("numpy")
    model = load_tiny(backend)
    episode = tiny_task.make_episode(GOLDEN_SEED, GOLDEN_TOKENS, n_bindings=5, n_queries=3)
    cache = PagedCache(model.shape, get_arm("fp16"), backend)
    pieces = np.split(episode.tokens, [GOLDEN_TOKENS - 12, GOLDEN_TOKENS - 1])
    logits = np.concatenate([model.forward(piece, cache) for piece in pieces])
    rope = {"cosines": model.rope.cosines[-33:], "sines": model.rope.sines[-33:]}
    return {"tiny_rope": rope, "tiny_logits": {"tokens": episode.tokens, "logits": logits}}
