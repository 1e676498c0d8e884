"""Fitted arms in steps of many tokens: the bits of one token after another, and nothing changed by a step that was stopped."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from tq_core.cache import many
from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.arms import Arm, calibrated_arm_names, get_arm
from tq_core.codecs.fit import fit_arm
from tq_core.codecs.offset import fit_offset, with_key_offset
from tq_core.codecs.value_offset import fit_value_offset, with_value_offset
from tq_core.kernels.backend import NumpyBackend, get_backend
from tq_core.math.rotary import Rotary
from tq_core.shapes import ModelShape
from tq_core.tests.cache.faults import lines_until_done
from tq_core.tests.cache.invariants import check_consistent, image
from tq_core.tests.cache.worlds import tokens

SHAPE = ModelShape(n_layers=2, n_query_heads=6, n_kv_heads=2, head_dim=32)
LOUD = np.linspace(0.3, 2, SHAPE.head_dim).astype(np.float32)
N = 150
CUTS = (0, 1, 3, 40, 41, 100, N)
WINDOW = {"window": 20, "sinks": 3}


def vectors(seed: int, n: int = N) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Queries, keys and values whose channels differ, keys with an offset."""
    q, k, v = tokens(n, SHAPE, seed)
    return q * LOUD[::-1], k * LOUD + 1, v * LOUD


FIT = [np.stack(x) for x in zip(*(vectors(90 + layer, 200) for layer in range(SHAPE.n_layers)), strict=True)]


def fitted(name: str, rotary: Rotary | None = None, **options: Any) -> Arm:
    return fit_arm(name, FIT[1], FIT[2], rotary, FIT[0], **options)


def shifted(name: str) -> Arm:
    arm = with_key_offset(get_arm(name, **WINDOW), fit_offset(FIT[1]))
    return with_value_offset(arm, fit_value_offset(FIT[2]))


ARMS: dict[str, Callable[[], Arm]] = {
    "best-turbo": lambda: fitted("best-turbo", **WINDOW),
    "best-turbo 2 and 2.5 bits": lambda: fitted("best-turbo", key_bits=2, value_bits=2.5, **WINDOW),
    "kvquant": lambda: fitted("kvquant"),
    "kvquant 2 bits, rotary": lambda: fitted("kvquant", Rotary(), key_bits=2, value_bits=4),
    "fp8": lambda: fitted("fp8"),
    "spinquant": lambda: fitted("spinquant"),
    "qserve": lambda: fitted("qserve", Rotary(500000.0, "half"), key_bits=8),
    "structured-turbo, offsets": lambda: shifted("structured-turbo"),
}


@pytest.fixture(autouse=True)
def together(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many tokens at once as ever, however small the cache is."""
    monkeypatch.setattr(many, "SCRATCH_SHARE", 1e-3)


def read(cache: PagedCache, cuts: tuple[int, ...]) -> np.ndarray:
    """Outputs (n_layers, N, n_query_heads, head_dim)."""
    out = []
    for layer in range(SHAPE.n_layers):
        q, k, v = vectors(layer)
        out.append([cache.attend(layer, q[a:b], k[a:b], v[a:b]) for a, b in zip(cuts, cuts[1:])])
    return np.stack([np.concatenate(parts) for parts in out])


def test_every_arm_that_is_only_to_be_had_fitted_is_here() -> None:
    assert set(calibrated_arm_names()) <= set(ARMS)


@pytest.mark.parametrize("name", ARMS)
def test_same_bits_as_one_token_after_another(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arm, steps = ARMS[name](), []
    whole = many.append_many

    def counted(cache: Any, layer: int, keys: np.ndarray, values: np.ndarray) -> many.Appended:
        steps.append(len(keys))
        return whole(cache, layer, keys, values)

    monkeypatch.setattr("tq_core.cache.paged_cache.append_many", counted)
    one, some = (PagedCache(SHAPE, arm, get_backend()) for _ in range(2))
    alone = read(one, tuple(range(N + 1)))
    assert not steps
    np.testing.assert_array_equal(alone.view("u4"), read(some, CUTS).view("u4"))
    assert max(steps) > 8, "or no step of many tokens was taken"
    for layer in range(SHAPE.n_layers):
        for x, y in zip(one.decode(layer), some.decode(layer), strict=True):
            np.testing.assert_array_equal(x.view("u4"), y.view("u4"))


def started(name: str, backend: Any = None) -> PagedCache:
    """A cache whose next 30 tokens fill the window and leave it."""
    cache = PagedCache(SHAPE, ARMS[name](), backend or get_backend())
    for layer in range(SHAPE.n_layers):
        _, k, v = vectors(layer)
        cache.append(layer, k[:41], v[:41])
    return cache


def step(cache: PagedCache) -> np.ndarray:
    q, k, v = (x[60:90] for x in vectors(0))
    return cache.attend(0, q, k, v)


@pytest.mark.parametrize("name", ["best-turbo", "kvquant"])
def test_an_interrupt_in_the_midst_leaves_the_cache_as_before(name: str) -> None:
    cache = started(name)
    before, wanted = image(cache), step(started(name))
    lines = lines_until_done(lambda: step(started(name)), None) - lines_until_done(
        lambda: started(name), None
    )
    assert lines > 100
    undone = 0
    for stop_at in range(0, lines, max(1, lines // 60)):
        with pytest.raises(KeyboardInterrupt):
            lines_until_done(partial(step, cache), stop_at)
        check_consistent(cache)
        if image(cache) != before:  # it had happened as a whole
            assert cache.length == 41 and len(cache.decode(0)[0]) == 71
            cache = started(name)
            continue
        undone += 1
    assert undone >= 50
    np.testing.assert_array_equal(step(cache).view("u4"), wanted.view("u4"))


@pytest.mark.parametrize("name", ["best-turbo", "kvquant"])
def test_whichever_kernel_call_fails_the_cache_is_as_before(name: str) -> None:
    class Failing(NumpyBackend):
        left = -1

        def call(self, kernel: str, **arguments: Any) -> Any:
            if self.left == 0:
                raise ZeroDivisionError(kernel)
            self.left -= 1
            return super().call(kernel, **arguments)

    backend = Failing()
    cache = started(name, backend)
    before, wanted = image(cache), step(started(name))
    failed = set()
    for n in range(10_000):
        backend.left = n
        try:
            got = step(cache)
        except ZeroDivisionError as error:
            failed.add(str(error))
            check_consistent(cache)
            assert image(cache) == before, f"call {n}, {error}"
        else:
            break
    backend.left = -1
    assert len(failed) >= 2, failed
    np.testing.assert_array_equal(got.view("u4"), wanted.view("u4"))
