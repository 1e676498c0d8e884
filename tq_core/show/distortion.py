"""Quantize vectors with the real kernels and measure what was lost: the numbers of the math notebook."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tq_core.kernels.backend import Backend
from tq_core.math.books import load_books, widths_for
from tq_core.math.quantize import NormMode, centroid_values
from tq_core.math.rotation import StructuredRotation

Array = npt.NDArray[np.float32]
SCALE_BITS = 16
SEED = 7


def outlier_vectors(n: int, head_dim: int, seed: int = SEED) -> Array:
    """(n, head_dim) float32 vectors as attention keys look: one channel in eight is four times the rest."""
    rng = np.random.default_rng(seed)
    channel = np.ones(head_dim, np.float32)
    channel[rng.permutation(head_dim)[: head_dim // 8]] = 4
    return (rng.standard_normal((n, head_dim)) * channel).astype(np.float32)


@dataclass(frozen=True)
class Encoded:
    """Codes (n, d) uint8, scales (n,) float32, and the reconstruction (n, d) float32."""

    codes: npt.NDArray[np.uint8]
    scales: Array
    restored: Array


def encode(x: Array, rate: float, rule: NormMode, backend: Backend, seed: int = SEED) -> Encoded:
    """Run the ``encode_rows`` kernel and undo it: x_hat = T^t (scale * centroids)."""
    head_dim = x.shape[1]
    rotation, books, widths = StructuredRotation(head_dim, seed), load_books(), widths_for(rate, head_dim)
    codes, half = np.empty(x.shape, np.uint8), np.empty(len(x), np.uint16)
    backend.call(
        "encode_rows",
        x=x,
        signs=rotation.signs,
        hadamard=rotation.hadamard,
        widths=widths,
        levels=books.levels,
        book_scale=books.scale,
        boundaries=books.boundaries,
        codes=codes,
        scales=half,
        norm_mode=int(rule),
    )
    scales = half.view(np.float16).astype(np.float32)
    restored = rotation.inverse(scales[:, None] * centroid_values(codes, widths, books))
    return Encoded(codes, scales, restored)


@dataclass(frozen=True)
class Loss:
    """Relative squared error; slope of <x, x_hat> on <x, x>; relative length of x_hat."""

    mse: float
    slope: float
    length: float


def measure(x: Array, restored: Array) -> Loss:
    """Average loss over rows, in float64."""
    a, b = x.astype(np.float64), restored.astype(np.float64)
    power = np.einsum("nd,nd->n", a, a)
    mse = np.einsum("nd,nd->n", a - b, a - b) / power
    slope = np.einsum("nd,nd->n", a, b) / power
    length = np.sqrt(np.einsum("nd,nd->n", b, b) / power)
    return Loss(float(mse.mean()), float(slope.mean()), float(length.mean()))


def expected_mse(rate: float, head_dim: int) -> float:
    """D of the book on N(0,1), averaged over the channel groups of a half rate."""
    books = load_books()
    return float(np.mean([books.distortion(int(bits)) for bits in widths_for(rate, head_dim)]))


def bits_all_in(rate: float, head_dim: int) -> float:
    """Stored bits per channel: the codes and one float16 scale per vector."""
    return float(np.mean(widths_for(rate, head_dim))) + SCALE_BITS / head_dim
