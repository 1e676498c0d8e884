"""Where the streams of a page lie: header, then one block per KV head with its streams in order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tq_core.kernels.table import LAYOUT
from tq_core.math.tiles import TILE_TOKENS, tile_bytes

HEADER_BYTES = 64
STREAM_ALIGN = 16
HEAD_ALIGN = 64
PAGE_TOKENS = 128


def _align(n: int, to: int) -> int:
    return -(-n // to) * to


@dataclass(frozen=True)
class PageLayout:
    """Byte offsets of a page for ``n_kv_heads`` heads, from (stream name, bytes per page and head)."""

    n_kv_heads: int
    page_tokens: int
    streams: tuple[tuple[str, int], ...]

    @cached_property
    def offsets(self) -> dict[str, int]:
        """Stream name to its offset inside a head's block, each 16-byte aligned."""
        out, at = {}, 0
        for name, nbytes in self.streams:
            out[name] = at
            at += _align(nbytes, STREAM_ALIGN)
        return out

    @cached_property
    def head_bytes(self) -> int:
        """Bytes of one KV head's block, padding included."""
        return _align(sum(_align(nbytes, STREAM_ALIGN) for _, nbytes in self.streams), HEAD_ALIGN)

    @property
    def page_bytes(self) -> int:
        """Bytes of a page: header and all heads."""
        return HEADER_BYTES + self.n_kv_heads * self.head_bytes

    @property
    def payload_bytes(self) -> int:
        """Bytes of a page that streams declare, without header and padding."""
        return self.n_kv_heads * sum(nbytes for _, nbytes in self.streams)

    @cached_property
    def words(self) -> npt.NDArray[np.uint32]:
        """The kernels' ``layout`` argument; streams that this page lacks are 0."""
        known = {
            "page_tokens": self.page_tokens,
            "page_bytes": self.page_bytes,
            "header_bytes": HEADER_BYTES,
            "head_bytes": self.head_bytes,
            **self.offsets,
        }
        words = np.array([known.get(name, 0) for name in LAYOUT], np.uint32)
        words.setflags(write=False)
        return words

    def words_from(self, kv_head: int) -> npt.NDArray[np.uint32]:
        """``words`` for a kernel that sees the KV heads from ``kv_head`` on as all there are."""
        if kv_head == 0:
            return self.words
        words = self.words.copy()
        words[LAYOUT.index("header_bytes")] += kv_head * self.head_bytes
        return words

    def view(
        self, pool: npt.NDArray[np.uint8], page: int, kv_head: int, stream: str
    ) -> npt.NDArray[np.uint8]:
        """The bytes of one stream in one page of the pool (a view)."""
        start = page * self.page_bytes + HEADER_BYTES + kv_head * self.head_bytes + self.offsets[stream]
        return pool[start : start + dict(self.streams)[stream]]


def code_streams(side: str, widths: npt.NDArray[np.uint8], page_tokens: int) -> tuple[tuple[str, int], ...]:
    """Streams of one side ('key' or 'value') coded with these group widths: float16 scales, packed codes."""
    return (
        (f"{side}_scales", 2 * page_tokens),
        (f"{side}_codes", tile_bytes(widths) * (page_tokens // TILE_TOKENS)),
    )


def centre_streams(head_dim: int) -> tuple[tuple[str, int], ...]:
    """The stream of a page's key centre, one float16 vector."""
    return (("key_centres", 2 * head_dim),)


def half_streams(side: str, head_dim: int, page_tokens: int) -> tuple[tuple[str, int], ...]:
    """The single stream of plain float16 rows."""
    return ((f"{side}_codes", 2 * page_tokens * head_dim),)
