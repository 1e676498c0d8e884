"""The ledger line by line, in bits per channel: the codes first, then everything that comes on top of them.

    bits per channel of a line = 8 * bytes of the line / (tokens * channels of a token)

A token's channels are its keys and values in all layers and KV heads. Lines partition the bytes of the real
buffers, so they add up to the ledger's total with nothing left over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.arms import Arm
from tq_core.codecs.base import Streams
from tq_core.codecs.fp16 import HalfKeys, HalfValues
from tq_core.errors import ValueRangeError, check
from tq_core.kernels.layout import HEADER_BYTES, PageLayout
from tq_core.shapes import ModelShape

WHAT = {
    "codes": "nominal bits of the tokens in packed pages",
    "scales": "norms, steps and minima of those tokens",
    "sidecars": "any other stream of a packed page, such as outliers or means",
    "empty slots": "places in packed pages that hold no live token",
    "headers": "64 bytes for every packed page",
    "padding": "alignment of streams and heads inside packed pages",
    "recent window": "float16 pages of the newest tokens, headers and empty slots included",
    "sink tokens": "float16 pages of the first tokens, headers and empty slots included",
    "idle pages": "pages that the pools hold in reserve",
    "block tables": "page numbers, spare entries included, and a reference count for every page",
    "scratch": "softmax states and workspace of one decode step",
    "fixed tables": "signs, transforms and codebooks, whatever the length",
}
LINES = tuple(WHAT)
_SCALES = ("_scales", "_steps", "_minima")


def stream_line(name: str) -> str:
    """The line that a stream of a packed page belongs to; one that is neither codes nor scales is a sidecar."""
    return "codes" if name.endswith("_codes") else "scales" if name.endswith(_SCALES) else "sidecars"


@dataclass(frozen=True)
class Breakdown:
    """Bytes by line, every line of LINES in that order; ``channels`` counts a token's values over all layers."""

    nbytes: Mapping[str, int]
    n_tokens: int
    channels: int

    def __post_init__(self) -> None:
        check(
            tuple(self.nbytes) == LINES, "nbytes", f"the lines {LINES}", tuple(self.nbytes), ValueRangeError
        )

    @property
    def total(self) -> int:
        """Bytes of all lines."""
        return sum(self.nbytes.values())

    @property
    def bits(self) -> dict[str, Fraction]:
        """Bits per channel of every line, exact. Raises ValueRangeError for a cache without tokens."""
        check(self.n_tokens > 0, "n_tokens", "at least one token", self.n_tokens, ValueRangeError)
        return {name: Fraction(8 * n, self.n_tokens * self.channels) for name, n in self.nbytes.items()}


def channels_of(shape: ModelShape) -> int:
    """Values that one token adds to a cache: 2 n_layers n_kv_heads head_dim."""
    return 2 * shape.n_layers * shape.n_kv_heads * shape.head_dim


def packed_lines(layout: PageLayout, pages: int, tokens: int) -> dict[str, int]:
    """Bytes by line of ``pages`` packed pages that together hold ``tokens`` live tokens."""
    lines = dict.fromkeys(LINES, 0)
    for name, nbytes in layout.streams:
        held = layout.n_kv_heads * nbytes
        live = held * tokens // layout.page_tokens
        lines[stream_line(name)] += live
        lines["empty slots"] += held * pages - live
    lines["headers"] = pages * HEADER_BYTES
    lines["padding"] = pages * (layout.page_bytes - HEADER_BYTES - layout.payload_bytes)
    return lines


def breakdown(cache: PagedCache) -> Breakdown:
    """Every byte that the cache holds, by line; the sum equals ``cache.ledger().total``."""
    ledger, packed = cache.ledger(), cache.stores["packed"]
    tokens = sum(packed.count(layer) for layer in range(cache.shape.n_layers))
    lines = packed_lines(packed.layout, packed.pool.in_use, tokens)
    lines["recent window"], lines["sink tokens"] = ledger.recent, ledger.sinks
    lines["idle pages"], lines["block tables"] = ledger.idle, ledger.block_tables
    lines["scratch"], lines["fixed tables"] = ledger.scratch, ledger.fixed_tables
    return Breakdown(lines, ledger.n_tokens, channels_of(cache.shape))


def layouts(shape: ModelShape, arm: Arm) -> tuple[PageLayout, PageLayout]:
    """The layouts of packed pages and of the float16 pages of window and sinks."""

    def layout(streams: Streams, page_tokens: int) -> PageLayout:
        return PageLayout(shape.n_kv_heads, page_tokens, streams)

    d, half = shape.head_dim, (HalfKeys(), HalfValues())
    packed = arm.key_codec.streams(d) + arm.value_codec.streams(d)
    return (
        layout(packed, arm.key_codec.page_tokens),
        layout(half[0].streams(d) + half[1].streams(d), half[0].page_tokens),
    )


def page_bits(shape: ModelShape, arm: Arm) -> dict[str, Fraction]:
    """Bits per channel of a full page by line: what a token costs once it has left the window, pools and tables aside."""
    packed, half = layouts(shape, arm)
    layout = half if arm.window is None else packed
    lines = packed_lines(layout, 1, layout.page_tokens)
    channels = layout.page_tokens * 2 * shape.n_kv_heads * shape.head_dim
    return {name: Fraction(8 * n, channels) for name, n in lines.items() if name != "empty slots" and n}
