"""A cell's data in the library's own format: one pool with the pages of every layer, filled by the append kernels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_core.codecs.base import Pages
from tq_core.codecs.turboquant import TurboKeys, TurboValues
from tq_core.kernels.backend import Backend
from tq_core.kernels.layout import PAGE_TOKENS, PageLayout, code_streams
from tq_core.math.books import Books, load_books, widths_for
from tq_core.math.rotation import StructuredRotation
from validation.bench.plan import Cell, Shape, layers_for

KEY_BITS, VALUE_BITS = 3.5, 3.0
SEED = 20250429
F32 = npt.NDArray[np.float32]


@lru_cache(maxsize=1)
def draw(shape: Shape, tokens: int) -> tuple[F32, F32, F32]:
    """Queries (n_query_heads, head_dim), keys and values (n_tokens, n_kv_heads, head_dim), standard normal.

    The last ones drawn are kept; do not write to them.
    """
    random = np.random.default_rng(SEED)
    queries = random.standard_normal((shape.n_query_heads, shape.head_dim), np.float32)
    keys, values = (
        random.standard_normal((tokens, shape.n_kv_heads, shape.head_dim), np.float32) for _ in range(2)
    )
    return queries, keys, values


def page_layout(shape: Shape) -> PageLayout:
    """Pages of the structured-turbo arm at the benchmark's rates."""
    streams = [
        code_streams(side, widths_for(bits, shape.head_dim), PAGE_TOKENS)
        for side, bits in (("key", KEY_BITS), ("value", VALUE_BITS))
    ]
    return PageLayout(shape.n_kv_heads, PAGE_TOKENS, (*streams[0], *streams[1]))


def _aligned(nbytes: int) -> npt.NDArray[np.uint8]:
    raw = np.empty(nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + nbytes]


@dataclass(frozen=True)
class World:
    """``tables`` is (layers, pages) uint32: the pages of the layers lie interleaved, as a cache that grows lays them."""

    shape: Shape
    tokens: int
    layout: PageLayout
    pool: npt.NDArray[np.uint8]
    tables: npt.NDArray[np.uint32]
    queries: F32

    @property
    def layers(self) -> int:
        return len(self.tables)

    @property
    def scale(self) -> float:
        """Softmax scale."""
        return float(np.float32(1.0 / np.sqrt(self.shape.head_dim)))

    @property
    def payload_bytes(self) -> int:
        """Codes and scales that one step reads: the tokens' share of full pages."""
        return self.layout.payload_bytes * self.tokens // self.layout.page_tokens

    @property
    def books(self) -> Books:
        return load_books()

    def widths(self, side: str) -> npt.NDArray[np.uint8]:
        return widths_for(KEY_BITS if side == "key" else VALUE_BITS, self.shape.head_dim)

    @cached_property
    def rotations(self) -> dict[str, StructuredRotation]:
        """Of keys and values."""
        return {s: StructuredRotation(self.shape.head_dim, i) for s, i in (("key", 1), ("value", 2))}

    def codecs(self, arithmetic: str = "exact") -> tuple[TurboKeys, TurboValues]:
        """The codecs that wrote the pages."""
        return TurboKeys(KEY_BITS, 1, "matched", arithmetic), TurboValues(
            VALUE_BITS, 2, "min_mse", arithmetic
        )

    def pages(self, layer: int = 0) -> Pages:
        return Pages(self.pool, self.tables[layer], self.layout)

    def stored(self, side: str) -> dict[str, Any]:
        """Arguments that the one-sided kernels over pages share."""
        return {
            "widths": self.widths(side), "levels": self.books.levels, "book_scale": self.books.scale,
            "pages": self.tables[0], "layout": self.layout.words, "pool": self.pool,
            "n_kv_heads": self.shape.n_kv_heads, "n_tokens": self.tokens, "offset": 0,
        }  # fmt: skip


def build(cell: Cell, cold_bytes: int, cache_bytes: int, backend: Backend) -> World:
    """Encode one layer and copy its pages for the others. Raises as the backend does."""
    shape, layout = cell.shape, page_layout(cell.shape)
    n_pages = -(-cell.tokens // layout.page_tokens)
    layers = layers_for(cell.state, n_pages * layout.page_bytes, cold_bytes, cache_bytes)
    queries, keys, values = draw(shape, cell.tokens)
    pool = _aligned(layers * n_pages * layout.page_bytes)
    tables = np.arange(layers * n_pages, dtype=np.uint32).reshape(n_pages, layers).T.copy()
    pages = pool.reshape(n_pages, layers, layout.page_bytes)
    pages[:, 0] = 0
    world = World(shape, cell.tokens, layout, pool, tables, queries)
    for codec, x in zip(world.codecs(), (keys, values)):
        codec.append(backend, world.pages(), 0, x)
    pages[:, 1:] = pages[:, :1]
    return world
