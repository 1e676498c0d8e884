"""PolarQuant's recursion (2502.02617): blocks of 16 coordinates as one radius and 15 angles.

Level 1 pairs coordinates: radius r and angle in [0, 2 pi). Levels 2 to 4 pair the radii: psi = atan2(r2, r1) in
[0, pi/2]. After a random rotation the angles are independent: uniform at level 1, with density proportional to
sin^(n-1)(2 psi), n = 2^(l-1), at level l. So each level has one book and only the last radius is stored.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import integrate, optimize

F64 = npt.NDArray[np.float64]
BLOCK = 16
LEVEL_BITS = (4, 2, 2, 2)
LEVEL_CODES = (8, 4, 2, 1)
CODE_BITS = sum(b * n for b, n in zip(LEVEL_BITS, LEVEL_CODES))  # 46 per block, beside the radius


@lru_cache(maxsize=8)
def angle_book(level: int) -> F64:
    """Ascending centroids in radians: 16 uniform ones for level 1, else the 4 of the Lloyd-Max book, read-only."""
    if level == 1:
        book: F64 = (np.arange(16, dtype=np.float64) + 0.5) * (np.pi / 8)
    else:
        power = 2 ** (level - 1) - 1

        def mean(low: float, high: float) -> float:
            mass = integrate.quad(lambda p: np.sin(2 * p) ** power, low, high, epsabs=1e-13, epsrel=1e-13)[0]
            moment = integrate.quad(
                lambda p: p * np.sin(2 * p) ** power, low, high, epsabs=1e-13, epsrel=1e-13
            )[0]
            return float(moment / mass)

        def stationary(lower: F64) -> npt.NDArray:
            edge = (lower[0] + lower[1]) / 2  # symmetric about pi / 4, which is the middle boundary
            return np.array([mean(0, edge), mean(edge, np.pi / 4)]) - lower

        spread = 0.48 / np.sqrt(level)
        lower = optimize.root(stationary, np.pi / 4 - np.array([spread, spread / 3]), tol=1e-14).x
        book = np.concatenate([lower, np.pi / 2 - lower[::-1]])
    book.setflags(write=False)
    return book


def to_polar(y: npt.NDArray) -> tuple[list[npt.NDArray[np.uint8]], F64]:
    """y (..., 16) to codes of the four levels, (..., 8), (..., 4), (..., 2), (..., 1), and radii (..., 1)."""
    radii = np.asarray(y, np.float64)
    codes = []
    for level in range(1, 5):
        a, b = radii[..., 0::2], radii[..., 1::2]
        angle = np.arctan2(b, a)
        if level == 1:
            cell = np.floor((angle % (2 * np.pi)) * (8 / np.pi)).astype(np.int64) % 16
        else:
            book = angle_book(level)
            cell = np.searchsorted((book[1:] + book[:-1]) / 2, angle, side="left")
        codes.append(cell.astype(np.uint8))
        radii = np.sqrt(a * a + b * b)
    return codes, radii


def from_polar(codes: list[npt.NDArray[np.uint8]], radii: F64) -> F64:
    """Inverse of to_polar up to the angles' rounding: (..., 16) float64."""
    for level in range(4, 0, -1):
        angle = angle_book(level)[codes[level - 1]]
        pairs = np.stack([radii * np.cos(angle), radii * np.sin(angle)], axis=-1)
        radii = pairs.reshape(*pairs.shape[:-2], -1)
    return radii
