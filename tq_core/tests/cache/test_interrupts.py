"""Stopped at any line, by any error, a call has happened as a whole or not at all, and the next one works."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tq_core.cache import block_table, pool
from tq_core.cache.beams import reorder
from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.fp16 import HalfValues
from tq_core.codecs.kivi import KiviKeys
from tq_core.shapes import ModelShape
from tq_core.tests.cache.faults import lines_until_done
from tq_core.tests.cache.invariants import check_consistent, image
from tq_core.tests.cache.worlds import make, tokens

SHAPE = ModelShape(n_layers=2, n_query_heads=2, n_kv_heads=1, head_dim=16)
WHOLE = tokens(400, SHAPE, seed=4)
EVERY = int(os.environ.get("TQ_FAULT_EVERY", "41"))  # every how many lines; 1 takes minutes

LENGTHS = (284, 252)  # nine more tokens open a packed page in layer 0 and write into a started one in layer 1
World = list[PagedCache]


def world(forked: bool = False, checkpointed: bool = False) -> World:
    """A KIVI cache whose next tokens fill its window, open pages, and outgrow pools and tables; perhaps a fork of it."""
    cache = make("kivi-control", SHAPE, window=2, sinks=3)
    _, k, v = WHOLE
    for layer, n in enumerate(LENGTHS):
        cache.append(layer, k[:n], v[:n])
    if checkpointed:
        cache.checkpoint()
        for layer in range(2):
            cache.append(layer, k[300:336], v[300:336])
    return [cache, cache.fork()] if forked else [cache]


def forward(caches: World) -> None:
    """What a model does: every layer in turn, in one step, then one layer again."""
    q, k, v = WHOLE
    cache = caches[0]
    with cache.step():
        for layer in range(2):
            cache.attend(layer, q[200:207], k[200:207], v[200:207])
        cache.append(0, k[207:209], v[207:209])
        cache.append(1, k[207:209], v[207:209])


def append(caches: World) -> None:
    caches[0].append(1, WHOLE[1][200:240], WHOLE[2][200:240])


def truncate(caches: World) -> None:
    caches[0].truncate(170)


def rollback(caches: World) -> None:
    opened = caches[0].open_checkpoint
    assert opened is not None
    opened.rollback()


def fork(caches: World) -> None:
    caches.append(caches[0].fork())


def slide(caches: World) -> None:
    caches[0].slide(20)


def swap(caches: World) -> None:
    reorder(caches, [1, 0])


def reset(caches: World) -> None:
    caches[0].reset()


def diverged(**options: Any) -> World:
    caches = world(forked=True, **options)
    caches[1].append(0, WHOLE[1][300:305], WHOLE[2][300:305])
    caches[1].append(1, WHOLE[1][300:305], WHOLE[2][300:305])
    return caches


CASES: dict[str, tuple[Callable[[], World], Callable[[World], None]]] = {
    "forward": (world, forward),
    "forward of a fork": (lambda: world(forked=True), forward),
    "forward in a checkpoint": (lambda: world(checkpointed=True), forward),
    "append": (world, append),
    "append to a fork": (lambda: world(forked=True), append),
    "truncate": (world, truncate),
    "truncate a fork": (lambda: world(forked=True), truncate),
    "rollback": (lambda: world(checkpointed=True), rollback),
    "rollback beside a fork": (lambda: world(forked=True, checkpointed=True), rollback),
    "fork": (world, fork),
    "slide": (world, slide),
    "slide a fork": (lambda: world(forked=True), slide),
    "reorder": (diverged, swap),
    "reset": (lambda: world(forked=True), reset),
}


def images(caches: World) -> list[Any]:
    return [image(cache) for cache in caches]


def _stopped(name: str, stop_at: int, wanted: list[Any]) -> bool:
    """Interrupt once; True when the call had not happened. Afterwards it runs, and gives what it gives undisturbed."""
    start, call = CASES[name]
    caches = start()
    before = images(caches)
    try:
        lines_until_done(lambda: call(caches), stop_at, also=__file__)
    except KeyboardInterrupt as stop:
        where = str(stop)
    else:
        raise AssertionError(f"line {stop_at} of {name} was not reached")
    check_consistent(*caches)
    now = images(caches)
    if now == wanted:
        return False
    opened = caches[0].open_checkpoint
    rolled_back = "rollback" in name and opened is not None and now[0] == wanted[0]
    assert now == before or rolled_back, f"{name} stopped in {where}"
    call(caches)
    check_consistent(*caches)
    assert images(caches) == wanted, f"{name} after a stop in {where}"
    return True


def _run(name: str, every: int) -> None:
    start, call = CASES[name]
    caches = start()
    lines = lines_until_done(lambda: call(caches), None, also=__file__)
    wanted = images(caches)
    assert lines > 100
    undone = [_stopped(name, at, wanted) for at in range(0, lines, every)]
    assert any(undone)


@pytest.mark.parametrize("name", CASES)
def test_interrupted_at_some_lines(name: str) -> None:
    _run(name, 397)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_interrupted_at_many_lines(name: str) -> None:
    _run(name, EVERY)


FAULTS: dict[str, tuple[Any, str, type[Exception]]] = {
    "pool growth": (pool.buffers, "allocate", MemoryError),
    "block table growth": (block_table, "new_entries", MemoryError),
    "page open": (pool.PagePool, "allocate", MemoryError),
    "float16 rows": (HalfValues, "append", ValueError),
    "packing": (KiviKeys, "append", ValueError),
    "erasing": (KiviKeys, "erase", ValueError),
    "reading": (KiviKeys, "scores", ZeroDivisionError),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_every_allocation_and_codec_call_that_fails(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    """The n-th call of one function raises, for every n, in every case: as if the case had not been tried."""
    place, function, error = FAULTS[fault]
    original, calls = getattr(place, function), [0, -1]

    def failing(*args: Any, **options: Any) -> Any:
        calls[0] += 1
        if calls[0] == calls[1]:
            raise error("planted")
        return original(*args, **options)

    monkeypatch.setattr(place, function, failing)
    planted = 0
    for start, call in CASES.values():
        n = 0
        while True:
            n += 1
            calls[1] = -1
            caches = start()
            before = images(caches)
            calls[:] = [0, n]
            try:
                call(caches)
            except error as stop:
                assert str(stop) == "planted"
            if calls[0] < n:
                break
            calls[1] = -1
            planted += 1
            check_consistent(*caches)
            if (
                images(caches) != before
            ):  # cleaning up failed, and was made up for, after the call had happened
                assert fault == "erasing"
                continue
            call(caches)
            check_consistent(*caches)
    assert planted > 0


def test_a_step_that_is_left_by_an_error_has_not_happened() -> None:
    (cache,) = world()
    before = image(cache)
    q, k, v = WHOLE
    with pytest.raises(ZeroDivisionError), cache.step():
        cache.attend(0, q[:50], k[:50], v[:50])
        assert cache.length == 252
        1 / 0  # noqa: B018
    assert image(cache) == before
    with cache.step():
        with pytest.raises(ValueError, match="keys"):
            cache.append(0, k[:3] * np.float32(np.nan), v[:3])
        cache.append(0, k[:3], v[:3])
        with pytest.raises(ZeroDivisionError), cache.step():
            cache.append(0, k[3:90], v[3:90])
            1 / 0  # noqa: B018
        cache.append(1, k[:3], v[:3])
    assert cache.length == 255
    check_consistent(cache)
