"""Kind C: the codec is right and attention is wired wrong."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tq_core.cache.batch import HalfPart, paged_attention
from tq_core.codecs.arms import get_arm
from tq_core.codecs.base import F32, Pages
from tq_core.codecs.checklist import check_read_equals_decode
from tq_core.codecs.fp16 import HalfKeys, HalfValues
from tq_core.codecs.int8 import Int8Keys
from tq_core.codecs.mapped import Rows
from tq_core.kernels.backend import Backend, NumpyBackend
from tq_core.kernels.layout import PageLayout
from tq_core.shapes import ModelShape
from tq_core.show.attention import softmax
from validation.museum.exhibit import Exhibit, always
from validation.museum.maths import read_keys, read_values, with_keys
from validation.museum.rows import RowKeys, RowValues
from validation.museum.stops import conformance, rule
from validation.museum.study import (
    Layer,
    fixture_layer,
    gaussian_layer,
    paged,
    trial,
    trial_readings,
    twins,
    twins_readings,
)


class FewHeadsBack(RowValues):
    """Sums that are rotated back for as many query heads as there are KV heads."""

    def weighted_sum(
        self, backend: Backend, weights: F32, pages: Pages, n_tokens: int, offset: int, out: F32
    ) -> None:
        total = np.zeros_like(out)
        super().weighted_sum(backend, weights, pages, n_tokens, offset, total)
        rotated = self.maps(out.shape[1])[0].forward(total)
        done = pages.layout.n_kv_heads
        out[:done] += total[:done]
        out[done:] += rotated[done:]


class RawQueryKeys(RowKeys):
    """Rotated keys that meet a query which is not rotated."""

    def logits(self, queries: F32, rows: Rows) -> F32:
        return super().logits(self.maps(queries.shape[-1])[0].transpose(queries), rows)


SLIDING = 16


def downhill_layer() -> Layer:
    """Every logit far below zero: keys share a direction that queries avoid."""
    plain = gaussian_layer(5, n_tokens=64)
    keys, queries = plain.keys.copy(), plain.queries.copy()
    keys[..., 0], queries[..., 0] = 20, -20
    return Layer(queries, keys, plain.values, 5)


def masked(layer: Layer, fill: float) -> np.ndarray:
    """Attention over the newest SLIDING tokens from the cache's logits, hidden ones set to ``fill``."""
    cache, outputs = paged(layer, get_arm("fp16")), np.zeros_like(layer.queries)
    values = np.repeat(layer.values, layer.shape.group_size_heads, axis=1)
    for t in range(len(layer.keys)):
        cache.append(0, layer.keys[t : t + 1], layer.values[t : t + 1])
        logits = cache.scores(0, layer.queries[t]).astype(np.float64)
        logits[:, : max(0, t + 1 - SLIDING)] = fill
        outputs[t] = np.einsum("ht,thd->hd", softmax(logits), values[: t + 1])
    return outputs


def slid(layer: Layer) -> np.ndarray:
    """The cache's own attention over the newest SLIDING tokens."""
    cache = paged(layer, get_arm("fp16"))
    return cache.attend(0, layer.queries, layer.keys, layer.values, sliding_window=SLIDING)


def sequences(layer: Layer, sinks_of: tuple[int, int], asked: tuple[int, ...] = (0, 1)) -> np.ndarray:
    """The last token's attention of two sequences of one pool, with sink tokens as ``sinks_of`` says.

    Sequence 0 has the first half of the layer's tokens and sequence 1 the second; the first four of each are sinks.
    asked: the sequences that go through the step together.
    """
    half, heads, d = len(layer.keys) // 2, layer.shape.n_kv_heads, layer.shape.head_dim
    keys, values = HalfKeys(), HalfValues()
    layout = PageLayout(heads, keys.page_tokens, keys.streams(d) + values.streams(d))
    pool, backend = np.zeros(4 * layout.page_bytes, np.uint8), NumpyBackend()
    for i in range(2):
        for page, part in ((i, slice(i * half, i * half + 4)), (2 + i, slice(i * half + 4, (i + 1) * half))):
            pages = Pages(pool, np.array([page], np.uint32), layout)
            keys.append(backend, pages, 0, np.ascontiguousarray(layer.keys[part]))
            values.append(backend, pages, 0, np.ascontiguousarray(layer.values[part]))
    rows = list(asked)
    tables = (
        np.array([[sinks_of[i]] for i in asked], np.uint32),
        np.array([[2 + i] for i in asked], np.uint32),
    )
    return paged_attention(
        layer.queries[[half - 1, 2 * half - 1]][rows], pool, tables[1], np.full(len(rows), half - 4),
        keys=keys, values=values, n_kv_heads=heads, backend=backend,
        sinks=HalfPart(pool, tables[0], np.full(len(rows), 4)),
    )  # fmt: skip


