"""The ledger of a comparison: what a channel costs in full pages, and what a context costs with its float16 tail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tq_core.cache.breakdown import layouts
from tq_core.codecs.arm import Arm
from tq_core.shapes import ModelShape

HALF_BITS = 16
LENGTHS = (512, 2048, 8192, 32768)


def bits_all_in(shape: ModelShape, arm: Arm) -> float:
    """Bits per channel of full pages: codes, scales, norms, centres, sidecars, headers and padding; keys and values."""
    packed, half = layouts(shape, arm)
    page = half if arm.window is None else packed
    return 8 * page.page_bytes / (page.page_tokens * 2 * shape.n_kv_heads * shape.head_dim)


def side_bits(shape: ModelShape, arm: Arm) -> tuple[float, float]:
    """Bits per channel of the declared streams of keys and of values, without headers and padding."""
    keys, values = (
        8 * sum(nbytes for _, nbytes in codec.streams(shape.head_dim)) / (codec.page_tokens * shape.head_dim)
        for codec in (arm.key_codec, arm.value_codec)
    )
    return keys, values


def tokens_in_half(arm: Arm, flush_tokens: int, n_tokens: int) -> int:
    """Tokens of a context of ``n_tokens`` that lie in float16: sinks, window and the open group."""
    if arm.window is None:
        return n_tokens
    return n_tokens - max(n_tokens - arm.sinks - arm.window, 0) // flush_tokens * flush_tokens


def bits_at(shape: ModelShape, arm: Arm, flush_tokens: int, n_tokens: int) -> float:
    """Bits per channel of a whole context: its packed tokens at ``bits_all_in``, the others at 16."""
    half = tokens_in_half(arm, flush_tokens, n_tokens)
    return ((n_tokens - half) * bits_all_in(shape, arm) + half * HALF_BITS) / n_tokens


def ledger(
    shape: ModelShape, arm: Arm, flush_tokens: int, scored: int, lengths: Sequence[int] = LENGTHS
) -> dict[str, Any]:
    """All figures of an arm's memory. ``bits_scored`` is the mean over the positions that a comparison scores.

    fixed_bytes: tables that the arm needs whatever the length (signs, books, calibrations), in no figure of bits.
    """
    keys, values = side_bits(shape, arm)
    return {
        "bits_all_in": bits_all_in(shape, arm),
        "bits_keys": keys,
        "bits_values": values,
        "bits_at_length": {str(n): bits_at(shape, arm, flush_tokens, n) for n in lengths},
        "bits_scored": sum(bits_at(shape, arm, flush_tokens, n) for n in range(1, scored + 1)) / scored,
        "fixed_bytes": sum(c.fixed_bytes(shape.head_dim) for c in (arm.key_codec, arm.value_codec)),
    }
