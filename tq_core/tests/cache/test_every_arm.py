"""Every arm behind a cache: what float16 cannot hold is refused as a whole, what it can hold never becomes NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.arm import Arm
from tq_core.codecs.arms import arm_names, get_arm
from tq_core.codecs.calibration import Calibration
from tq_core.codecs.offset import offset_of, with_key_offset
from tq_core.codecs.value_offset import METHOD as VALUE_METHOD
from tq_core.codecs.value_offset import with_value_offset
from tq_core.errors import ValueRangeError
from tq_core.kernels.backend import NumpyBackend
from tq_core.shapes import ModelShape

SHAPE = ModelShape(1, 4, 2, 64)
QUICK = ("fp16", "structured-turbo", "kivi-control")
NAMES = [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in arm_names()]


def small_window(name: str) -> Arm:
    return get_arm(name, sinks=1) if name == "fp16" else get_arm(name, window=4, sinks=1)


def tokens(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, 2, 64)).astype(np.float32)


def bytes_of(cache: PagedCache) -> Any:
    return cache.length, [s.pool.buffer.tobytes() for s in cache.stores.values()], cache.ledger().as_dict()


@pytest.mark.parametrize("name", NAMES)
def test_what_float16_cannot_hold_is_refused_and_nothing_changes(name: str) -> None:
    cache = PagedCache(SHAPE, small_window(name), NumpyBackend())
    cache.append(0, tokens(70), tokens(70, 1))
    before = bytes_of(cache)
    for bad in (np.nan, np.inf, -np.inf, 65536.0, 3e38):
        for side in (0, 1):
            given = [tokens(40, 2), tokens(40, 3)]
            given[side][-1, 1, 7] = bad
            with pytest.raises(ValueRangeError, match="^(keys|values): expected"):
                cache.append(0, *given)
            assert bytes_of(cache) == before


def ends() -> dict[str, np.ndarray]:
    """(160, 2, 64) tokens at the ends of what is accepted."""
    sign = np.where(np.arange(160) < 80, 1, -1)[:, None, None]
    one = np.zeros((160, 2, 64))
    one[..., 5] = 65000
    return {
        "one channel, both ends": (one * sign).astype(np.float32),
        "all channels, both ends": np.broadcast_to(sign * 8100.0, one.shape).astype(np.float32),
        "least float16": np.full(one.shape, 6e-8, np.float32),
        "subnormals of float32": np.full(one.shape, 1e-42, np.float32),
        "zeros": np.zeros(one.shape, np.float32),
        "one token among zeros": np.where(np.arange(160)[:, None, None] == 40, tokens(160), 0).astype(
            np.float32
        ),
    }


def stays_finite(arm: Arm) -> None:
    for kind, x in ends().items():
        cache = PagedCache(SHAPE, arm, NumpyBackend())
        for first in range(0, 160, 50):  # pieces, so that the window is left more than once
            cache.append(0, x[first : first + 50], x[first : first + 50])
        out = cache.attend(0, np.full((1, 4, 64), 1e-4, np.float32), x[:1], x[:1])
        assert all(np.isfinite(part).all() for part in (out, *cache.decode(0))), kind


@pytest.mark.parametrize("name", NAMES)
def test_the_ends_of_what_is_accepted_stay_finite(name: str) -> None:
    stays_finite(small_window(name))


OFFSET_NAMES = ["structured-turbo", "kivi-control"]
OFFSET_SLOW = ["quarot", "qjl", "fp8", "q4_0", "turbo-lognorm", "rabitq", "int8"]


@pytest.mark.parametrize(
    "name", OFFSET_NAMES + [pytest.param(n, marks=pytest.mark.slow) for n in OFFSET_SLOW]
)
def test_an_offset_is_taken_off_what_may_come_in(name: str) -> None:
    """A token of 65,000 and an offset of -65,000 are 130,000 apart: refused at the door, not when it leaves the window."""
    far = np.zeros((1, 2, 64), np.float32)
    far[..., 5] = -65000
    x, zeros, arm = ends()["one channel, both ends"], np.zeros((160, 2, 64), np.float32), small_window(name)
    for moved, centres, side in (
        (arm, far, 0),
        (with_key_offset(arm, offset_of(far)), None, 0),
        (with_value_offset(arm, Calibration(VALUE_METHOD, 64, {"offset": far})), None, 1),
    ):
        cache = PagedCache(SHAPE, moved, NumpyBackend(), key_centres=centres)
        before = bytes_of(cache)
        given = [zeros, zeros]
        given[side] = x
        with pytest.raises(ValueRangeError, match="^(keys|values): expected vectors of norm at most 504"):
            cache.append(0, *given)
        assert bytes_of(cache) == before
        cache.append(0, zeros, zeros)
        assert all(np.isfinite(part).all() for part in cache.decode(0))
