"""Codecs that find their codes in numpy and keep them in the kernels' tiles, where scores and sums are the kernels'.

The codes' levels must be odd integers times one factor (``Grid``). Two to four bits are read by the kernels of
structured TurboQuant, one bit by those of signs. In memory a row's codes are one byte each, (n_kv_heads, n, channels);
in a page they are tiles with one float16 scale per token.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tq_core.codecs.base import F32, CodecTags, Pages, Streams
from tq_core.codecs.erase import erase_rows, erase_tiles
from tq_core.codecs.kernel_maps import forward, transpose
from tq_core.codecs.mapped import MappedCodec, Rows
from tq_core.errors import CodecError, ValueRangeError, check
from tq_core.kernels.backend import Backend
from tq_core.kernels.layout import PageLayout
from tq_core.kernels.table import LAYOUT
from tq_core.math import tiles
from tq_core.math.books import BOOK_BITS, BOOK_LEVELS
from tq_core.math.grids import Grid
from tq_core.math.quantize import QUERY_MAX

U32 = np.ndarray


@dataclass(frozen=True)
class Tiles:
    """A stream of codes and its scales, by the names they have in rows and, behind the side's, in pages."""

    bits: int
    channels: int
    scales: str = "scales"
    codes: str = "codes"

    @property
    def widths(self) -> np.ndarray:
        """Bits of each 16-channel group."""
        return np.full(self.channels // tiles.TILE_CHANNELS, self.bits, np.uint8)


@lru_cache(maxsize=256)
def layout_words(layout: PageLayout, side: str, part: Tiles) -> U32:
    """The kernels' ``layout`` for which this part is the side's codes and scales."""
    words = layout.words.copy()
    for entry, name in (("scales", part.scales), ("codes", part.codes)):
        words[LAYOUT.index(f"{side}_{entry}")] = layout.offsets[f"{side}_{name}"]
    return words


@lru_cache(maxsize=64)
def _book(grid: Grid, bits: int) -> dict[str, np.ndarray]:
    """The kernels' book table with the grid in the row of its bits."""
    levels, scale = np.zeros((len(BOOK_LEVELS), 16), np.uint8), np.zeros(len(BOOK_LEVELS), np.float32)
    row = BOOK_BITS.index(bits)
    levels[row, : 1 << bits], scale[row] = grid.levels, grid.scale
    return {"levels": levels, "book_scale": scale}


class TiledCodec(MappedCodec):
    """What keys and values have in common. ``row_streams`` names what pages have beside tiles."""

    @property
    def tags(self) -> CodecTags:
        """The same bits on every backend."""
        return CodecTags()

    def tiles(self, head_dim: int) -> tuple[Tiles, ...]:
        """The parts of a vector, in the order of ``maps``."""
        raise NotImplementedError

    def encode(self, x: F32, backend: Backend | None = None) -> Rows:
        """Rows of x (n_kv_heads, n_tokens, head_dim), mapped on the backend where there is one."""
        raise NotImplementedError

    def row_streams(self, head_dim: int) -> dict[str, tuple[int, int]]:
        return {}

    def streams(self, head_dim: int) -> Streams:
        parts = self.tiles(head_dim)
        scales = [(f"{self._side}_{p.scales}", 2 * self.page_tokens) for p in parts]
        per_tile = self.page_tokens // tiles.TILE_TOKENS
        codes = [(f"{self._side}_{p.codes}", tiles.tile_bytes(p.widths) * per_tile) for p in parts]
        return (*scales, *super().streams(head_dim), *codes)

    def nominal_bits(self, head_dim: int) -> float:
        return sum(p.bits * p.channels for p in self.tiles(head_dim)) / head_dim

    def append(self, backend: Backend, pages: Pages, first: int, x: F32) -> None:
        flush, d = self.flush_tokens, x.shape[-1]
        aligned = first % flush == 0 and len(x) % flush == 0
        check(aligned, "first", f"whole groups of {flush} tokens", (first, len(x)), CodecError)
        check(bool(np.isfinite(x).all()), "x", "finite values", "some that are not", ValueRangeError)
        if len(x) == 0:
            return
        rows = self.encode(np.ascontiguousarray(np.swapaxes(x, 0, 1)), backend)
        self._write_rows(pages, first, len(x), {k: rows[k] for k in self.row_streams(d)}, d)
        for part in self.tiles(d):
            backend.call(
                f"store_{self._side}_codes",
                codes=np.ascontiguousarray(np.swapaxes(rows[part.codes], 0, 1)),
                scales=np.ascontiguousarray(np.swapaxes(rows[part.scales], 0, 1)).view(np.uint16)[..., 0],
                widths=part.widths,
                pages=pages.table,
                layout=layout_words(pages.layout, self._side, part),
                pool=pages.pool,
                first=first,
            )

    def erase(self, pages: Pages, page: int, first: int, head_dim: int) -> None:
        super().erase(pages, page, first, head_dim)
        for part in self.tiles(head_dim):
            erase_rows(pages, page, f"{self._side}_{part.scales}", first)
            erase_tiles(pages, page, f"{self._side}_{part.codes}", first, part.widths, self._side == "key")

    def rows(self, pages: Pages, n_tokens: int, head_dim: int) -> Rows:
        out, heads = super().rows(pages, n_tokens, head_dim), pages.layout.n_kv_heads
        for part in self.tiles(head_dim):
            scales = np.swapaxes(pages.stack(f"{self._side}_{part.scales}", n_tokens), 0, 1)
            out[part.scales] = np.ascontiguousarray(scales).reshape(heads, -1, 2)[:, :n_tokens]
            packed = pages.stack(f"{self._side}_{part.codes}", n_tokens)
            out[part.codes] = np.stack(
                [
                    tiles.unpack_stream(
                        np.ascontiguousarray(packed[:, h]).reshape(-1), part.widths, self._side == "key"
                    )[:n_tokens]
                    for h in range(heads)
                ]
            )
        return out


def score_tiles(
    backend: Backend, query: F32, scale: float, part: Tiles, grid: Grid, pages: Pages, n_tokens: int, out: F32,
    offset: int, add: bool = False,
) -> None:  # fmt: skip
    """Scores of mapped queries against one part's tiles; ``add`` puts them on top of what is there, for signs alone."""
    integers, step = np.empty(query.shape, np.int16), np.empty(len(query), np.float32)
    factor = scale * float(grid.scale) if part.bits == 1 else scale
    backend.call("quantize_query", x=query, query=integers, step=step, scale=factor, limit=float(QUERY_MAX))
    common: dict[str, Any] = {
        "query": integers, "step": step, "pages": pages.table, "layout": layout_words(pages.layout, "key", part),
        "pool": pages.pool, "scores": out, "n_kv_heads": pages.layout.n_kv_heads, "n_tokens": n_tokens, "offset": offset,
    }  # fmt: skip
    if part.bits == 1:
        backend.call("score_signs", add=int(add), **common)
        return
    book, no_centre = _book(grid, part.bits), np.empty((len(query), 0), np.float32)
    backend.call("score_keys", widths=part.widths, centre_query=no_centre, **book, **common)


def sum_tiles(
    backend: Backend, weights: F32, part: Tiles, grid: Grid, pages: Pages, n_tokens: int, offset: int
) -> F32:
    """Weighted sums of one part's tiles under its map, (n_query_heads, channels)."""
    out = np.zeros((len(weights), part.channels), np.float32)
    common: dict[str, Any] = {
        "weights": weights, "pages": pages.table, "layout": layout_words(pages.layout, "value", part),
        "pool": pages.pool, "out": out, "n_kv_heads": pages.layout.n_kv_heads, "n_tokens": n_tokens, "offset": offset,
    }  # fmt: skip
    if part.bits == 1:
        backend.call("sum_signs", **common)
        return out * grid.scale
    backend.call("sum_values", widths=part.widths, **_book(grid, part.bits), **common)
    return out


class TiledKeys(TiledCodec):
    """Keys of tiles; each part's grid is ``grids(head_dim)``'s."""

    _side = "key"

    def grids(self, head_dim: int) -> tuple[Grid, ...]:
        """One grid per part."""
        raise NotImplementedError

    def scores(
        self, backend: Backend, queries: F32, scale: float, pages: Pages, n_tokens: int, out: F32, offset: int
    ) -> None:
        if n_tokens == 0:
            return
        d = queries.shape[-1]
        for i, (m, part, grid) in enumerate(zip(self.maps(d), self.tiles(d), self.grids(d), strict=True)):
            mapped = forward(backend, m, queries)
            score_tiles(backend, mapped, scale, part, grid, pages, n_tokens, out, offset, add=i > 0)


class TiledValues(TiledCodec):
    """Values of tiles, summed under each map before one transpose."""

    _side = "value"

    def grids(self, head_dim: int) -> tuple[Grid, ...]:
        """One grid per part."""
        raise NotImplementedError

    def weighted_sum(
        self, backend: Backend, weights: F32, pages: Pages, n_tokens: int, offset: int, out: F32
    ) -> None:
        if n_tokens == 0:
            return
        d = out.shape[-1]
        for m, part, grid in zip(self.maps(d), self.tiles(d), self.grids(d), strict=True):
            total = sum_tiles(backend, weights, part, grid, pages, n_tokens, offset)
            out += transpose(backend, m, total)
