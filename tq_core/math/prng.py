"""Random signs from an integer generator: the same on every platform, thread count and library.

SplitMix64 (Steele, Lea, Flood 2014, doi 10.1145/2660193.2660195) as a counter-based generator.
"""

from __future__ import annotations

import numbers

import numpy as np
import numpy.typing as npt

from tq_core.errors import ValueRangeError, check

_GAMMA = np.uint64(0x9E3779B97F4A7C15)


def check_seed(seed: int) -> None:
    """Raise ValueRangeError unless seed is an integer in 0..2^64-1."""
    whole = isinstance(seed, numbers.Integral) and not isinstance(seed, bool)
    check(whole and 0 <= seed < 2**64, "seed", "an integer in 0..2^64-1", repr(seed), ValueRangeError)


def splitmix64(seed: int, count: int) -> npt.NDArray[np.uint64]:
    """The first ``count`` outputs of SplitMix64. Raises ValueRangeError unless seed is in 0..2^64-1."""
    check_seed(seed)
    with np.errstate(over="ignore"):  # arithmetic modulo 2^64 is the algorithm
        z = np.uint64(seed) + _GAMMA * np.arange(1, count + 1, dtype=np.uint64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def rademacher(seed: int, count: int) -> npt.NDArray[np.float32]:
    """``count`` signs, +1 or -1 as float32: the top bit of each SplitMix64 output."""
    bits = (splitmix64(seed, count) >> np.uint64(63)).astype(np.float32)
    return np.float32(1) - np.float32(2) * bits
