"""Arguments of the parity cases of the kernels that map and shape; see case_inputs."""

from __future__ import annotations

import numpy as np

from tq_core.kernels.case_inputs import GUARD, Arguments, Rate, book_of, nasty_vectors, rng_for


def shape(rate: Rate, head_dim: int, n: int, kv_heads: int, passes: int) -> Arguments:
    """Nasty rows under random metrics, each positive definite and far from a multiple of the identity."""
    rng = rng_for("shape_codes", rate, head_dim, n, kv_heads, passes)
    roots = rng.standard_normal((kv_heads, head_dim, head_dim)) * np.exp(rng.standard_normal(head_dim))
    metric = roots @ np.swapaxes(roots, 1, 2) / head_dim + 0.05 * np.eye(head_dim)
    return {
        "y": nasty_vectors(n * kv_heads, head_dim, rng).reshape(n, kv_heads, head_dim),
        "metric": metric.astype(np.float32),
        **book_of(rate, head_dim, boundaries=True),
        "codes": np.full((n, kv_heads, head_dim), 0xA5, np.uint8),
        "scales": np.full((n, kv_heads), 0xA5A5, np.uint16),
        "passes": passes,
    }


def map_heads(head_dim: int, n: int, kv_heads: int, group: int) -> Arguments:
    """Nasty rows and random matrices, a row of zeros in one of them."""
    rng = rng_for("map_heads", head_dim, n, kv_heads, group)
    w = rng.standard_normal((kv_heads, head_dim, head_dim)).astype(np.float32)
    w[0, 1] = 0
    x = nasty_vectors(n * kv_heads * group, head_dim, rng).reshape(n, kv_heads * group, head_dim)
    return {"x": x, "w": w, "y": np.full(x.shape, GUARD)}
