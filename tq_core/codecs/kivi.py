"""KIVI-like control: keys per channel in groups of tokens, values per token in groups of channels, 32 by default.

Grouped asymmetric integers with float16 step and minimum (2402.02750): b + 32 / group bits per channel. The paper
uses groups of 32 and a window of 128. Encoding is numpy's, element by element; scores and sums are taken on the codes by
the kernels over affine tiles, with the step folded into the query or the weights. A control, not a port: KIVI flushes its
whole key buffer when it is full, while here the oldest group of tokens leaves the recent window together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tq_core.codecs.base import F32, SILENT_DEFAULT, CodecTags, Pages, Streams
from tq_core.codecs.erase import erase_rows
from tq_core.errors import CodecError, check
from tq_core.kernels.backend import Backend
from tq_core.kernels.forms import AffineForm
from tq_core.kernels.layout import PAGE_TOKENS
from tq_core.math import tiles
from tq_core.math.affine import dequantize_groups, quantize_groups
from tq_core.shapes import check_head_dim

GROUP_TOKENS = tiles.TILE_TOKENS
KIVI_BITS = (2, 3, 4)
KIVI_GROUPS = (32, 64, 128)
# Integers of 16 bits stand for queries and weights times the step, which at 2 bits is a third of the group's range.
READ_TOLERANCE = 4e-5


def channel_group(head_dim: int, group: int = 32) -> int:
    """Channels that share a value's step and minimum: ``group``, halved until it divides head_dim (a multiple of 16)."""
    while head_dim % group:
        group //= 2
    return group


