"""What every codec has whose pages are structured TurboQuant's: tiles of codebook levels, one scale per token.

How a vector becomes levels and how a query meets them is the codec's own; from then on the same kernels read them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_core.codecs.base import F32, Pages, Streams
from tq_core.codecs.erase import erase_rows, erase_tiles
from tq_core.kernels.backend import Backend
from tq_core.kernels.layout import PAGE_TOKENS, code_streams
from tq_core.math import tiles
from tq_core.math.books import load_books, widths_for
from tq_core.math.pairs import PAIR_BITS, split_pairs
from tq_core.math.quantize import QUERY_MAX, SMALL_MAX, centroid_values

ARITHMETIC = ("exact", "fast", "f32")


@lru_cache(maxsize=64)
def book_arguments(bits: float, head_dim: int, code: str) -> dict[str, Any]:
    books = load_books()
    return {"widths": widths_for(bits, head_dim, code), "levels": books.levels, "book_scale": books.scale}


class TurboTiles:
    """``bits`` per channel, ``arithmetic`` of the scans ("exact", "fast", "f32"), ``code`` of half rates ("split", "pair")."""

    bits: float
    arithmetic: str
    code: str = "split"
    flush_tokens = 1
    page_tokens = PAGE_TOKENS
    _side = ""

    @property
    def pairs(self) -> bool:
        """Whether two coordinates share a code."""
        return self.code == "pair" and self.bits in PAIR_BITS

    def check(self, head_dim: int) -> None:
        self.widths(head_dim)

    def widths(self, head_dim: int) -> npt.NDArray[np.uint8]:
        """Bits of each 16-channel group, as the kernels take them."""
        return widths_for(self.bits, head_dim, self.code)

    def streams(self, head_dim: int) -> Streams:
        return code_streams(self._side, self.widths(head_dim), self.page_tokens)

    def nominal_bits(self, head_dim: int) -> float:
        return float(self.widths(head_dim).mean())

    def map_queries(self, backend: Backend, queries: F32, pages: Pages) -> F32:
        """Queries (n, n_query_heads, head_dim) as they meet the codes of these pages."""
        raise NotImplementedError

    def unmap_sums(self, backend: Backend, sums: F32, pages: Pages) -> F32:
        """Sums of coded values (n, n_query_heads, head_dim) as sums of values."""
        raise NotImplementedError

    def query_shift(self, queries: F32, scale: float, pages: Pages) -> F32 | None:
        """(n, n_query_heads): what every coded key's logit lacks; None where it is nothing."""
        return None

    def erase(self, pages: Pages, page: int, first: int, head_dim: int) -> None:
        erase_rows(pages, page, f"{self._side}_scales", first)
        widths = self.widths(head_dim)
        erase_tiles(pages, page, f"{self._side}_codes", first, widths, self._side == "key")

    def decode_codes(self, pages: Pages, n_tokens: int, head_dim: int) -> F32:
        """(n_tokens, n_kv_heads, head_dim): scale times centroid, in the basis of the codes."""
        widths, heads = self.widths(head_dim), pages.layout.n_kv_heads
        out = np.empty((n_tokens, heads, head_dim), np.float32)
        codes, scales = (
            pages.stack(f"{self._side}_codes", n_tokens),
            pages.stack(f"{self._side}_scales", n_tokens),
        )
        for head in range(heads):
            flat = tiles.unpack_stream(
                np.ascontiguousarray(codes[:, head]).reshape(-1), widths, self._side == "key"
            )
            scale = np.ascontiguousarray(scales[:, head]).view(np.float16).reshape(-1, 1).astype(np.float32)
            rotated = scale * centroid_values(split_pairs(flat, widths), widths, load_books())
            out[:, head] = rotated[:n_tokens]
        return out


class TileKeys(TurboTiles):
    """Keys in tiles."""

    _side = "key"

    def centre_query(self, queries: F32, scale: float) -> F32:
        """What scores a page's centre, (n, head_dim), or no channels where pages have none."""
        return queries[:, :0].copy()

    def scores(
        self, backend: Backend, queries: F32, scale: float, pages: Pages, n_tokens: int, out: F32, offset: int
    ) -> None:
        if n_tokens == 0:
            return
        rotated = self.map_queries(backend, queries[None], pages)[0]
        common = {
            "centre_query": self.centre_query(queries, scale),
            **book_arguments(self.bits, queries.shape[-1], self.code), "pages": pages.table, "layout": pages.layout.words,
            "pool": pages.pool, "scores": out, "n_kv_heads": pages.layout.n_kv_heads, "n_tokens": n_tokens, "offset": offset,
        }  # fmt: skip
        shift = self.query_shift(queries[None], scale, pages)
        if self.arithmetic == "f32":
            backend.call("score_keys_f32", query=rotated, scale=scale, **common)
        else:
            self._integer_scores(backend, rotated, scale, common)
        if shift is not None:
            out[:, offset : offset + n_tokens] += shift[0][:, None]

    def _integer_scores(self, backend: Backend, rotated: F32, scale: float, common: dict[str, Any]) -> None:
        query, step = np.empty(rotated.shape, np.int16), np.empty(len(rotated), np.float32)
        limit = SMALL_MAX if self.arithmetic == "fast" else QUERY_MAX
        backend.call("quantize_query", x=rotated, query=query, step=step, scale=scale, limit=float(limit))
        backend.call("score_keys", query=query, step=step, **common)


class TileValues(TurboTiles):
    """Values in tiles."""

    _side = "value"

    def weighted_sum(
        self, backend: Backend, weights: F32, pages: Pages, n_tokens: int, offset: int, out: F32
    ) -> None:
        if n_tokens == 0:
            return
        rotated = np.zeros_like(out)
        kernel = "sum_values_f32" if self.arithmetic == "f32" else "sum_values"
        backend.call(
            kernel, weights=weights, **book_arguments(self.bits, out.shape[-1], self.code), pages=pages.table,
            layout=pages.layout.words, pool=pages.pool, out=rotated, n_kv_heads=pages.layout.n_kv_heads,
            n_tokens=n_tokens, offset=offset,
        )  # fmt: skip
        out += self.unmap_sums(backend, rotated[None], pages)[0]
