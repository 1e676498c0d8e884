"""Kind F: fewer bits on paper than in memory. No metric of quality can see it."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.arm import Arm
from tq_core.codecs.arms import get_arm
from tq_core.codecs.base import F32, Pages, Streams
from tq_core.codecs.checklist import check_declared_bytes_are_the_real_ones
from tq_core.codecs.int8 import Int8Keys
from tq_core.codecs.quarot import QuaRotKeys, QuaRotValues
from tq_core.codecs.rows import Parts
from tq_core.kernels.backend import Backend, NumpyBackend
from validation.museum.exhibit import Exhibit, always
from validation.museum.stops import claim, conformance, rule
from validation.museum.study import WINDOW, Layer, fixture_layer, trial, trial_readings


class UndeclaredNorms(Int8Keys):
    """int8 whose streams leave its scales out; they are put at the end of the head's block, behind what is declared."""

    def streams(self, head_dim: int) -> Streams:
        return super().streams(head_dim)[1:]

    def append(self, backend: Backend, pages: Pages, first: int, x: F32) -> None:
        parts = self.encode(x, pages, None)
        self._write(pages, "codes", first, parts["codes"])
        layout = pages.layout
        for token, rows in enumerate(parts["scales"], first):
            page, slot = divmod(token, self.page_tokens)
            for head, raw in enumerate(rows):
                start = int(pages.table[page]) * layout.page_bytes + layout.page_bytes
                start += (head - layout.n_kv_heads + 1) * layout.head_bytes + 2 * slot
                pages.pool[start : start + 2] = raw


class RoomyKeys(QuaRotKeys):
    """QuaRot that keeps the residual beside the codes, as float32: 4.5 bytes a channel, all of them declared."""

    def group_bytes(self, head_dim: int) -> dict[str, int]:
        return {**super().group_bytes(head_dim), "residuals": 4 * head_dim}

    def encode(self, x: F32, pages: Pages, position: int | None) -> Parts:
        parts = super().encode(x, pages, position)
        rest = np.ascontiguousarray(x - super().expand(parts, x.shape[2], pages), np.float32)
        return {**parts, "residuals": rest.view(np.uint8)}


class WithMatrix(PagedCache):
    """A cache that holds a dense rotation and a ring of raw rows, which its ledger does not name."""

    def __init__(self, layer: Layer, arm: Arm) -> None:
        super().__init__(layer.shape, arm, NumpyBackend(), len(layer.keys))
        self.matrix, self.ring = (
            np.eye(layer.shape.head_dim),
            np.zeros((64, *layer.keys.shape[1:]), np.float32),
        )


class WithMirror(PagedCache):
    """A cache that keeps every token as it came, for speed."""

    def __init__(self, layer: Layer, arm: Arm) -> None:
        super().__init__(layer.shape, arm, NumpyBackend(), len(layer.keys))
        self.mirror: list[np.ndarray] = []

    def attend(self, layer: int, queries: F32, keys: F32, values: F32, *rest: Any, **more: Any) -> F32:
        self.mirror += [keys.copy(), values.copy()]
        return super().attend(layer, queries, keys, values, *rest, **more)


def _arm(keys: Any, values: Any) -> Any:
    return lambda layer: trial(layer, Arm("exhibit", keys, values, WINDOW, 0))


def _held(made: Any) -> Any:
    return lambda layer: trial(layer, get_arm("int8", window=WINDOW), made)


def _plain_cache(layer: Layer, arm: Arm) -> PagedCache:
    return PagedCache(layer.shape, arm, NumpyBackend(), len(layer.keys))


def _claimed(published: str, formula: str, **arguments: Any) -> Any:
    """A published figure as validation/budget/published.json has them."""
    entry = {"source": "exhibit", "table": "", "item": "", "published": published, "formula": formula}
    return always({**entry, "arguments": arguments})


_plain = partial(fixture_layer, n_tokens=65)
_long = partial(fixture_layer, n_tokens=136)
_header = {"split": [[64, 4.5]], "scale_bytes": 22}
_nothing: Any = lambda: None  # noqa: E731

EXHIBITS = (
    Exhibit(
        "F1", "Norms that nobody counts", "turboquant_plus 91",
        "Scales are written outside the declared streams, so the bits per channel are those of the codes alone.",
        "The declared streams are exactly the bytes that are written.",
        _nothing, always(Int8Keys()), always(UndeclaredNorms()), conformance(check_declared_bytes_are_the_real_ones),
    ),
    Exhibit(
        "F2", "Compressed to more than it was", "turboquant-pytorch 11",
        "Codes, scale and a float32 residual: more bytes than float16 had, and a very good error.",
        "The arm, everything counted, holds less than the fp16 cache.",
        _long, _arm(QuaRotKeys(), QuaRotValues()), _arm(RoomyKeys(), QuaRotValues()), rule("memory"), trial_readings,
    ),
    Exhibit(
        "F3", "The rotation matrix and the ring buffer", "0xSero turboquant, its README",
        "A dense matrix and a ring of raw rows are held beside the pages and not counted.",
        "Every buffer that can be reached from the cache is in its ledger.",
        _plain, _held(_plain_cache), _held(WithMatrix), rule("no-shadow"), trial_readings,
    ),
    Exhibit(
        "F5", "Query heads for KV heads", "LLMs-from-scratch 922",
        "A calculator takes the number of query heads for that of KV heads: 16 GB where 4 GB are needed.",
        "2 L H_kv d bytes per value and token.",
        _nothing, _claimed("4.0 GB", "model_bytes", model="llama-8b", tokens=32768, format="FP16"),
        _claimed("16.0 GB", "model_bytes", model="llama-8b", tokens=32768, format="FP16"), claim(),
    ),
    Exhibit(
        "F6", "A ratio against float32", "quant.cpp, its README",
        "Keys of 3.5 and values of 3 bits are called 9.8 times smaller: than float32, which nobody caches.",
        "4.92 times smaller than float16.",
        _nothing, _claimed("4.92x", "compression", key_bits=3.5, value_bits=3.0),
        _claimed("9.85x", "compression", key_bits=3.5, value_bits=3.0), claim(),
    ),
    Exhibit(
        "F7", "A header for every vector", "turboquant-wasm",
        "64 channels at 4.5 bits are called 36 bytes; a header of 22 bytes stands before each vector.",
        "58 bytes: 7.25 bits per channel.",
        _nothing, _claimed("58 B", "vector_bytes", **_header), _claimed("36 B", "vector_bytes", **_header), claim(),
    ),
    Exhibit(
        "F8", "A mirror of everything", "mlx-lm 1587, rMLX 369 and 404",
        "Every token is also kept as it came, so memory grows above what no compression needs.",
        "No decoded copy of the history is kept.",
        _plain, _held(_plain_cache), _held(WithMirror), rule("no-shadow"), trial_readings,
    ),
    Exhibit(
        "F10", "The sidecar's count byte", "the design study",
        "An outlier per vector is priced at index and value, 24 bits, without the byte that says how many there are.",
        "32 bits: 0.25 bits per channel at 128 channels.",
        _nothing, _claimed("0.2500 bits", "vector_bits", bits=32, head_dim=128),
        _claimed("0.1875 bits", "vector_bits", bits=32, head_dim=128), claim(),
    ),
)  # fmt: skip
