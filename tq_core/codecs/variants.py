"""Other forms of a codec: every field with every other value that its constructor accepts, found by trying."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

from tq_core.errors import TqError

_CANDIDATES: tuple[Any, ...] = (
    2, 3, 4, 2.0, 2.5, 3.0, 3.5, 4.0, 1, 7, "matched", "min_mse", "paper", "exact", "f32", "fast", "none", "page", "split",
    "pair", "haar", "structured", "sphere", "gauss", "unbiased", "gaussian", "orthogonal", "tq25", "tq35", "published",
    "repaired", 8, 32, 64, 0.95, 0.999, True, False, "float", "integer", "e4m3", "e5m2", "adjacent", "half",
)  # fmt: skip


def variants(codec: Any, field: str) -> list[Any]:
    """The codec with every other value of one field that its constructor accepts."""
    out: list[Any] = []
    present = getattr(codec, field)
    inner = variants(present, fields(present)[0].name) if is_dataclass(present) else []
    made = present.variants() if hasattr(present, "variants") else []
    for value in (*_CANDIDATES, *inner, *made):
        try:
            other = replace(codec, **{field: value})
        except (TqError, TypeError):
            continue
        if other not in [codec, *out]:
            out.append(other)
    return out
