"""Rotary position embedding (RoPE): a rotation of channel pairs by angles that grow with position.

Su et al., "RoFormer" (arXiv 2104.09864), eq. 15: at position m, pair i of head_dim d turns by
m * theta**(-2 i / d). Scores of rotated queries and keys then depend on positions only through their
difference. Two layouts of the pairs are in use: adjacent channels (2 i, 2 i + 1), as in the paper
and in llama-architecture GGUF files, and channels (i, i + d / 2), as in the Transformers library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tq_core.errors import ShapeError, ValueRangeError, check
from tq_core.shapes import check_head_dim


@dataclass(frozen=True)
class RopeTable:
    """Cosines and sines, float32 (n_positions, head_dim / 2)."""

    cosines: np.ndarray
    sines: np.ndarray

    @classmethod
    def build(
        cls, n_positions: int, head_dim: int, theta: float, divisors: Sequence[float] = ()
    ) -> RopeTable:
        """Angles in float64, rounded once at the end; the frequencies divided by ``divisors``, (head_dim / 2,) or none.

        In float32 the angle itself would carry an error of up to n_positions * 2**-24 radians.
        Raises ShapeError or ValueRangeError when an argument is out of range.
        """
        check_head_dim(head_dim)
        check(n_positions >= 1, "n_positions", "1 or more", n_positions, ValueRangeError)
        check(bool(np.isfinite(theta)) and theta > 0, "theta", "a positive number", theta, ValueRangeError)
        frequencies = float(theta) ** (-np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
        if divisors:
            fits = len(divisors) == head_dim // 2 and all(0 < divisor < 1e12 for divisor in divisors)
            check(fits, "divisors", f"{head_dim // 2} positive numbers", divisors, ValueRangeError)
            frequencies /= np.array(divisors, np.float64)
        angles = np.arange(n_positions, dtype=np.float64)[:, None] * frequencies
        table = cls(np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32))
        table.cosines.flags.writeable = False
        table.sines.flags.writeable = False
        return table

    def rotate(self, vectors: np.ndarray, first_position: int, pairing: str) -> np.ndarray:
        """Rotate with ``pairing`` "adjacent" or "half split"; ValueRangeError for another."""
        rotations = {"adjacent": self.rotate_adjacent, "half split": self.rotate_half_split}
        check(pairing in rotations, "pairing", f"one of {', '.join(rotations)}", pairing, ValueRangeError)
        return rotations[pairing](vectors, first_position)

    def rotate_adjacent(self, vectors: np.ndarray, first_position: int) -> np.ndarray:
        """Rotate pairs (2 i, 2 i + 1) of ``vectors``, float32 (n_tokens, n_heads, head_dim).

        Token t is at position ``first_position + t``. Raises ShapeError when the table is too short.
        """
        cosines, sines = self._rows(vectors, first_position)
        even, odd = vectors[..., 0::2], vectors[..., 1::2]
        rotated = np.empty_like(vectors)
        rotated[..., 0::2] = even * cosines - odd * sines
        rotated[..., 1::2] = even * sines + odd * cosines
        return rotated

    def rotate_half_split(self, vectors: np.ndarray, first_position: int) -> np.ndarray:
        """Rotate pairs (i, i + head_dim / 2); otherwise as rotate_adjacent."""
        cosines, sines = self._rows(vectors, first_position)
        half = vectors.shape[-1] // 2
        low, high = vectors[..., :half], vectors[..., half:]
        rotated = np.empty_like(vectors)
        rotated[..., :half] = low * cosines - high * sines
        rotated[..., half:] = low * sines + high * cosines
        return rotated

    def _rows(self, vectors: np.ndarray, first_position: int) -> tuple[np.ndarray, np.ndarray]:
        n_positions, n_pairs = self.cosines.shape
        ok = vectors.ndim == 3 and vectors.shape[2] == 2 * n_pairs
        check(ok, "vectors", f"shape (n_tokens, n_heads, {2 * n_pairs})", vectors.shape, ShapeError)
        end = first_position + len(vectors)
        check(
            0 <= first_position and end <= n_positions,
            "first_position",
            f"positions in 0..{n_positions - 1}",
            f"{first_position}..{end - 1}",
            ShapeError,
        )
        rows = slice(first_position, end)
        return self.cosines[rows, None, :], self.sines[rows, None, :]