@dataclass(frozen=True)
class _Kivi:
    bits: int = 3
    group: int = field(default=GROUP_TOKENS, metadata=SILENT_DEFAULT)

    name = "kivi"
    flush_tokens = GROUP_TOKENS
    page_tokens = PAGE_TOKENS
    _side = ""

    def __post_init__(self) -> None:
        check(self.bits in KIVI_BITS, "bits", f"one of {KIVI_BITS}", self.bits, CodecError)
        check(self.group in KIVI_GROUPS, "group", f"one of {KIVI_GROUPS}", self.group, CodecError)

    def check(self, head_dim: int) -> None:
        check_head_dim(head_dim)

    def nominal_bits(self, head_dim: int) -> float:
        return float(self.bits)

    def fixed_bytes(self, head_dim: int) -> int:
        return 0

    def _widths(self, head_dim: int) -> np.ndarray:
        return np.full(head_dim // 16, self.bits, np.uint8)

    def _affine_shape(self, head_dim: int) -> tuple[int, ...]:
        """Shape of a page's steps (and minima) per KV head."""
        raise NotImplementedError

    def streams(self, head_dim: int) -> Streams:
        codes = tiles.tile_bytes(self._widths(head_dim)) * (self.page_tokens // tiles.TILE_TOKENS)
        affine = 2 * int(np.prod(self._affine_shape(head_dim)))
        return (
            (f"{self._side}_steps", affine),
            (f"{self._side}_minima", affine),
            (f"{self._side}_codes", codes),
        )

    def _write(
        self,
        pages: Pages,
        page: int,
        head: int,
        first: int,
        codes: np.ndarray,
        step: np.ndarray,
        low: np.ndarray,
    ) -> None:
        """Store groups of tokens that are encoded together, from group ``first`` of the page on."""
        view = lambda stream: pages.layout.view(pages.pool, page, head, f"{self._side}_{stream}")  # noqa: E731
        packed = tiles.pack_stream(codes, self._widths(codes.shape[-1]), self._side == "key")
        groups = len(codes) // self.flush_tokens
        for stream, array in (("codes", packed), ("steps", step), ("minima", low)):
            flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            start = first * (flat.size // groups)
            view(stream)[start : start + flat.size] = flat

    def append(self, backend: Backend, pages: Pages, first: int, x: F32) -> None:
        flush = self.flush_tokens
        aligned = first % flush == 0 and len(x) % flush == 0
        check(aligned, "first", f"whole groups of {flush} tokens", (first, len(x)), CodecError)
        done = 0
        while done < len(x):  # as many as the page has room for
            page, slot = divmod(first + done, self.page_tokens)
            some = x[done : done + self.page_tokens - slot]
            for head in range(x.shape[1]):
                run = np.ascontiguousarray(some[:, head])
                self._write(pages, int(pages.table[page]), head, slot // flush, *self._quantize(run))
            done += len(some)

    def erase(self, pages: Pages, page: int, first: int, head_dim: int) -> None:
        for stream in ("steps", "minima", "codes"):
            erase_rows(pages, page, f"{self._side}_{stream}", first)

    def _call(self, backend: Backend, kernel: str, pages: Pages, group: int, **arguments: Any) -> None:
        """A kernel over these tiles, whose steps are shared by ``group`` tokens or channels."""
        layout = pages.layout
        at = (layout.offsets[f"{self._side}_{stream}"] for stream in ("codes", "steps", "minima"))
        backend.call(
            kernel, form=AffineForm(self.bits, group, *at).words, pages=pages.table, layout=layout.words,
            pool=pages.pool, n_kv_heads=layout.n_kv_heads, **arguments,
        )  # fmt: skip

    def _quantize(self, x: F32) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Codes (n_tokens, head_dim), steps and minima of whole groups of tokens x (n_tokens, head_dim)."""
        raise NotImplementedError

    def _unpack(
        self, pages: Pages, n_tokens: int, head_dim: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Codes (heads, pages * page_tokens, head_dim) uint8; steps and minima (heads, pages, ...) float32."""
        codes = pages.stack(f"{self._side}_codes", n_tokens)
        n_pages, heads = codes.shape[:2]
        order = np.ascontiguousarray(np.swapaxes(codes, 0, 1)).reshape(-1)
        flat = tiles.unpack_stream(order, self._widths(head_dim), self._side == "key")
        halves = []
        for stream in ("steps", "minima"):
            raw = np.ascontiguousarray(np.swapaxes(pages.stack(f"{self._side}_{stream}", n_tokens), 0, 1))
            half = raw.view(np.float16).reshape(heads, n_pages, *self._affine_shape(head_dim))
            halves.append(half.astype(np.float32))
        return flat.reshape(heads, n_pages * self.page_tokens, head_dim), halves[0], halves[1]


@dataclass(frozen=True)
class KiviKeys(_Kivi):
    """Keys per channel: one step and minimum for every ``group`` tokens of a channel."""

    tags = CodecTags(per_channel=True, min_max=True, read_tolerance=READ_TOLERANCE)
    _side = "key"

    @property
    def flush_tokens(self) -> int:  # type: ignore[override]
        """A whole group."""
        return self.group

    def _affine_shape(self, head_dim: int) -> tuple[int, ...]:
        return (self.page_tokens // self.group, head_dim)

    def _quantize(self, x: F32) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        codes, step, low = quantize_groups(x.reshape(-1, self.group, x.shape[-1]), self.bits, axis=1)
        return codes.reshape(x.shape), step, low

    def scores(
        self, backend: Backend, queries: F32, scale: float, pages: Pages, n_tokens: int, out: F32, offset: int
    ) -> None:
        self._call(
            backend, "score_affine", pages, self.group, query=queries, scores=out, n_tokens=n_tokens, offset=offset,
            scale=scale,
        )  # fmt: skip

    def decode(self, pages: Pages, n_tokens: int, head_dim: int) -> F32:
        codes, step, low = self._unpack(pages, n_tokens, head_dim)
        heads = len(codes)
        grouped = codes.reshape(heads, -1, self.group, head_dim)
        x = dequantize_groups(
            grouped, step.reshape(heads, -1, 1, head_dim), low.reshape(heads, -1, 1, head_dim)
        )
        return np.ascontiguousarray(np.swapaxes(x.reshape(heads, -1, head_dim)[:, :n_tokens], 0, 1))


@dataclass(frozen=True)
class KiviValues(_Kivi):
    """Values per token: one step and minimum for every ``group`` channels of a token."""

    tags = CodecTags(min_max=True, read_tolerance=READ_TOLERANCE)
    _side = "value"

    def _affine_shape(self, head_dim: int) -> tuple[int, ...]:
        return (self.page_tokens, head_dim // channel_group(head_dim, self.group))

    def _quantize(self, x: F32) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        per = channel_group(x.shape[-1], self.group)
        codes, step, low = quantize_groups(x.reshape(len(x), -1, per), self.bits, axis=2)
        return codes.reshape(x.shape), step, low

    def weighted_sum(
        self, backend: Backend, weights: F32, pages: Pages, n_tokens: int, offset: int, out: F32
    ) -> None:
        group = channel_group(out.shape[1], self.group)
        self._call(
            backend, "sum_affine", pages, group, weights=weights, out=out, n_tokens=n_tokens, offset=offset
        )

    def decode(self, pages: Pages, n_tokens: int, head_dim: int) -> F32:
        codes, step, low = self._unpack(pages, n_tokens, head_dim)
        heads, tokens = codes.shape[:2]
        per = channel_group(head_dim, self.group)
        grouped = codes.reshape(heads, tokens, head_dim // per, per)
        per_group = (heads, tokens, head_dim // per, 1)
        x = dequantize_groups(grouped, step.reshape(per_group), low.reshape(per_group))
        return np.ascontiguousarray(np.swapaxes(x.reshape(heads, tokens, head_dim)[:, :n_tokens], 0, 1))
