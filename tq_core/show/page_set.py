"""Pages full of random keys and values, and the pieces of a decode step over them: what the kernel notebooks time.

One layer is encoded; its pages are copied so often that reading them in turn goes past the caches.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_core.codecs.base import Pages
from tq_core.codecs.turboquant import TurboKeys, TurboValues
from tq_core.errors import ValueRangeError, check
from tq_core.kernels.backend import get_backend
from tq_core.kernels.layout import PAGE_TOKENS, PageLayout, code_streams
from tq_core.kernels.reference_pages import page_codes
from tq_core.math.books import Books, load_books, widths_for
from tq_core.math.rotation import StructuredRotation
from tq_core.shapes import ModelShape

SHAPE = ModelShape(n_layers=1, n_query_heads=16, n_kv_heads=4, head_dim=128)
BITS = {"key": 3.5, "value": 3.0}
CACHE_DEFAULT = 32 * 1024 * 1024
COLD_CACHES, COLD_MAX = 4, 256 * 1024 * 1024
F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]


def last_level_cache() -> int:
    """Bytes of the largest cache of CPU 0; a guess where the system does not tell."""
    sizes = []
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        with suppress(OSError, ValueError):
            text = path.read_text().strip()
            sizes.append(int(text.rstrip("KM")) * {"K": 1024, "M": 1024**2}.get(text[-1], 1))
    return max(sizes, default=CACHE_DEFAULT)


def cold_layers(layer_bytes: int) -> int:
    """Copies of a layer that exceed the last-level cache four times, within 256 MiB."""
    return max(1, min(COLD_CACHES * last_level_cache(), COLD_MAX) // layer_bytes)


@dataclass(frozen=True)
class PageSet:
    """``tables`` (layers, pages) uint32 holds each layer's block table, ``pool`` all pages.

    queries (n_query_heads, head_dim); keys and values (n_tokens, n_kv_heads, head_dim) as they were before they were encoded.
    """

    tokens: int
    layout: PageLayout
    pool: npt.NDArray[np.uint8] = field(repr=False)
    tables: npt.NDArray[np.uint32] = field(repr=False)
    queries: F32 = field(repr=False)
    keys: F32 = field(repr=False)
    values: F32 = field(repr=False)
    shape: ModelShape = SHAPE

    @property
    def units(self) -> int:
        """Tokens times KV heads: what times are divided by."""
        return self.tokens * self.shape.n_kv_heads

    @property
    def scale(self) -> float:
        """Softmax scale."""
        return float(np.float32(1 / np.sqrt(self.shape.head_dim)))

    @property
    def books(self) -> Books:
        return load_books()

    @cached_property
    def rotations(self) -> dict[str, StructuredRotation]:
        """Of keys and values."""
        return {s: StructuredRotation(self.shape.head_dim, seed) for s, seed in (("key", 1), ("value", 2))}

    def widths(self, side: str) -> npt.NDArray[np.uint8]:
        """Bits of each group of 16 channels."""
        return widths_for(BITS[side], self.shape.head_dim)

    def stored_bytes(self, *sides: str) -> float:
        """Bytes of codes and scales per token and KV head."""
        return sum(n for name, n in self.layout.streams if name.startswith(sides)) / self.layout.page_tokens

    def unpack(self, side: str) -> tuple[npt.NDArray[np.uint8], F32]:
        """Codes (n_kv_heads, n_tokens, head_dim), one to a byte, and scales (n_kv_heads, n_tokens), read anew at every call."""
        words, widths, keys = self.layout.words, self.widths(side), side == "key"
        read = [
            [page_codes(self.pool, page, words, head, widths, keys, PAGE_TOKENS) for page in self.tables[0]]
            for head in range(self.shape.n_kv_heads)
        ]
        codes = np.stack([np.concatenate([c for _, c in pages]) for pages in read])
        return codes, np.stack([np.concatenate([s for s, _ in pages]) for pages in read])

    def centroid_table(self, side: str) -> F32:
        """(head_dim, 16): the float32 centroid of every channel's every code."""
        table = np.zeros((self.shape.head_dim, 16), np.float32)
        for group, bits in enumerate(self.widths(side)):
            table[16 * group : 16 * group + 16, : 1 << bits] = self.books.centroids(int(bits))
        return table

    def decoded(self, side: str, dtype: Any = np.float32) -> npt.NDArray[Any]:
        """(n_kv_heads, n_tokens, head_dim) in the rotated basis, read out of the pages anew at every call."""
        codes, scales = self.unpack(side)
        table = self.centroid_table(side).astype(dtype, copy=False)
        return table[np.arange(self.shape.head_dim), codes] * scales[..., None].astype(dtype, copy=False)

    @cached_property
    def rotated_queries(self) -> F32:
        return self.rotations["key"].forward(self.queries)

    @cached_property
    def true_scores(self) -> F64:
        """(n_query_heads, n_tokens) logits over the decoded keys, in float64."""
        keys = self.decoded("key", np.float64)
        scores = np.matmul(self.grouped(self.rotated_queries), keys.swapaxes(1, 2))
        return np.asarray(scores.reshape(-1, self.tokens) * self.scale)

    @cached_property
    def weights(self) -> F32:
        """(n_query_heads, n_tokens) softmax of the true scores, rounded to float32."""
        raised = np.exp(self.true_scores - self.true_scores.max(-1, keepdims=True))
        return (raised / raised.sum(-1, keepdims=True)).astype(np.float32)

    @cached_property
    def true_sums(self) -> F64:
        """(n_query_heads, head_dim) sums of the decoded values under ``weights``, rotated basis, in float64."""
        values = self.decoded("value", np.float64)
        return np.matmul(self.grouped(self.weights), values).reshape(self.queries.shape)

    @cached_property
    def true_outputs(self) -> F64:
        """(n_query_heads, head_dim) outputs of the step in the plain basis."""
        return np.asarray(self.rotations["value"].inverse(self.true_sums.astype(np.float32)), np.float64)

    @cached_property
    def plain_outputs(self) -> F64:
        """(n_query_heads, head_dim) attention over the vectors that were encoded, in float64."""
        keys, values = (x.astype(np.float64).transpose(1, 0, 2) for x in (self.keys, self.values))
        scores = np.matmul(self.grouped(self.queries), keys.swapaxes(1, 2)) * self.scale
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return np.matmul(weights / weights.sum(-1, keepdims=True), values).reshape(self.queries.shape)

    def grouped(self, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """(n_query_heads, n) to (n_kv_heads, query heads per KV head, n)."""
        return x.reshape(self.shape.n_kv_heads, -1, x.shape[-1])


def make(tokens: int, cold: bool = True) -> PageSet:
    """Encode ``tokens`` random keys and values, a multiple of the page; ``cold`` copies the layer past the caches.

    Raises ValueRangeError for another number of tokens.
    """
    check(
        tokens > 0 and tokens % PAGE_TOKENS == 0,
        "tokens",
        f"a multiple of {PAGE_TOKENS}",
        tokens,
        ValueRangeError,
    )
    sides = [code_streams(side, widths_for(bits, SHAPE.head_dim), PAGE_TOKENS) for side, bits in BITS.items()]
    layout = PageLayout(SHAPE.n_kv_heads, PAGE_TOKENS, (*sides[0], *sides[1]))
    n_pages = tokens // PAGE_TOKENS
    layers = cold_layers(n_pages * layout.page_bytes) if cold else 1
    raw = np.empty(layers * n_pages * layout.page_bytes + 64, np.uint8)
    pool = raw[-raw.ctypes.data % 64 :][: raw.size - 64]
    tables = np.arange(layers * n_pages, dtype=np.uint32).reshape(layers, n_pages)
    by_layer = pool.reshape(layers, -1)
    by_layer[0] = 0
    random = np.random.default_rng(20250429)
    rows = (tokens, SHAPE.n_kv_heads, SHAPE.head_dim)
    queries = random.standard_normal((SHAPE.n_query_heads, SHAPE.head_dim), np.float32)
    keys, values = (random.standard_normal(rows, np.float32) for _ in BITS)
    pages = Pages(pool, tables[0], layout)
    TurboKeys(BITS["key"], 1, "matched").append(get_backend(), pages, 0, keys)
    TurboValues(BITS["value"], 2, "min_mse").append(get_backend(), pages, 0, values)
    by_layer[1:] = by_layer[0]
    return PageSet(tokens, layout, pool, tables, queries, keys, values)
