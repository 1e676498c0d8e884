"""Plain float16 rows: the recent window, the sink tokens, and the uncompressed arm."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tq_core.codecs.base import F32, CodecTags, Pages, Streams
from tq_core.codecs.erase import erase_rows
from tq_core.kernels.backend import Backend
from tq_core.kernels.layout import HEADER_BYTES, half_streams
from tq_core.shapes import check_head_dim

RECENT_PAGE_TOKENS = 32


@dataclass(frozen=True)
class _HalfRows:
    """float16 rows, one per token and KV head."""

    name = "fp16"
    tags = CodecTags()
    flush_tokens = 1
    page_tokens = RECENT_PAGE_TOKENS
    _side = ""

    def check(self, head_dim: int) -> None:
        check_head_dim(head_dim)

    def streams(self, head_dim: int) -> Streams:
        return half_streams(self._side, head_dim, self.page_tokens)

    def nominal_bits(self, head_dim: int) -> float:
        return 16.0

    def fixed_bytes(self, head_dim: int) -> int:
        return 0

    def append(self, backend: Backend, pages: Pages, first: int, x: F32) -> None:
        # The rows of a page's consecutive slots lie side by side, so each page takes one assignment.
        layout, row_bytes, done = pages.layout, 2 * x.shape[-1], 0
        halves = x.astype(np.float16)
        while done < len(x):
            page, slot = divmod(first + done, self.page_tokens)
            run = np.ascontiguousarray(np.swapaxes(halves[done : done + self.page_tokens - slot], 0, 1))
            start = int(pages.table[page]) * layout.page_bytes + HEADER_BYTES
            heads = pages.pool[start : start + len(run) * layout.head_bytes].reshape(len(run), -1)
            at = layout.offsets[f"{self._side}_codes"] + slot * row_bytes
            heads[:, at : at + run.shape[1] * row_bytes] = run.view(np.uint8).reshape(len(run), -1)
            done += run.shape[1]

    def erase(self, pages: Pages, page: int, first: int, head_dim: int) -> None:
        erase_rows(pages, page, f"{self._side}_codes", first)

    def decode(self, pages: Pages, n_tokens: int, head_dim: int) -> F32:
        rows = np.ascontiguousarray(pages.stack(f"{self._side}_codes", n_tokens)).view(np.float16)
        rows = rows.reshape(rows.shape[0], rows.shape[1], self.page_tokens, head_dim)
        tokens = np.moveaxis(rows, 1, 2).reshape(-1, rows.shape[1], head_dim)
        return tokens[:n_tokens].astype(np.float32, order="C")


@dataclass(frozen=True)
class HalfKeys(_HalfRows):
    """Keys as float16; scores in float32, lane order."""

    _side = "key"

    def scores(
        self,
        backend: Backend,
        queries: F32,
        scale: float,
        pages: Pages,
        n_tokens: int,
        out: F32,
        offset: int,
        first: int = 0,
    ) -> None:
        backend.call(
            "score_f16", query=queries, pages=pages.table, layout=pages.layout.words, pool=pages.pool, scores=out,
            n_kv_heads=pages.layout.n_kv_heads, n_tokens=n_tokens, offset=offset, first=first, scale=scale,
        )  # fmt: skip


@dataclass(frozen=True)
class HalfValues(_HalfRows):
    """Values as float16; sums in float32, token order."""

    _side = "value"

    def weighted_sum(
        self,
        backend: Backend,
        weights: F32,
        pages: Pages,
        n_tokens: int,
        offset: int,
        out: F32,
        first: int = 0,
    ) -> None:
        backend.call(
            "sum_f16", weights=weights, pages=pages.table, layout=pages.layout.words, pool=pages.pool, out=out,
            n_kv_heads=pages.layout.n_kv_heads, n_tokens=n_tokens, offset=offset, first=first,
        )  # fmt: skip
