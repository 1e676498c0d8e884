"""faiss: inner-product search with compressed vectors, one index per KV head. Scoring only, and only the best k."""

from __future__ import annotations

from typing import Any

import faiss
import numpy as np

from validation.bench.peers.data import Prepared, Work

TOP = 10
TRAIN_ROWS = 2048
CONTESTANTS = [
    ["faiss-pq4-fastscan-top10", "key scan"],
    ["faiss-sq4-top10", "key scan"],
    ["faiss-sq8-top10", "key scan"],
]


def versions() -> dict[str, Any]:
    """faiss and its compile options."""
    return {"faiss": faiss.__version__, "faiss options": faiss.get_compile_options().strip()}


def _index(name: str, d: int) -> Any:
    inner = faiss.METRIC_INNER_PRODUCT
    if "pq4" in name:
        return faiss.IndexPQFastScan(d, d, 4, inner)
    kind = faiss.ScalarQuantizer.QT_4bit if "sq4" in name else faiss.ScalarQuantizer.QT_8bit
    return faiss.IndexScalarQuantizer(d, kind, inner)


def prepare(name: str, work: Work) -> Prepared | str:
    """One layer of indexes, copied for the others."""
    faiss.omp_set_num_threads(work.threads)
    queries = np.ascontiguousarray(work.folded)
    first = []
    trained = _index(name, work.head_dim)
    trained.train(work.keys[0, :TRAIN_ROWS])  # the heads' vectors are drawn alike, so one training serves all
    for keys in work.keys:
        index = faiss.clone_index(trained)
        index.add(keys)
        first.append(index)
    nbytes = sum(
        index.ntotal * index.sa_code_size() if hasattr(index, "sa_code_size") else 0 for index in first
    )
    nbytes = nbytes or work.n_kv_heads * work.tokens * work.head_dim // 2
    layers = [first] + [[faiss.clone_index(i) for i in first] for _ in range(work.layers(nbytes) - 1)]

    def run(layer: int) -> None:
        for rows, index in zip(queries, layers[layer]):
            index.search(rows, TOP)

    return Prepared(run, nbytes, len(layers), None, "top 10 only")
