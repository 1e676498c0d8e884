"""Shapes of the attention whose keys and values are cached."""

from __future__ import annotations

import numbers
from dataclasses import dataclass

from tq_core.errors import ShapeError, check

HEAD_DIM_MIN, HEAD_DIM_MAX, HEAD_DIM_STEP = 16, 256, 16
HEAD_DIM_LATENT = 576  # the cached row of multi-head latent attention: 512 latent and 64 rotary channels
HEAD_DIMS_WORDS = f"a multiple of {HEAD_DIM_STEP} in {HEAD_DIM_MIN}..{HEAD_DIM_MAX}, or {HEAD_DIM_LATENT}"


def is_head_dim(n: int) -> bool:
    """Whether the kernels are laid out for vectors of n channels."""
    return (HEAD_DIM_MIN <= n <= HEAD_DIM_MAX and n % HEAD_DIM_STEP == 0) or n == HEAD_DIM_LATENT


def check_head_dim(head_dim: int) -> None:
    """Raise ShapeError unless head_dim is an integer multiple of 16 between 16 and 256, or 576."""
    whole = isinstance(head_dim, numbers.Integral) and not isinstance(head_dim, bool)
    check(whole and is_head_dim(head_dim), "head_dim", HEAD_DIMS_WORDS, head_dim)


@dataclass(frozen=True)
class ModelShape:
    """Shape of a model's attention; query head h reads KV head ``h // group_size_heads`` (GQA).

    Raises ShapeError when a count is not positive, when ``n_query_heads`` is not a multiple of
    ``n_kv_heads``, or when ``head_dim`` is neither a multiple of 16 in 16..256 nor 576.
    """

    n_layers: int
    n_query_heads: int
    n_kv_heads: int
    head_dim: int

    def __post_init__(self) -> None:
        for name in ("n_layers", "n_query_heads", "n_kv_heads", "head_dim"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ShapeError(f"{name}: expected a positive int, got {value!r}")
        check_head_dim(self.head_dim)
        check(
            self.n_query_heads % self.n_kv_heads == 0,
            "n_query_heads",
            f"a multiple of n_kv_heads={self.n_kv_heads}",
            self.n_query_heads,
        )

    @property
    def group_size_heads(self) -> int:
        """Query heads that share one KV head."""
        return self.n_query_heads // self.n_kv_heads
