"""numpy float32: two batched matrix products and a softmax, query heads of one KV head folded into rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from validation.bench.peers.data import Prepared, Work

CONTESTANTS = [["numpy-fp32", "decode step"]]


def versions() -> dict[str, Any]:
    """numpy, and the kernel family that its BLAS chose for this CPU."""
    found: dict[str, Any] = {"numpy": np.__version__}
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return found
    for pool in threadpool_info():
        if pool["user_api"] == "blas":
            found["numpy BLAS"] = (
                f"{pool['internal_api']} {pool['version']} {pool.get('architecture', '')}".strip()
            )
    return found


def prepare(name: str, work: Work) -> Prepared | str:
    """Keys transposed once, since a cache would store them as its product needs them."""
    queries = work.folded * np.float32(work.scale)
    keys, values = np.ascontiguousarray(work.keys.swapaxes(1, 2)), work.values
    nbytes = keys.nbytes + values.nbytes
    stack = [(keys, values)] + [(keys.copy(), values.copy()) for _ in range(work.layers(nbytes) - 1)]
    scores = np.empty((work.n_kv_heads, queries.shape[1], work.tokens), np.float32)
    out = np.empty(queries.shape, np.float32)

    def run(layer: int) -> None:
        k, v = stack[layer]
        np.matmul(queries, k, out=scores)
        np.subtract(scores, scores.max(-1, keepdims=True), out=scores)
        np.exp(scores, out=scores)
        np.divide(scores, scores.sum(-1, keepdims=True), out=scores)
        np.matmul(scores, v, out=out)

    return Prepared(run, nbytes, len(stack), lambda: out)
