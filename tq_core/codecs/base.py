"""The two protocols that a codec implements, and what it is handed to work on.

Keys and values are separate protocols because they fail differently: keys are read through inner
products with a query, values through a weighted sum. A codec is a frozen dataclass; its fields are
its identity.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tq_core.kernels.backend import Backend
from tq_core.kernels.layout import PageLayout
from tq_core.shapes import HEAD_DIM_STEP

F32 = npt.NDArray[np.float32]
Streams = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class CodecTags:
    """What a codec promises or needs; the conformance checks read these."""

    unbiased_scores: bool = False
    per_channel: bool = False
    needs_calibration: bool = False
    pre_rope: bool = False
    same_bits: bool = True  # equal bits on every backend
    scale_free: bool = True  # four times the token is stored as the same codes
    min_max: bool = False  # even steps from a group's minimum to its maximum
    head_dim_step: int = HEAD_DIM_STEP  # head_dim is a multiple of it
    read_tolerance: float = 0.0  # of scores and sums against decoded tokens; 0 takes the checks' own
    known_failures: tuple[str, ...] = ()  # conformance checks that the method as published does not pass


@dataclass(frozen=True)
class Pages:
    """The pages of one layer: a pool of bytes, the block table that orders them, their layout.

    layer and position (the sequence position of slot 0) are for codecs with tables per layer or a rotary embedding;
    None where whoever made the pages does not know them.
    """

    pool: npt.NDArray[np.uint8]
    table: npt.NDArray[np.uint32]
    layout: PageLayout
    layer: int | None = None
    position: int | None = None

    def stack(self, stream: str, count: int) -> npt.NDArray[np.uint8]:
        """(pages, n_kv_heads, bytes) copy of one stream over the pages that hold the first ``count`` slots."""
        layout = self.layout
        n_pages = -(-count // layout.page_tokens)
        pages = self.pool[: self.pool.size // layout.page_bytes * layout.page_bytes].reshape(
            -1, layout.page_bytes
        )
        heads = pages[self.table[:n_pages], layout.page_bytes - layout.n_kv_heads * layout.head_bytes :]
        heads = heads.reshape(n_pages, layout.n_kv_heads, layout.head_bytes)
        start = layout.offsets[stream]
        return heads[:, :, start : start + dict(layout.streams)[stream]]

    def runs(self, n_tokens: int, n_pages: int) -> Iterator[tuple[int, int, Pages]]:
        """(first token, tokens, pages) of runs of at most ``n_pages`` pages over the first ``n_tokens`` slots."""
        per = n_pages * self.layout.page_tokens
        for first in range(0, n_tokens, per):
            table = self.table[first // self.layout.page_tokens :][:n_pages]
            position = None if self.position is None else self.position + first
            yield first, min(per, n_tokens - first), replace(self, table=table, position=position)


class Codec(Protocol):
    """What keys and values have in common."""

    @property
    def name(self) -> str:
        """Registry name of the method."""

    @property
    def tags(self) -> CodecTags:
        """What the codec promises or needs."""

    @property
    def flush_tokens(self) -> int:
        """Tokens that must be encoded together; appends come in multiples of it, at multiples of it."""

    @property
    def page_tokens(self) -> int:
        """Tokens per page that the codec is laid out for."""

    def check(self, head_dim: int) -> None:
        """Raise CodecError or ShapeError when the codec cannot store this head_dim."""

    def streams(self, head_dim: int) -> Streams:
        """(name, bytes) of each packed array, per page and KV head."""

    def nominal_bits(self, head_dim: int) -> float:
        """Bits per channel of the codes alone."""

    def append(self, backend: Backend, pages: Pages, first: int, x: F32) -> None:
        """Encode x (n_tokens, n_kv_heads, head_dim) into slots first, first + 1, ..."""

    def erase(self, pages: Pages, page: int, first: int, head_dim: int) -> None:
        """Zero the slots from ``first`` on, a multiple of flush_tokens, of one page of the pool."""

    def decode(self, pages: Pages, n_tokens: int, head_dim: int) -> F32:
        """(n_tokens, n_kv_heads, head_dim) reconstruction; for tests and notebooks, never for attention."""

    def fixed_bytes(self, head_dim: int) -> int:
        """Bytes of the tables that the codec needs whatever the length (signs, books)."""


class KeyCodec(Codec, Protocol):
    """A codec that scores queries against its codes."""

    def scores(
        self, backend: Backend, queries: F32, scale: float, pages: Pages, n_tokens: int, out: F32, offset: int
    ) -> None:
        """Write scale * <query, key> of slots 0..n_tokens-1 into columns offset.. of out (n_query_heads, columns)."""


class ValueCodec(Codec, Protocol):
    """A codec that sums its codes under weights."""

    def weighted_sum(
        self, backend: Backend, weights: F32, pages: Pages, n_tokens: int, offset: int, out: F32
    ) -> None:
        """Add sum_t weights[:, offset + t] * value_t to out (n_query_heads, head_dim)."""


# Metadata of a field that came after caches had been stored: its default means what there was before it.
SILENT_DEFAULT = {"silent_default": True}


def _plain(value: Any) -> Any:
    if hasattr(value, "identity"):
        return value.identity()
    if is_dataclass(value) and not isinstance(value, type):
        return describe(value) if hasattr(value, "streams") else asdict(value)
    return value


def describe(codec: Any) -> dict[str, Any]:
    """A codec's identity as plain data: its method's name and every field, but no silent default."""
    silent = {f.name: f.default for f in fields(codec) if f.metadata.get("silent_default")}
    named = {f.name: getattr(codec, f.name) for f in fields(codec)}
    shown = {k: _plain(v) for k, v in named.items() if k not in silent or v != silent[k]}
    return {"codec": codec.name, **shown}
