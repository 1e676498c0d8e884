"""The rungs below the library's kernels: decode and multiply in numpy, and loops that a reader writes in C++."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tq_core.kernels.native import TARGETS, cpu_features
from tq_core.show.page_set import PageSet
from tq_core.show.work import F32, Runner

FLOAT_BYTES = 4


def native_targets() -> list[str]:
    """Native targets that this CPU has, narrowest first."""
    return [name for name, needs in TARGETS.items() if needs <= cpu_features()]


def decoding_bytes(data: PageSet, *sides: str) -> float:
    """Bytes per token and KV head of decoding to float32 and reading that: packed read, decoded written, decoded read."""
    return data.stored_bytes(*sides) + len(sides) * 2 * FLOAT_BYTES * data.shape.head_dim


def unpacked_bytes(data: PageSet, *sides: str) -> float:
    """Bytes per token and KV head with a byte per code and a float32 scale."""
    return float(len(sides) * (data.shape.head_dim + FLOAT_BYTES))


def decode_then_matmul(data: PageSet) -> tuple[Runner, Runner, Runner]:
    """(scores, value sums, whole step): every call decodes the pages to float32 and multiplies matrices."""
    scores = np.empty((len(data.queries), data.tokens), np.float32)
    sums, outputs = np.empty_like(data.queries), np.empty_like(data.queries)

    def score(queries: F32) -> None:
        keys = data.decoded("key").swapaxes(1, 2)
        np.multiply(
            np.matmul(data.grouped(queries), keys).reshape(scores.shape), np.float32(data.scale), out=scores
        )

    def add_up(weights: F32) -> None:
        sums[:] = np.matmul(data.grouped(weights), data.decoded("value")).reshape(sums.shape)

    def step() -> None:
        score(data.rotations["key"].forward(data.queries))
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        add_up(weights / weights.sum(-1, keepdims=True))
        outputs[:] = data.rotations["value"].inverse(sums)

    return (
        Runner(lambda: score(data.rotated_queries), scores),
        Runner(lambda: add_up(data.weights), sums),
        Runner(step, outputs),
    )


def looped_scores(data: PageSet, function: Callable[..., Any]) -> Runner:
    """A C++ ``scores(codes, scale, table, query, softmax, n, d, out)``, called for every query head."""
    (codes, scales), table = data.unpack("key"), data.centroid_table("key")
    out = np.empty((len(data.queries), data.tokens), np.float32)
    group = data.shape.n_query_heads // data.shape.n_kv_heads
    calls = [
        (
            codes[q // group],
            scales[q // group],
            table,
            data.rotated_queries[q],
            data.scale,
            *codes.shape[1:],
            out[q],
        )
        for q in range(len(out))
    ]
    return Runner(lambda: [function(*call) for call in calls], out)


def looped_sums(data: PageSet, function: Callable[..., Any]) -> Runner:
    """A C++ ``sums(codes, scale, table, weights, n, d, out)`` that adds to ``out``, called for every query head."""
    (codes, scales), table = data.unpack("value"), data.centroid_table("value")
    out = np.empty_like(data.queries)
    group = data.shape.n_query_heads // data.shape.n_kv_heads
    calls = [
        (codes[q // group], scales[q // group], table, data.weights[q], *codes.shape[1:], out[q])
        for q in range(len(out))
    ]

    def run() -> None:
        out.fill(0)
        for call in calls:
            function(*call)

    return Runner(run, out)
