"""The order in which float32 numbers are added, fixed once for every instruction set.

A sum runs in 16 lanes: element ``i`` goes to lane ``i % 16`` in order, then the lanes are folded
8, 4, 2, 1 apart. Products are rounded before they are added (no fused multiply-add, which
WebAssembly does not have). Every backend follows this order, so equal inputs give equal bits.

These are the only reductions allowed for values under that contract: ``np.sum`` and BLAS choose
their own order.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]
LANES = 16

# exp(x) = 2^n exp(r), r = x - n ln2 in two parts, then a degree-6 polynomial (Cephes expf).
LOG2E = np.float32(1.44269504088896341)
LN2_HIGH, LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
EXP_POLY = tuple(
    np.float32(c)
    for c in (
        1.9875691500e-4,
        1.3981999507e-3,
        8.3334519073e-3,
        4.1665795894e-2,
        1.6666665459e-1,
        5.0000001201e-1,
    )
)
EXP_LOW, EXP_HIGH = np.float32(-87.0), np.float32(88.0)
# 2^x = 2^n 2^r for |r| <= 1/2: least-squares weights driven to equal relative error, 9e-8 before rounding.
EXP2_POLY = tuple(np.float32(c) for c in (0.0013264727, 0.009671513, 0.055507336, 0.24022242, 0.693147))
EXP2_LOW = np.float32(-125.0)
# Adding and subtracting 1.5 * 2^23 rounds to an integer, ties to even, for |x| < 2^22.
ROUND_MAGIC = np.float32(12582912.0)


def _padded(a: Array) -> Array:
    tail = -a.shape[-1] % LANES
    if tail:
        a = np.concatenate([a, np.zeros((*a.shape[:-1], tail), np.float32)], axis=-1)
    return a.reshape(*a.shape[:-1], a.shape[-1] // LANES, LANES)


def fold(acc: Array) -> Array:
    """Add the 16 lanes of the last axis: lane i and i+8, then 4, 2, 1 apart."""
    for half in (8, 4, 2, 1):
        acc = acc[..., :half] + acc[..., half : 2 * half]
    return acc[..., 0]


def lane_sum(a: Array) -> Array:
    """Sum over the last axis in lane order; float32 in, float32 out."""
    blocks = _padded(np.asarray(a, np.float32))
    acc = np.zeros((*blocks.shape[:-2], LANES), np.float32)
    for block in range(blocks.shape[-2]):
        acc = acc + blocks[..., block, :]
    return fold(acc)


def dot(a: Array, b: Array) -> Array:
    """Inner product over the last axis in lane order, broadcasting the others."""
    a, b = _padded(np.asarray(a, np.float32)), _padded(np.asarray(b, np.float32))
    acc = np.zeros((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), LANES), np.float32)
    for block in range(a.shape[-2]):
        acc = acc + a[..., block, :] * b[..., block, :]
    return fold(acc)


def round_even(x: Array) -> Array:
    """Nearest integer, ties to even, for |x| < 2^22."""
    return (x + ROUND_MAGIC) - ROUND_MAGIC


def exp_f32(x: Array) -> Array:
    """e^x within 2 ulp; 0 below -87, and arguments above 88 are taken as 88.

    Same bits on every backend, since it is built from rounded products and sums alone.
    """
    x = np.asarray(x, np.float32)
    clamped = np.minimum(np.maximum(x, EXP_LOW), EXP_HIGH)
    n = round_even(clamped * LOG2E)
    r = clamped - n * LN2_HIGH
    r = r - n * LN2_LOW
    poly = np.full_like(r, EXP_POLY[0])
    for coefficient in EXP_POLY[1:]:
        poly = poly * r + coefficient
    y = (poly * (r * r) + r) + np.float32(1)
    power = ((n.astype(np.int32) + np.int32(127)) << np.int32(23)).view(np.float32)
    return np.where(x < EXP_LOW, np.float32(0), y * power)


def exp2_f32(x: Array) -> Array:
    """2^x for x <= 127, within 2.3 ulp; 0 below -125. The decode step's exponential: its logits are in units of log 2.

    The rounded exponent is taken from the low bits of x + 1.5 * 2^23 and added to the exponent of 2^r, so that
    there is no conversion and no second multiplication. Same bits on every backend.
    """
    x = np.asarray(x, np.float32)
    shifted = np.maximum(x, EXP2_LOW) + ROUND_MAGIC
    r = np.maximum(x, EXP2_LOW) - (shifted - ROUND_MAGIC)
    poly = np.full_like(r, EXP2_POLY[0])
    for coefficient in EXP2_POLY[1:]:
        poly = poly * r + coefficient
    y = poly * r + np.float32(1)
    with np.errstate(over="ignore"):  # the sum is meant modulo 2^32
        bits = y.view(np.uint32) + (shifted.view(np.uint32) << np.uint32(23))
    return np.where(x < EXP2_LOW, np.float32(0), bits.view(np.float32))
