"""One layer of attention on made-up queries, keys and values that have the habits of real ones.

Measured habits of real caches, each put in on purpose: key channels with a large constant offset, in the
slow RoPE pairs (KIVI, arXiv 2402.02750; KVQuant, arXiv 2401.18079); a first token that draws attention with
a small key and a small value (attention sinks, arXiv 2309.17453); queries that look for some tokens much
more than for others; values without outliers. Before RoPE every number comes from an integer generator and
float64 sums and products, hence the same bits for the same arguments on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tq_core.errors import DTypeError, ValueRangeError, check
from tq_core.math.prng import splitmix64
from tq_core.math.rotation import haar_rotation
from tq_core.model.rope import RopeTable
from tq_core.shapes import ModelShape

F64 = NDArray[np.float64]
DEFAULT_SHAPE = ModelShape(n_layers=1, n_query_heads=6, n_kv_heads=2, head_dim=64)
N_TOPICS = 12  # tokens of one topic seek each other; a topic lasts for a few tokens
TOPIC_KEEP = 0.75  # probability that the next token has the same topic
# Of the outlier channels: their product pushes the score of every key but the sink's down.
KEY_OFFSET, QUERY_PULL = 9.0, -1.1
TOPIC_GAIN, KEY_NOISE, QUERY_NOISE = 0.8, 0.5, 0.6
SINK_NORM = 0.1  # of the first token, relative to the others' content


@dataclass(frozen=True)
class OneLayerFixture:
    """Float32 arrays, read-only: queries (n_tokens, n_query_heads, head_dim), the others (n_tokens, n_kv_heads,
    head_dim). `queries` and `keys` are the rotated (post-RoPE) forms of `queries_pre` and `keys_pre`, channel i
    paired with i + head_dim / 2. outlier_channels: int64 (n_kv_heads, n_outliers). topics: int64 (n_tokens,).
    """

    shape: ModelShape
    seed: int
    rope: RopeTable
    queries_pre: np.ndarray
    keys_pre: np.ndarray
    queries: np.ndarray
    keys: np.ndarray
    values: np.ndarray
    outlier_channels: np.ndarray
    topics: np.ndarray

    @property
    def digest(self) -> str:
        """SHA-256 over queries, keys and values, before and after RoPE."""
        arrays = (self.queries_pre, self.keys_pre, self.queries, self.keys, self.values)
        return sha256(b"".join(array.astype("<f4").tobytes() for array in arrays)).hexdigest()


class _Stream:
    """Numbers of one named stream of a seed: sums of uniform integers, which every machine rounds alike."""

    def __init__(self, seed: int, stream: int) -> None:
        self._seed = int(splitmix64(seed, stream + 1)[stream])

    def uniform(self, count: int) -> F64:
        """(count,) in [0, 1), multiples of 2^-32."""
        return (splitmix64(self._seed, count) >> np.uint64(32)).astype(np.float64) / 2.0**32

    def normal(self, *shape: int) -> F64:
        """Nearly normal, variance 1: the sum of twelve 16-bit integers (Irwin-Hall), within -6..6."""
        words = splitmix64(self._seed, 3 * int(np.prod(shape)))
        every_second = np.uint64(0x0000FFFF0000FFFF)  # two integers to a word, with room for their sums
        pairs = (words & every_second) + ((words >> np.uint64(16)) & every_second)
        pairs = pairs[0::3] + pairs[1::3] + pairs[2::3]
        total = (pairs & np.uint64(0xFFFFFFFF)) + (pairs >> np.uint64(32))
        return (total.astype(np.int64).reshape(shape) - 6 * 65535).astype(np.float64) / 65536.0


def make_fixture(
    seed: int = 1,
    shape: ModelShape = DEFAULT_SHAPE,
    n_tokens: int = 257,
    n_outliers: int = 3,
    theta: float = 10000.0,
) -> OneLayerFixture:
    """A fixture for one layer of `shape`; RoPE base `theta`.

    Raises ValueRangeError unless seed is in 0..2^64-1, n_tokens >= 2 and n_outliers fits into the slowest
    eighth of the channels.
    """
    d, n_kv, n_query = shape.head_dim, shape.n_kv_heads, shape.n_query_heads
    check(n_tokens >= 2, "n_tokens", "2 or more", n_tokens, ValueRangeError)
    slow = np.concatenate([np.arange(d // 2 - d // 16, d // 2), np.arange(d - d // 16, d)])
    check(0 <= n_outliers <= len(slow), "n_outliers", f"0..{len(slow)}", n_outliers, ValueRangeError)

    topics = _topics(_Stream(seed, 0), n_tokens)
    topic_vectors = _Stream(seed, 1).normal(n_kv, N_TOPICS, d)
    picks = _Stream(seed, 2).uniform(n_kv * len(slow)).reshape(n_kv, -1)
    outlier_channels = slow[np.argsort(picks, axis=1, kind="stable")[:, :n_outliers]]
    signs = np.where(_Stream(seed, 3).uniform(n_kv * d).reshape(n_kv, d) < 0.5, -1.0, 1.0)
    is_outlier = np.zeros((n_kv, d))
    np.put_along_axis(is_outlier, outlier_channels, 1.0, axis=1)

    content = TOPIC_GAIN * topic_vectors[:, topics].transpose(1, 0, 2)
    keys = content + KEY_NOISE * _Stream(seed, 4).normal(n_tokens, n_kv, d)
    keys += 0.3 * _Stream(seed, 5).normal(n_kv, d) + signs * is_outlier * KEY_OFFSET
    group = np.arange(n_query) // shape.group_size_heads
    eagerness = 0.6 + 0.8 * _Stream(seed, 6).uniform(n_query)[:, None]  # some heads look sharply, some do not
    queries = eagerness * content[:, group] + QUERY_NOISE * _Stream(seed, 7).normal(n_tokens, n_query, d)
    queries += QUERY_PULL * (signs * is_outlier)[group]
    values = _Stream(seed, 8).normal(n_tokens, n_kv, d)
    values += 0.5 * _Stream(seed, 9).normal(n_kv, N_TOPICS, d)[:, topics].transpose(1, 0, 2)
    keys[0] = SINK_NORM * content[0]
    values[0] *= SINK_NORM

    rope = RopeTable.build(n_tokens, d, theta)
    pre = [a.astype(np.float32) for a in (queries, keys)]
    post = [rope.rotate_half_split(a, 0) for a in pre]
    arrays = (pre[0], pre[1], post[0], post[1], values.astype(np.float32))
    for array in arrays:
        array.flags.writeable = False
    return OneLayerFixture(shape, seed, rope, *arrays, outlier_channels, topics)


def _topics(stream: _Stream, n_tokens: int) -> NDArray[np.int64]:
    draws = stream.uniform(2 * n_tokens).reshape(2, n_tokens)
    fresh = (draws[1] * N_TOPICS).astype(np.int64)
    since = np.maximum.accumulate(np.where(draws[0] >= TOPIC_KEEP, np.arange(n_tokens), 0))
    return fresh[since]


def exact_scores(queries: np.ndarray, keys: np.ndarray) -> F64:
    """q k^T / sqrt(head_dim) in float64, (n_query_heads, n_tokens, n_tokens); later keys get -inf.

    queries (n_tokens, n_query_heads, head_dim), keys (n_tokens, n_kv_heads, head_dim), floats; query head h reads
    KV head h // group_size_heads. Raises ShapeError or DTypeError.
    """
    for name, array in (("queries", queries), ("keys", keys)):
        check(array.ndim == 3, name, "shape (n_tokens, n_heads, head_dim)", array.shape)
        check(array.dtype.kind == "f", name, "a float type", array.dtype, DTypeError)
    n_tokens, n_kv, d = keys.shape
    n_query = queries.shape[1]
    check(
        queries.shape == (n_tokens, n_query, d),
        "queries",
        f"shape ({n_tokens}, n_query_heads, {d})",
        queries.shape,
    )
    check(n_kv > 0 and n_query % n_kv == 0, "queries", f"a multiple of {n_kv} heads", n_query)
    shared = np.repeat(keys.astype(np.float64), n_query // n_kv, axis=1)
    scores = np.einsum("qhd,khd->hqk", queries.astype(np.float64), shared) / np.sqrt(d)
    scores[:, np.triu(np.ones((n_tokens, n_tokens), bool), 1)] = -np.inf
    return scores


def attention_weights(queries: np.ndarray, keys: np.ndarray) -> F64:
    """Causal softmax of exact_scores, float64 (n_query_heads, n_tokens, n_tokens); rows add up to 1."""
    scores = exact_scores(queries, keys)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def exact_attention(queries: np.ndarray, keys: np.ndarray, values: np.ndarray) -> F64:
    """Causal attention in float64, (n_tokens, n_query_heads, head_dim); arguments as in exact_scores.

    values has the shape of keys. Raises ShapeError or DTypeError.
    """
    check(values.shape == keys.shape, "values", f"shape {keys.shape}", values.shape)
    check(values.dtype.kind == "f", "values", "a float type", values.dtype, DTypeError)
    weights = attention_weights(queries, keys)
    shared = np.repeat(values.astype(np.float64), queries.shape[1] // keys.shape[1], axis=1)
    return np.einsum("hqk,khd->qhd", weights, shared)


class RotationScores(NamedTuple):
    """Scores as in exact_scores: without a rotation, rotated after RoPE, and rotated before RoPE."""

    exact: F64
    after_rope: F64
    before_rope: F64


def rotation_and_rope(fixture: OneLayerFixture, rotation_seed: int = 1) -> RotationScores:
    """The same random rotation of queries and keys on either side of RoPE.

    After RoPE it cancels in q k^T. Before RoPE it does not: RoPE turns fixed channel pairs and a generic rotation U
    mixes them, so the score q^T U^T R(n - m) U k belongs to another model (RoFormer, arXiv 2104.09864, eq. 16 has
    U = 1). It is still a function of the distance n - m, so a check of that property alone would not notice.
    """
    rotation = haar_rotation(fixture.shape.head_dim, rotation_seed)

    def turned(vectors: np.ndarray) -> F64:
        return vectors.astype(np.float64) @ rotation.T

    def roped(vectors: F64) -> np.ndarray:
        return fixture.rope.rotate_half_split(vectors.astype(np.float32), 0)

    return RotationScores(
        exact_scores(fixture.queries, fixture.keys),
        exact_scores(turned(fixture.queries), turned(fixture.keys)),
        exact_scores(roped(turned(fixture.queries_pre)), roped(turned(fixture.keys_pre))),
    )
