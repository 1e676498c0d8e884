"""Descent over orthogonal matrices: Cayley steps on the Stiefel manifold (Li, Fuxin, Todorovic 2020, algorithm 1).

From the Euclidean gradient G at X: momentum M <- mu M - G, W^ = M X^t - X X^t M X^t / 2, W = W^ - W^^t, step
a = min(rate, 1 / ||W||_1), and X <- (I - a W / 2)^-1 (I + a W / 2) X. W is antisymmetric, so the step is orthogonal.
SpinQuant approximates the inverse by five fixed-point iterations; matrices of a head's size are solved exactly.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]


def skew_direction(x: F64, momentum: F64) -> F64:
    """W (d, d), antisymmetric: the tangent direction at orthogonal x (d, d) along ``momentum`` (d, d)."""
    hat = momentum @ x.T - 0.5 * x @ (x.T @ momentum @ x.T)
    return hat - hat.T


def cayley_step(x: F64, gradient: F64, momentum: F64, rate: float, keep: float = 0.9) -> tuple[F64, F64]:
    """The next orthogonal matrix and momentum, (d, d) each; ``keep`` is mu."""
    w = skew_direction(x, keep * momentum - gradient)
    step = min(rate, 1.0 / (float(np.abs(w).sum(axis=0).max()) + 1e-8))
    half, unit = 0.5 * step * w, np.eye(len(x))
    moved = np.linalg.solve(unit - half, (unit + half) @ x)
    return np.asarray(moved, np.float64), w @ x
