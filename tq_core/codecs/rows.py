"""Codecs that store one group of tokens after another: rows of bytes in one or more streams.

A method says how a group of ``flush_tokens`` tokens becomes bytes, and how bytes become vectors; the two sides here
read them. Encoding is numpy's, element by element. A method whose ``byte_form`` describes its rows is read by the kernels
over byte rows, with the same bits on every backend. The others are read in numpy, a run of RUN_PAGES pages at a time so
that the workspace does not grow with the history; BLAS adds in an order of its own, so that their scores and sums are not
under the same-bits contract.

A method may store vectors of another space (rotated, smoothed): ``to_codes`` leads there, ``query`` moves a query so
that inner products stay, ``from_codes`` leads back.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tq_core.codecs.base import F32, CodecTags, Pages, Streams
from tq_core.codecs.byte_reader import ByteReader
from tq_core.codecs.calibration import Calibration
from tq_core.codecs.erase import erase_rows
from tq_core.errors import CodecError, DTypeError, ShapeError, ValueRangeError, check
from tq_core.kernels.backend import Backend
from tq_core.kernels.forms import ByteForm
from tq_core.kernels.layout import HEADER_BYTES, PAGE_TOKENS, PageLayout
from tq_core.shapes import check_head_dim

U8 = npt.NDArray[np.uint8]
Parts = dict[str, U8]  # stream to (n_groups, n_kv_heads, bytes)
RUN_PAGES = 4
HALF_MAX = 65504.0


def half_bytes(x: npt.NDArray) -> U8:
    """(..., k) numbers as float16, to (..., 2 k) bytes."""
    return np.ascontiguousarray(x.astype(np.float16)).view(np.uint8)


def halves(raw: U8) -> F32:
    """(..., 2 k) bytes of float16 numbers, to (..., k) float32."""
    return np.ascontiguousarray(raw).view(np.float16).astype(np.float32)


@dataclass(frozen=True)
class Rows:
    """What keys and values of a row codec share; subclasses give ``group_bytes``, ``encode`` and ``expand``."""

    name = "rows"
    tags = CodecTags(same_bits=False)
    flush_tokens = 1
    page_tokens = PAGE_TOKENS
    _side = ""

    def group_bytes(self, head_dim: int) -> dict[str, int]:
        """Stream to bytes per group of ``flush_tokens`` tokens and KV head; the codes are called "codes"."""
        raise NotImplementedError

    def encode(self, x: F32, pages: Pages, position: int | None) -> Parts:
        """Bytes of x (n_tokens, n_kv_heads, head_dim), which is in the codes' space.

        position: sequence position of the first token.
        """
        raise NotImplementedError

    def expand(self, parts: Parts, head_dim: int, pages: Pages) -> F32:
        """(n_tokens, n_kv_heads, head_dim) in the codes' space, of the groups from slot 0 of ``pages`` on."""
        raise NotImplementedError

    def byte_form(self, layout: PageLayout, head_dim: int) -> ByteForm | None:
        """How the rows lie in a head's block, for the kernels; None where numpy reads them."""
        return None

    def block_order(self, head_dim: int) -> npt.NDArray[np.intp] | None:
        """The channel that each place of a whole block of the form holds, head_dim where it holds none; None: in order."""
        return None

    def gain(self, pages: Pages) -> F32 | None:
        """(n_kv_heads or 1, 1) factor of every vector that the form leaves out; None for 1."""
        return None

    def to_codes(self, x: F32, pages: Pages) -> F32:
        """x (n, n_kv_heads, head_dim) in the space that is stored."""
        return x

    def from_codes(self, y: F32, pages: Pages) -> F32:
        """Inverse of to_codes."""
        return y

    def query(self, q: F32, pages: Pages) -> F32:
        """q (n, n_kv_heads, head_dim) such that <query(q), to_codes(x)> = <q, x>."""
        return self.to_codes(q, pages)

    def check(self, head_dim: int) -> None:
        check_head_dim(head_dim)
        step = self.tags.head_dim_step
        check(head_dim % step == 0, "head_dim", f"a multiple of {step} for {self.name}", head_dim, CodecError)
        calibration = getattr(self, "calibration", None)
        if calibration is not None:
            fitted = calibration.head_dim
            check(fitted == head_dim, "calibration", f"one for head_dim {head_dim}", fitted, ShapeError)

    def streams(self, head_dim: int) -> Streams:
        groups = self.page_tokens // self.flush_tokens
        return tuple((f"{self._side}_{part}", n * groups) for part, n in self.group_bytes(head_dim).items())

    def nominal_bits(self, head_dim: int) -> float:
        return 8 * self.group_bytes(head_dim)["codes"] / (self.flush_tokens * head_dim)

    def fixed_bytes(self, head_dim: int) -> int:
        calibration: Calibration | None = getattr(self, "calibration", None)
        return 0 if calibration is None else calibration.nbytes

    def append(self, backend: Backend, pages: Pages, first: int, x: F32) -> None:
        """Encode x. Raises DTypeError, ValueRangeError or CodecError before a byte changes."""
        flush = self.flush_tokens
        aligned = first % flush == 0 and len(x) % flush == 0
        check(aligned, "first", f"whole groups of {flush} tokens", (first, len(x)), CodecError)
        check(x.dtype == np.float32, "x", "float32", x.dtype, DTypeError)
        self.check(x.shape[-1])
        with np.errstate(over="ignore", invalid="ignore"):
            norms = np.sqrt(np.einsum("thd,thd->th", x, x, dtype=np.float64))
        fits = bool((norms <= HALF_MAX).all())  # false for NaN too
        check(
            fits, "x", f"finite vectors of norm at most {HALF_MAX:.0f}", norms.max(initial=0), ValueRangeError
        )
        if len(x) == 0:
            return
        position = None if pages.position is None else pages.position + first
        for part, rows in self.encode(self.to_codes(x, pages), pages, position).items():
            self._write(pages, part, first // flush, rows)

    def _write(self, pages: Pages, part: str, first: int, rows: U8) -> None:
        """Put groups first, first + 1, ... of one stream where they belong."""
        layout, per, done = pages.layout, self.page_tokens // self.flush_tokens, 0
        while done < len(rows):
            page, group = divmod(first + done, per)
            run = np.swapaxes(rows[done : done + per - group], 0, 1)
            start = int(pages.table[page]) * layout.page_bytes + HEADER_BYTES
            heads = pages.pool[start : start + len(run) * layout.head_bytes].reshape(len(run), -1)
            at = layout.offsets[f"{self._side}_{part}"] + group * run.shape[2]
            heads[:, at : at + run.shape[1] * run.shape[2]] = run.reshape(len(run), -1)
            done += run.shape[1]

    def erase(self, pages: Pages, page: int, first: int, head_dim: int) -> None:
        for part in self.group_bytes(head_dim):
            erase_rows(pages, page, f"{self._side}_{part}", first)

    def stored(self, pages: Pages, n_tokens: int, head_dim: int) -> F32:
        """The first n_tokens as they are stored, (n_tokens, n_kv_heads, head_dim) in the codes' space."""
        heads, parts = pages.layout.n_kv_heads, {}
        groups = -(-n_tokens // self.flush_tokens)
        for part, nbytes in self.group_bytes(head_dim).items():
            raw = pages.stack(f"{self._side}_{part}", n_tokens).reshape(-1, heads, self.page_tokens // self.flush_tokens, nbytes)  # fmt: skip
            parts[part] = np.swapaxes(raw, 1, 2).reshape(-1, heads, nbytes)[:groups]
        return self.expand(parts, head_dim, pages)[:n_tokens]

    def decode(self, pages: Pages, n_tokens: int, head_dim: int) -> F32:
        if n_tokens == 0:
            return np.zeros((0, pages.layout.n_kv_heads, head_dim), np.float32)
        return np.ascontiguousarray(
            self.from_codes(self.stored(pages, n_tokens, head_dim), pages), np.float32
        )


def by_head(rows: npt.NDArray, heads: int) -> npt.NDArray:
    """(n_query_heads, k) to (group_size_heads, n_kv_heads, k)."""
    return np.swapaxes(rows.reshape(heads, -1, rows.shape[-1]), 0, 1)


class KeySide(Rows):
    """Scores of a row codec."""

    _side = "key"

    def scores(
        self, backend: Backend, queries: F32, scale: float, pages: Pages, n_tokens: int, out: F32, offset: int
    ) -> None:
        if n_tokens == 0:
            return
        heads, d = pages.layout.n_kv_heads, queries.shape[-1]
        moved, form = self.query(by_head(queries, heads), pages), self.byte_form(pages.layout, d)
        if form is not None:
            reader = ByteReader(backend, pages, form, self.block_order(d), self.gain(pages))
            flat = np.swapaxes(moved, 0, 1).reshape(queries.shape)
            reader.scores(flat, scale, n_tokens, out, offset)
            return
        moved = moved * np.float32(scale)
        for first, count, run in pages.runs(n_tokens, RUN_PAGES):
            keys = self.stored(run, count, d)
            logits = np.einsum("ghd,thd->hgt", moved, keys, optimize=True)
            out[:, offset + first : offset + first + count] = logits.reshape(len(queries), count)


class ValueSide(Rows):
    """Weighted sums of a row codec."""

    _side = "value"

    def weighted_sum(
        self, backend: Backend, weights: F32, pages: Pages, n_tokens: int, offset: int, out: F32
    ) -> None:
        if n_tokens == 0:
            return
        heads, total = pages.layout.n_kv_heads, np.zeros_like(out)
        form = self.byte_form(pages.layout, out.shape[-1])
        if form is not None:
            reader = ByteReader(backend, pages, form, self.block_order(out.shape[1]), self.gain(pages))
            total = reader.weighted_sum(weights, n_tokens, offset)
        for first, count, run in pages.runs(n_tokens if form is None else 0, RUN_PAGES):
            w = weights[:, offset + first : offset + first + count].reshape(heads, -1, count)
            total += np.einsum(
                "hgt,thd->hgd", w, self.stored(run, count, out.shape[-1]), optimize=True
            ).reshape(out.shape)
        out += np.swapaxes(self.from_codes(by_head(total, heads), pages), 0, 1).reshape(out.shape)
