"""turbovec: search over 2- and 4-bit codes, one index per KV head. Scoring only, and only the best k.

Its search is staged: one bit plane is scanned and a shortlist is scored again, so it does not compute every score.
"""

from __future__ import annotations

import importlib.metadata
from typing import Any

import numpy as np
from turbovec import TurboQuantIndex

from validation.bench.peers.data import Prepared, Work

TOP = 10
CONTESTANTS = [["turbovec-4bit-top10", "key scan"], ["turbovec-2bit-top10", "key scan"]]


def versions() -> dict[str, Any]:
    """The package's version."""
    return {"turbovec": importlib.metadata.version("turbovec")}


def prepare(name: str, work: Work) -> Prepared | str:
    """One index per KV head and layer; its threads are bounded by RAYON_NUM_THREADS, which the parent sets."""
    bits = 4 if "4bit" in name else 2
    queries = np.ascontiguousarray(work.folded)

    def make() -> list[Any]:
        made = []
        for keys in work.keys:
            index = TurboQuantIndex(work.head_dim, bits)
            index.add(np.ascontiguousarray(keys))
            index.prepare()
            made.append(index)
        return made

    nbytes = work.n_kv_heads * work.tokens * (work.head_dim * bits // 8)
    first = make()
    layers = [first]
    for _ in range(work.layers(nbytes) - 1):
        layers.append([TurboQuantIndex.from_bytes(index.to_bytes()) for index in first])

    def run(layer: int) -> None:
        for rows, index in zip(queries, layers[layer]):
            index.search(rows, TOP)

    return Prepared(run, nbytes, len(layers), None, "top 10 only, staged search")
