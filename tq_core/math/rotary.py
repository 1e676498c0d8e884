"""Rotary embedding of vectors at any positions, and its inverse, for codecs that undo it.

Su et al., "RoFormer" (arXiv 2104.09864), eq. 15; the same angles as the model's own table, which
holds consecutive positions only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_core.errors import ValueRangeError, check

F32 = npt.NDArray[np.float32]
PAIRINGS = ("adjacent", "half")


@dataclass(frozen=True)
class Rotary:
    """Pair i of head_dim d turns by position * theta^(-2 i / d) / divisors[i].

    pairing: "adjacent" for channels (2 i, 2 i + 1), "half" for (i, i + d / 2). divisors: (d / 2,), or empty for ones;
    a model that was stretched to a longer context has them. Raises ValueRangeError otherwise.
    """

    theta: float = 10000.0
    pairing: str = "adjacent"
    divisors: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        number = isinstance(self.theta, (int, float)) and not isinstance(self.theta, bool)
        check(number and 0 < self.theta < 1e12, "theta", "a positive number", self.theta, ValueRangeError)
        check(self.pairing in PAIRINGS, "pairing", f"one of {PAIRINGS}", self.pairing, ValueRangeError)
        ok = all(0 < d < 1e12 for d in self.divisors)
        check(ok, "divisors", "positive numbers", self.divisors, ValueRangeError)

    def identity(self) -> dict[str, Any]:
        """All fields as plain data; divisors only where there are some."""
        shown = {"theta": self.theta, "pairing": self.pairing}
        return shown | ({"divisors": list(self.divisors)} if self.divisors else {})

    def frequencies(self, head_dim: int) -> npt.NDArray[np.float64]:
        """Radians per position of every pair, float64 (head_dim / 2,). Raises ShapeError for another number of divisors."""
        half = head_dim // 2
        plain = float(self.theta) ** (-np.arange(half, dtype=np.float64) / half)
        if not self.divisors:
            return plain
        check(len(self.divisors) == half, "divisors", f"{half} for head_dim {head_dim}", len(self.divisors))
        return plain / np.array(self.divisors)

    def rotate(self, x: F32, positions: npt.NDArray[np.int64], inverse: bool = False) -> F32:
        """x (n, heads, head_dim) float32 turned by the angles of ``positions`` (n,), or back."""
        angles = positions[:, None] * self.frequencies(x.shape[-1])
        cosines = np.cos(angles).astype(np.float32)[:, None]
        sines = np.sin(-angles if inverse else angles).astype(np.float32)[:, None]
        first, second = self.pairs(x.shape[-1])
        a, b = x[..., first], x[..., second]
        out = np.empty(np.broadcast_shapes(x.shape, (len(positions), 1, 1)), np.float32)
        out[..., first] = a * cosines - b * sines
        out[..., second] = a * sines + b * cosines
        return out

    def pairs(self, head_dim: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Channels of the first and of the second member of each pair, (head_dim / 2,) each."""
        half = np.arange(head_dim // 2)
        return (2 * half, 2 * half + 1) if self.pairing == "adjacent" else (half, half + head_dim // 2)
