"""Rotary frequencies of models that were stretched to a longer context, as divisors of the plain ones."""

from __future__ import annotations

from collections.abc import Mapping
from math import pi
from typing import Any

import numpy as np

from tq_core.errors import ModelFileError
from tq_core.model.gguf_header import require

KINDS = ("default", "linear", "llama3")


def divisors_of(
    rope: Mapping[str, Any], head_dim: int, theta: float, context_length: int
) -> tuple[float, ...]:
    """Divisors (head_dim / 2,), or empty for none, that the "rope_scaling" of a config.json asks for.

    "linear": every frequency by ``factor`` (Chen et al., arXiv 2306.15595, eq. 3). "llama3": frequencies whose wave is
    longer than original_max_position_embeddings / low_freq_factor by ``factor``, those with a wave shorter than
    original / high_freq_factor not at all, the ones between by a blend (Llama 3's model card and reference code).
    Raises ModelFileError for another kind or a number that is missing or out of range.
    """
    kind = rope.get("rope_type", rope.get("type", "default"))
    require(
        isinstance(kind, str) and kind in KINDS, "rope_type", f"one of {', '.join(KINDS)}", f"{kind!r:.60}"
    )
    part = rope.get("partial_rotary_factor")
    require(part in (None, 1.0), "partial_rotary_factor", "1.0", f"{part!r:.60}")
    if kind == "default":
        return ()
    factor = _number(rope, "factor")
    if kind == "linear":
        return (factor,) * (head_dim // 2)
    low, high = _number(rope, "low_freq_factor"), _number(rope, "high_freq_factor")
    original = _number(rope, "original_max_position_embeddings")
    require(low < high, "high_freq_factor", f"more than low_freq_factor {low}", high)
    require(
        original <= context_length, "original_max_position_embeddings", f"at most {context_length}", original
    )
    waves = 2 * pi * theta ** (np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    # 0 where the frequency is divided in full, 1 where it is left alone.
    kept = np.clip((original / waves - low) / (high - low), 0.0, 1.0)
    return tuple((1 / ((1 - kept) / factor + kept)).tolist())


def _number(rope: Mapping[str, Any], key: str) -> float:
    value = rope.get(key)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value < 1e12:
        raise ModelFileError(f"{key}: expected a positive number, got {value!r:.60}")
    return float(value)
