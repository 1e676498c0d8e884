"""Gaussian vectors through a codec's rows, and what is measured of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np


@cache
def gaussian(d: int, n: int = 20_000, seed: int = 0) -> np.ndarray:
    """(1, n, d) float32, one head; n is a multiple of 32."""
    x = np.random.default_rng([seed, d]).standard_normal((1, n, d)).astype(np.float32)
    x.setflags(write=False)
    return x


def reconstruct(codec: Any, x: np.ndarray) -> np.ndarray:
    """(1, n, d) float64 that the codec's rows stand for."""
    return codec.vectors(codec.encode(x), x.shape[-1]).astype(np.float64)


@dataclass(frozen=True)
class Measured:
    """Per vector: relative squared error, slope <x, x_hat> / ||x||^2, error across a direction orthogonal to x.

    ``sideways`` is <q, x_hat> / ||x|| for a random unit q orthogonal to x, times sqrt(d).
    """

    error: np.ndarray
    slope: np.ndarray
    sideways: np.ndarray


@cache
def measure(codec: Any, d: int = 128, n: int = 20_000) -> Measured:
    """The codec on Gaussian vectors; codecs are frozen, so that tests share what they measure."""
    x = gaussian(d, n)
    x_hat, wide = reconstruct(codec, x), x.astype(np.float64)
    energy = (wide**2).sum(axis=-1)
    q = np.random.default_rng(1).standard_normal(x.shape)
    q -= ((q * wide).sum(axis=-1) / energy)[..., None] * wide
    q /= np.linalg.norm(q, axis=-1, keepdims=True)
    return Measured(
        error=((x_hat - wide) ** 2).sum(axis=-1)[0] / energy[0],
        slope=(x_hat * wide).sum(axis=-1)[0] / energy[0],
        sideways=((q * x_hat).sum(axis=-1) / np.sqrt(energy / d))[0],
    )
