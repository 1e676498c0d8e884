"""SplitMix64 against published outputs, and the frozen signs that stored caches depend on."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from tq_core.errors import TqError
from tq_core.math.prng import rademacher, splitmix64
from tq_core.math.rotation import StructuredRotation

MASK = 2**64 - 1


def splitmix64_by_hand(seed: int, count: int) -> list[int]:
    """The generator as its authors write it, in Python integers."""
    out = []
    for _ in range(count):
        seed = (seed + 0x9E3779B97F4A7C15) & MASK
        z = seed
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        out.append(z ^ (z >> 31))
    return out


def test_known_answers() -> None:
    want = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert [int(z) for z in splitmix64(0, 3)] == want


@pytest.mark.parametrize("seed", [0, 1, 2**63, MASK])
def test_equals_the_sequential_form(seed: int) -> None:
    assert [int(z) for z in splitmix64(seed, 37)] == splitmix64_by_hand(seed, 37)


def test_signs_are_the_top_bits() -> None:
    want = [-1.0 if z >> 63 else 1.0 for z in splitmix64_by_hand(7, 96)]
    got = rademacher(7, 96)
    assert got.dtype == np.float32
    assert got.tolist() == want


def test_frozen_signs() -> None:
    """Any change here makes every stored cache unreadable."""
    text = "".join("-" if s < 0 else "+" for seed in (1, 2) for s in StructuredRotation(256, seed).signs)
    assert text[:16] == "---++---+-+-+-++"
    assert (
        hashlib.sha256(text.encode()).hexdigest()
        == "c25b11eaf02e11cc4c7e284f524279ec291082da5a821809b6aa599f00e2fc1e"
    )


def test_signs_are_balanced_and_differ_between_seeds() -> None:
    a, b = rademacher(11, 4096), rademacher(12, 4096)
    assert abs(float(a.sum())) < 4 * 64  # four standard deviations
    assert abs(float(a @ b)) < 4 * 64


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, "7", None, True])
def test_bad_seeds_are_refused(seed: object) -> None:
    with pytest.raises(TqError, match="^seed: expected"):
        splitmix64(seed, 3)  # type: ignore[arg-type]
