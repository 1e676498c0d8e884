"""Maps that transform blocks of channels whose sizes are powers of two: turbovec's, and the aither wheel's.

Blocks do not mix by themselves: turbovec permutes between two rounds. Each block needs the root of its own size.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tq_core.math.hadamard import fwht
from tq_core.math.prng import rademacher, splitmix64

F32 = npt.NDArray[np.float32]


@dataclass(frozen=True)
class PermutedBlocks:
    """turbovec's rotation: two times [permutation, signs, Walsh-Hadamard on blocks of the power of two in d].

    The permutation orders SplitMix64 outputs; turbovec draws from ChaCha8, so its bytes are others.
    """

    head_dim: int
    seed: int

    @cached_property
    def _steps(self) -> tuple[tuple[npt.NDArray[np.intp], F32], ...]:
        seeds = [int(s) for s in splitmix64(self.seed, 4)]
        d = self.head_dim
        return tuple(
            (np.argsort(splitmix64(seeds[2 * i], d), kind="stable"), rademacher(seeds[2 * i + 1], d))
            for i in range(2)
        )

    @property
    def nbytes(self) -> int:
        return sum(order.nbytes + signs.nbytes for order, signs in self._steps)

    @property
    def block(self) -> int:
        """Largest power of two that divides head_dim."""
        return self.head_dim & -self.head_dim

    def _blocks(self, x: F32) -> F32:
        unit = np.float32(1.0 / np.sqrt(np.float64(self.block)))
        return (unit * fwht(x.reshape(*x.shape[:-1], -1, self.block))).reshape(x.shape)

    def forward(self, x: F32) -> F32:
        x = np.asarray(x, np.float32)
        for order, signs in self._steps:
            x = self._blocks(signs * x[..., order])
        return x

    def transpose(self, y: F32) -> F32:
        y = np.asarray(y, np.float32)
        for order, signs in reversed(self._steps):
            y = (signs * self._blocks(y))[..., np.argsort(order)]
        return y


@dataclass(frozen=True)
class SplitBlocks:
    """Signs, then Walsh-Hadamard blocks: each group of channels is cut into powers of two, largest first.

    Divided by the square root of the block's own size it is orthogonal. With ``own_size`` false every block of a group is
    divided by the root of the group's size, a known fault that shortens blocks of groups that are no power of two.
    """

    groups: tuple[int, ...]
    seed: int
    own_size: bool = True

    @cached_property
    def signs(self) -> F32:
        """(d,) float32, +1 or -1."""
        return rademacher(self.seed, sum(self.groups))

    @property
    def nbytes(self) -> int:
        return self.signs.nbytes

    def _cells(self) -> list[tuple[slice, float]]:
        """Channels and divisor of every block."""
        cells, start = [], 0
        for group in self.groups:
            left = group
            while left:
                size = 1 << (left.bit_length() - 1)
                cells.append((slice(start, start + size), float(np.sqrt(size if self.own_size else group))))
                start, left = start + size, left - size
        return cells

    def _blocks(self, x: F32) -> F32:
        out = np.empty_like(x)
        for where, divisor in self._cells():
            out[..., where] = fwht(x[..., where]) / np.float32(divisor)
        return out

    def forward(self, x: F32) -> F32:
        return self._blocks(self.signs * np.asarray(x, np.float32))

    def transpose(self, y: F32) -> F32:
        return self.signs * self._blocks(np.asarray(y, np.float32))
