"""Hadamard matrices for every head_dim that is a multiple of 16 up to 256, for 576, and the fast transform.

A size d is written d = m * 2^k: a Paley matrix of order m (m = 1 for powers of two) across the
rows, a fast Walsh-Hadamard transform along them. The result H is exactly orthogonal up to its
integer scale, H H^T = d I, so no head size needs padding.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from tq_core.errors import ValueRangeError
from tq_core.shapes import check_head_dim

Array = npt.NDArray[np.float32]


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % f for f in range(2, int(n**0.5) + 1))


def _jacobsthal(q: int) -> npt.NDArray[np.int64]:
    """Q[i, j] = Legendre symbol of i - j modulo the prime q."""
    squares = {x * x % q for x in range(1, q)}
    chi = np.array([0] + [1 if x in squares else -1 for x in range(1, q)])
    index = np.arange(q)
    return chi[(index[:, None] - index[None, :]) % q]


def _paley_kind(m: int) -> int:
    """1 or 2 for the Paley construction that gives order m, 0 when neither does."""
    if _is_prime(m - 1) and (m - 1) % 4 == 3:
        return 1
    return 2 if m % 2 == 0 and _is_prime(m // 2 - 1) and (m // 2 - 1) % 4 == 1 else 0


@cache
def paley(m: int) -> npt.NDArray[np.int64]:
    """Hadamard matrix of order m with entries +1 and -1 (Paley 1933), m = 1 included; read-only, since shared.

    Raises ValueRangeError for an order that neither construction gives.
    """
    matrix = np.ones((1, 1), np.int64) if m == 1 else _paley_matrix(m)
    matrix.setflags(write=False)
    return matrix


def _paley_matrix(m: int) -> npt.NDArray[np.int64]:
    kind = _paley_kind(m)
    if kind == 0:
        raise ValueRangeError(f"m: expected an order that a Paley construction over a prime reaches, got {m}")
    q = m - 1 if kind == 1 else m // 2 - 1
    core = np.ones((q + 1, q + 1), np.int64)
    core[0, 0] = 0
    core[1:, 1:] = _jacobsthal(q)
    if kind == 1:
        core[1:, 0] = -1
        return core + np.eye(m, dtype=np.int64)
    return np.kron(core, [[1, 1], [1, -1]]) + np.kron(np.eye(q + 1, dtype=np.int64), [[1, -1], [-1, -1]])


@cache
def paley_order(head_dim: int) -> int:
    """The m of head_dim = m * 2^k: 1 for powers of two, else the smallest Paley order that fits.

    80 and 160 use 20, 96 uses 12, 112 uses 28, 576 uses 36. Raises ShapeError for another head_dim.
    """
    check_head_dim(head_dim)
    odd = head_dim
    while odd % 2 == 0:
        odd //= 2
    if odd == 1:
        return 1
    m = 4 * odd
    while _paley_kind(m) == 0:
        m *= 2
    return m


def fwht(x: Array) -> Array:
    """Unnormalised fast Walsh-Hadamard transform of the last axis (a power of two), stages 1, 2, 4..."""
    n = x.shape[-1]
    h = 1
    while h < n:
        pairs = x.reshape(*x.shape[:-1], n // (2 * h), 2, h)
        a, b = pairs[..., 0, :], pairs[..., 1, :]
        x = np.stack([a + b, a - b], axis=-2).reshape(x.shape)
        h *= 2
    return x


def transform(x: Array, hadamard: npt.NDArray, inverse: bool = False) -> Array:
    """H x (or H^T x) along the last axis for H = hadamard (x) FWHT, unnormalised; float32 or integer.

    The sum over the Paley matrix runs from its first column to its last, one rounding each.
    """
    m = hadamard.shape[0]
    rows = fwht(x.reshape(*x.shape[:-1], m, x.shape[-1] // m))
    if m > 1:
        h = hadamard.T if inverse else hadamard
        total = np.zeros_like(rows)
        for j in range(m):
            total = total + h[:, j, None].astype(x.dtype) * rows[..., j, None, :]
        rows = total
    return rows.reshape(x.shape)
