"""What the tests of single methods measure: errors of a codec on given tokens, through its pages."""

from __future__ import annotations

from typing import Any

import numpy as np

from tq_core.codecs.checkbench import Bench
from tq_core.kernels.backend import NumpyBackend
from tq_core.kernels.layout import PageLayout


def bench_for(codec: Any, x: np.ndarray, group: int = 1) -> Bench:
    """A bench for tokens x (n, n_kv_heads, head_dim)."""
    return Bench(codec, NumpyBackend(), x.shape[-1], x.shape[1], group)


def decoded(codec: Any, x: np.ndarray) -> np.ndarray:
    """x stored and read back, (n, n_kv_heads, head_dim) float32."""
    bench = bench_for(codec, x)
    return bench.decode(bench.store(x), len(x))


def relative_mse(codec: Any, x: np.ndarray) -> float:
    """Squared error of decoding over squared size."""
    exact = x.astype(np.float64)
    return float(((decoded(codec, x) - exact) ** 2).sum() / (exact**2).sum())


def logit_error(codec: Any, x: np.ndarray, queries: np.ndarray) -> float:
    """Standard deviation of the error of logits <q, k> / sqrt(d); x has one KV head."""
    bench = bench_for(codec, x, len(queries))
    scale = 1 / np.sqrt(x.shape[-1])
    got = bench.read(bench.store(x), len(x), queries, scale)
    return float((got - scale * queries.astype(np.float64) @ x[:, 0].T).std())


def all_in_bits(codec: Any, head_dim: int) -> float:
    """Bits per channel of all declared streams."""
    layout = PageLayout(1, codec.page_tokens, codec.streams(head_dim))
    return 8 * layout.payload_bytes / (codec.page_tokens * head_dim)


def gaussian(n: int, heads: int = 1, head_dim: int = 128, seed: int = 1) -> np.ndarray:
    """(n, heads, head_dim) float32 of unit variance."""
    return np.random.default_rng(seed).standard_normal((n, heads, head_dim)).astype(np.float32)


def offset_keys(n: int = 2048, seed: int = 2) -> np.ndarray:
    """(n, 1, 128): unit Gaussian keys with four channels around 20, -15, 12 and -25."""
    x = gaussian(n, seed=seed)
    x[:, 0, [3, 40, 77, 101]] += np.array([20, -15, 12, -25], np.float32)
    return x