def alone(layer: Layer) -> np.ndarray:
    """The same two answers, one sequence at a time."""
    return np.concatenate([sequences(layer, (0, 1), (i,)) for i in range(2)])


def first_token_layer() -> Layer:
    """The first key is 25 times as long as the others, which share its groups."""
    plain = fixture_layer(2, n_tokens=96)
    keys = plain.keys.copy()
    keys[0] = 25 * keys[1]
    return Layer(plain.queries, keys, plain.values, 2)


def _arm_trial(name: str, **options: Any) -> Any:
    return lambda layer: trial(layer, get_arm(name, **{"window": 8, **options}))


_gqa = partial(fixture_layer, n_tokens=96, n_outliers=6, gain=4.0, shape=ModelShape(1, 7, 1, 64))
_80 = partial(fixture_layer, n_tokens=65, shape=ModelShape(1, 8, 2, 80))

EXHIBITS = (
    Exhibit(
        "C1", "Rotated back for too few heads", "llama-cpp-turboquant 299",
        "The loop that undoes the rotation of the output runs over KV heads instead of query heads.",
        "All query heads come back; sums over codes equal sums over decoded values.",
        _80, always(RowValues(3, rotation="structured")), always(FewHeadsBack(3, rotation="structured")),
        conformance(check_read_equals_decode, 80), read_values,
        "Values as stored are flawless; a quarter of the output is too.",
    ),
    Exhibit(
        "C3", "Grouped heads blamed for outlier keys", "llama-cpp-turboquant 54",
        "Keys with outlier channels at 3 bits under 7 query heads per KV head: the loss was put down to grouping.",
        "The same grouping with keys at 8 bits and the same values.",
        _gqa, lambda layer: trial(layer, with_keys(Int8Keys(), RowValues(3, rotation="structured"))),
        lambda layer: trial(layer, with_keys(RowKeys(3, rotation="structured"), RowValues(3, rotation="structured"))),
        rule("kl"), trial_readings,
    ),
    Exhibit(
        "C4", "A raw query meets rotated keys", "atlas 133",
        "One path forgets to rotate the query: fluent text, no crash.",
        "Scores over codes equal scores over decoded keys.",
        partial(fixture_layer, n_tokens=80), always(RowKeys(3, rotation="structured")),
        always(RawQueryKeys(3, rotation="structured")), conformance(check_read_equals_decode), read_keys,
    ),
    Exhibit(
        "C6", "A mask that is not minus infinity", "d-inference 377",
        "Hidden positions get the least positive number; where all logits are negative they win the softmax.",
        "Hidden positions are not there at all.",
        downhill_layer, lambda layer: twins(layer, slid(layer), slid(layer)),
        lambda layer: twins(layer, slid(layer), masked(layer, float(np.finfo(np.float32).tiny))), rule("no-op"), twins_readings,
    ),
    Exhibit(
        "C8", "A giant first token in everybody's group", "transformers 35185",
        "The first key is 25 times as long and shares its step with 31 others in every channel.",
        "Sink tokens stay in float16, out of every group.",
        first_token_layer, _arm_trial("kivi-control", key_bits=4, value_bits=4, sinks=4),
        _arm_trial("kivi-control", key_bits=4, value_bits=4, sinks=0), rule("kl"), trial_readings,
    ),
    Exhibit(
        "C9", "Sinks of the first sequence for all", "veloxquant-mlx 85",
        "In a batch of two, both read the sink tokens of sequence 0.",
        "A batch gives each sequence what it gives alone, bit for bit.",
        partial(gaussian_layer, 6, n_tokens=64), lambda layer: twins(layer, alone(layer), sequences(layer, (0, 1))),
        lambda layer: twins(layer, alone(layer), sequences(layer, (0, 0))), rule("no-op"), twins_readings,
    ),
)  # fmt: skip
