"""Bytes of a model's cache: full layers with all tokens, local layers with their sliding window."""

from __future__ import annotations

from tq_core.cache.accounting import baseline_bytes
from tq_core.cache.breakdown import Breakdown
from tq_core.cache.planned import longest, planned_local
from tq_core.codecs.arms import Arm
from tq_core.model.outline import ModelOutline
from tq_core.shapes import ModelShape


def parts(outline: ModelOutline, tokens: int) -> list[tuple[ModelShape, int]]:
    """(shape, tokens that its layers hold): all tokens in full layers, the sliding window in local ones."""
    shape, local = outline.shape, outline.local_layers
    groups = ((shape.n_layers - local, tokens), (local, min(tokens, outline.sliding_window)))
    return [
        (ModelShape(layers, shape.n_query_heads, shape.n_kv_heads, shape.head_dim), held)
        for layers, held in groups
        if layers and held
    ]


def plain_bytes(outline: ModelOutline, tokens: int) -> dict[str, int]:
    """Bytes of the same tokens as fp32, fp16, fp8 and q8_0, with no page, window or table."""
    total = dict.fromkeys(baseline_bytes(outline.shape, 0), 0)
    for shape, held in parts(outline, tokens):
        for name, nbytes in baseline_bytes(shape, held).items():
            total[name] += nbytes
    return total


def planned_bytes(outline: ModelOutline, arm: Arm, tokens: int) -> Breakdown:
    """Bytes by line of a cache made for ``tokens`` tokens and filled with them."""
    return planned_local(outline.shape, arm, tokens, outline.local_layers, outline.sliding_window)


def longest_context(outline: ModelOutline, arm: Arm, budget: int) -> int | None:
    """Tokens that fit into ``budget`` bytes while one more does not; None when no layer keeps all tokens."""
    if outline.local_layers == outline.shape.n_layers:
        return None
    return longest(lambda tokens: planned_bytes(outline, arm, tokens).total, budget)
