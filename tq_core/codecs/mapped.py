"""Codecs in numpy whose pages are rows: what one token, or one group of tokens, stores in each stream.

A subclass says what a row holds (``row_streams``), how vectors become rows (``encode``) and how rows become coordinates
under linear maps (``maps``, ``coordinates``): a stored vector is the sum of map.transpose(coordinates). Keys are
scored as <map q, coordinates> and values summed as coordinates before one transpose, so no vector is decoded to be
read. Matrix products go through BLAS: these codecs are not under the same-bits contract.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tq_core.codecs.base import F32, CodecTags, Pages, Streams
from tq_core.codecs.erase import erase_rows
from tq_core.errors import CodecError, ValueRangeError, check
from tq_core.kernels.backend import Backend
from tq_core.kernels.layout import PAGE_TOKENS
from tq_core.math.maps import LinearMap
from tq_core.shapes import check_head_dim

U8 = npt.NDArray[np.uint8]
Rows = dict[str, U8]
NUMPY_ONLY = CodecTags(same_bits=False)
RUN_PAGES = 4  # pages unpacked at a time when reading, so that the workspace does not grow with the history


def half_bytes(values: npt.NDArray, name: str) -> U8:
    """(..., k) numbers as (..., 2k) bytes of float16. Raises ValueRangeError for one that float16 cannot hold."""
    with np.errstate(over="ignore"):
        half = np.ascontiguousarray(values).astype(np.float16)
    if not np.isfinite(half).all():
        worst = float(np.abs(values).max())
        raise ValueRangeError(f"x: expected {name} within the float16 range, got {worst}")
    return half.view(np.uint8)


def halves(rows: U8) -> F32:
    """(..., 2k) bytes to (..., k) float32."""
    return np.ascontiguousarray(rows).view(np.float16).astype(np.float32)


class MappedCodec:
    """What keys and values have in common; see the module's text for what a subclass supplies."""

    name = ""
    flush_tokens = 1
    page_tokens = PAGE_TOKENS
    _side = ""

    @property
    def tags(self) -> CodecTags:
        """What the codec promises; never the same bits, since sums go through BLAS."""
        return NUMPY_ONLY

    def check(self, head_dim: int) -> None:
        check_head_dim(head_dim)

    def row_streams(self, head_dim: int) -> dict[str, tuple[int, int]]:
        """Stream name without its side to (bytes of a row, tokens that share the row)."""
        raise NotImplementedError

    def encode(self, x: F32) -> Rows:
        """x (n_kv_heads, n_tokens, head_dim) to rows (n_kv_heads, n_rows, bytes) of every stream."""
        raise NotImplementedError

    def maps(self, head_dim: int) -> tuple[LinearMap, ...]:
        """The maps whose transposes give the stored vector back."""
        raise NotImplementedError

    def coordinates(self, rows: Rows, head_dim: int) -> tuple[F32, ...]:
        """(n_kv_heads, n_tokens, m) under each map."""
        raise NotImplementedError

    def streams(self, head_dim: int) -> Streams:
        return tuple(
            (f"{self._side}_{name}", size * (self.page_tokens // tokens))
            for name, (size, tokens) in self.row_streams(head_dim).items()
        )

    def nominal_bits(self, head_dim: int) -> float:
        size, tokens = self.row_streams(head_dim)["codes"]
        return 8 * size / (tokens * head_dim)

    def fixed_bytes(self, head_dim: int) -> int:
        return sum(m.nbytes for m in self.maps(head_dim))

    def append(self, backend: Backend, pages: Pages, first: int, x: F32) -> None:
        flush = self.flush_tokens
        aligned = first % flush == 0 and len(x) % flush == 0
        check(aligned, "first", f"whole groups of {flush} tokens", (first, len(x)), CodecError)
        check(bool(np.isfinite(x).all()), "x", "finite values", "some that are not", ValueRangeError)
        if len(x) == 0:
            return
        rows = self.encode(np.ascontiguousarray(np.swapaxes(x, 0, 1)))
        self._write_rows(pages, first, len(x), rows, x.shape[-1])

    def _write_rows(self, pages: Pages, first: int, n: int, rows: Rows, head_dim: int) -> None:
        """Rows of n tokens to slots first, first + 1, ..."""
        tokens_of = {name: tokens for name, (_, tokens) in self.row_streams(head_dim).items()}
        for page in range(first // self.page_tokens, -(-(first + n) // self.page_tokens)):
            low = max(first, page * self.page_tokens)
            high = min(first + n, (page + 1) * self.page_tokens)
            for name, array in rows.items():
                self._write(pages, page, name, array, (low, high, first), tokens_of[name])

    def erase(self, pages: Pages, page: int, first: int, head_dim: int) -> None:
        for name in self.row_streams(head_dim):
            erase_rows(pages, page, f"{self._side}_{name}", first)

    def _write(
        self, pages: Pages, page: int, name: str, array: U8, span: tuple[int, int, int], tokens: int
    ) -> None:
        """Rows of slots span[0]..span[1]-1 of one page; the array starts at slot span[2]."""
        low, high, first = (s // tokens for s in span)
        start = page * self.page_tokens // tokens
        for head in range(len(array)):
            view = pages.layout.view(pages.pool, int(pages.table[page]), head, f"{self._side}_{name}")
            view.reshape(-1, array.shape[-1])[low - start : high - start] = array[
                head, low - first : high - first
            ]

    def rows(self, pages: Pages, n_tokens: int, head_dim: int) -> Rows:
        """The rows of the first n_tokens slots: (n_kv_heads, n_rows, bytes) of every stream."""
        out = {}
        for name, (size, tokens) in self.row_streams(head_dim).items():
            stacked = np.swapaxes(pages.stack(f"{self._side}_{name}", n_tokens), 0, 1)
            rows = np.ascontiguousarray(stacked).reshape(pages.layout.n_kv_heads, -1, size)
            out[name] = rows[:, : -(-n_tokens // tokens)]
        return out

    def vectors(self, rows: Rows, head_dim: int) -> F32:
        """(n_kv_heads, n_tokens, head_dim): what the rows stand for."""
        parts = zip(self.maps(head_dim), self.coordinates(rows, head_dim), strict=True)
        out: F32 = sum(m.transpose(y) for m, y in parts)  # type: ignore[assignment]
        return out

    def decode(self, pages: Pages, n_tokens: int, head_dim: int) -> F32:
        if n_tokens == 0:
            return np.empty((0, pages.layout.n_kv_heads, head_dim), np.float32)
        x = self.vectors(self.rows(pages, n_tokens, head_dim), head_dim)[:, :n_tokens]
        return np.ascontiguousarray(np.swapaxes(x, 0, 1))


class MappedKeys(MappedCodec):
    """Keys as rows."""

    _side = "key"

    def logits(self, queries: F32, rows: Rows) -> F32:
        """queries (n_kv_heads, group, head_dim) to inner products (n_kv_heads, group, n_tokens)."""
        d = queries.shape[-1]
        parts = zip(self.maps(d), self.coordinates(rows, d), strict=True)
        total: F32 = sum(np.matmul(m.forward(queries), np.swapaxes(y, -1, -2)) for m, y in parts)  # type: ignore[assignment]
        return total

    def scores(
        self, backend: Backend, queries: F32, scale: float, pages: Pages, n_tokens: int, out: F32, offset: int
    ) -> None:
        d = queries.shape[-1]
        grouped = queries.reshape(pages.layout.n_kv_heads, -1, d)
        for start, count, run in pages.runs(n_tokens, RUN_PAGES):
            logits = self.logits(grouped, self.rows(run, count, d))[..., :count].reshape(len(queries), count)
            out[:, offset + start : offset + start + count] = logits * np.float32(scale)


class MappedValues(MappedCodec):
    """Values as rows."""

    _side = "value"

    def weighted_sum(
        self, backend: Backend, weights: F32, pages: Pages, n_tokens: int, offset: int, out: F32
    ) -> None:
        heads, d = pages.layout.n_kv_heads, out.shape[-1]
        maps = self.maps(d)
        sums: list[F32] = [np.zeros(0, np.float32)] * len(maps)
        for start, count, run in pages.runs(n_tokens, RUN_PAGES):
            w = weights[:, offset + start : offset + start + count].reshape(heads, -1, count)
            for i, y in enumerate(self.coordinates(self.rows(run, count, d), d)):
                part = np.matmul(w, y[:, :count])
                sums[i] = part if start == 0 else sums[i] + part
        if n_tokens:
            for m, total in zip(maps, sums, strict=True):
                out += m.transpose(total).reshape(out.shape)
