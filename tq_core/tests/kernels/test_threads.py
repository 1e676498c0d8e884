"""Threads: every unit once, errors come out, backends that cannot say so; and no bit depends on them."""

from __future__ import annotations

import threading
import time
import warnings

import numpy as np
import pytest

from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs import turbo_step
from tq_core.codecs.base import Pages
from tq_core.codecs.turboquant import TurboKeys, TurboValues
from tq_core.errors import ValueRangeError
from tq_core.kernels.backend import Backend, NumpyBackend, available_backends, get_backend
from tq_core.kernels.layout import PAGE_TOKENS, PageLayout
from tq_core.kernels.threads import OneThreadWarning, run_units, thread_count
from tq_core.shapes import ModelShape
from tq_core.tests.cache.worlds import arm, tokens

pytestmark = pytest.mark.kernels


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("n", [0, 1, 2, 37])
def test_every_unit_runs_once(n: int, threads: int) -> None:
    runs: list[int] = []
    run_units([lambda i=i: runs.append(i) for i in range(n)], threads)
    assert sorted(runs) == list(range(n))


def test_units_run_side_by_side() -> None:
    meet = threading.Barrier(3, timeout=20)
    run_units([meet.wait] * 3, 3)  # a barrier of three opens only when three threads are in it
    assert meet.n_waiting == 0 and not meet.broken


def test_a_failing_unit_is_raised_and_the_pool_goes_on() -> None:
    def fail(word: str) -> None:
        time.sleep(0.01)
        raise ValueError(word)

    later: list[int] = []
    units = [lambda: fail("first"), lambda: fail("second"), *[lambda: later.append(1)] * 50]
    with pytest.raises(ValueError, match="first"):
        run_units(units, 2)
    assert len(later) < 50
    run_units([lambda: later.append(2)] * 4, 2)
    assert later.count(2) == 4


@pytest.mark.parametrize("bad", [0, -1, 257, 1.5, "2", True])
def test_counts_outside_the_range_are_refused(bad: object) -> None:
    with pytest.raises(ValueRangeError, match="threads"):
        thread_count(bad, NumpyBackend())  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", ["0", "many", "-3", ""])
def test_the_variable_is_checked(bad: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TQ_THREADS", bad)
    with pytest.raises(ValueRangeError, match="TQ_THREADS"):
        thread_count(None, NumpyBackend())
    assert thread_count(1, NumpyBackend()) == 1


def _one_threaded() -> list[Backend]:
    return [get_backend(n) for n in available_backends() if not n.startswith("native-")]


@pytest.mark.slow
def test_backends_that_use_one_thread_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {b.name.split("-")[0] for b in _one_threaded()} == {"numpy", "wasm"}
    for backend in _one_threaded():
        with pytest.warns(OneThreadWarning, match=f"{backend.name} runs .* on one thread, 2 were asked for"):
            assert thread_count(2, backend) == 1
    monkeypatch.setenv("TQ_THREADS", "2")  # a wish for wherever it can be granted
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert thread_count(None, NumpyBackend()) == 1
    assert thread_count(None, get_backend("native-scalar")) == 2
    assert PagedCache(ModelShape(1, 2, 1, 32), arm("fp16"), get_backend("native-scalar")).threads == 2


def filled(
    backend: Backend, kv_heads: int, head_dim: int, n_tokens: int
) -> tuple[Pages, TurboKeys, TurboValues]:
    """A history of n_tokens, its last page partly used, its pages in a shuffled order."""
    keys, values, rng = TurboKeys(3.5), TurboValues(3.0), np.random.default_rng(n_tokens)
    layout = PageLayout(kv_heads, PAGE_TOKENS, keys.streams(head_dim) + values.streams(head_dim))
    n_pages = -(-n_tokens // PAGE_TOKENS)
    pages = Pages(
        np.zeros(n_pages * layout.page_bytes, np.uint8), rng.permutation(n_pages).astype(np.uint32), layout
    )
    for codec in (keys, values):
        x = rng.standard_normal((n_tokens, kv_heads, head_dim)).astype(np.float32)
        codec.append(backend, pages, 0, x)
    return pages, keys, values


def best_native() -> str:
    return [n for n in available_backends() if n.startswith("native-")][-1]


@pytest.mark.slow
@pytest.mark.parametrize("kv_heads, group", [(1, 5), (2, 4), (3, 7)])
@pytest.mark.parametrize("n_tokens", [300, 4096, 9000])
def test_the_fused_step_has_the_same_bits_on_any_threads(n_tokens: int, kv_heads: int, group: int) -> None:
    """One chunk (dealt head by head), exactly one chunk, and three chunks, with odd numbers of query heads."""
    backend = get_backend(best_native())
    pages, keys, values = filled(backend, kv_heads, 64, n_tokens)
    rng = np.random.default_rng(3)
    queries = rng.standard_normal((kv_heads * group, 64)).astype(np.float32)
    first = turbo_step.attend(backend, keys, values, queries, 0.125, pages, n_tokens, 1)
    assert len(first[0]) == -(-n_tokens // 4096)
    for threads in (2, 3, 7):
        for _ in range(5):
            again = turbo_step.attend(backend, keys, values, queries, 0.125, pages, n_tokens, threads)
            assert all(a.tobytes() == b.tobytes() for a, b in zip(first, again)), threads
    if n_tokens == 300:
        other = turbo_step.attend(NumpyBackend(), keys, values, queries, 0.125, pages, n_tokens)
        assert all(a.tobytes() == b.tobytes() for a, b in zip(first, other))


@pytest.mark.parametrize(
    "name", [pytest.param("structured-turbo", marks=pytest.mark.slow), "kivi-control", "fp16"]
)
def test_a_cache_gives_the_same_bits_on_any_threads(name: str) -> None:
    shape, backend = ModelShape(2, 9, 3, 48), get_backend(best_native())
    q, k, v = tokens(180, shape)
    caches = [PagedCache(shape, arm(name, window=20, sinks=2), backend, threads=t) for t in (1, 2, 3)]
    outs = [c.attend(1, q, k, v).tobytes() for c in caches]
    assert outs[0] == outs[1] == outs[2]
    assert caches[0].ledger().as_dict() == caches[2].ledger().as_dict()


def test_kernels_run_with_the_lock_released() -> None:
    """While one thread is in a long kernel call, another runs Python; with the lock held it would have to wait."""
    backend = get_backend("native-scalar")
    x, w = (np.ones((n, 512), np.float32) for n in (400, 2000))
    backend.call("linear", x=x[:1], w=w[:1], y=np.empty((1, 1), np.float32))  # compiled and marked
    ticks: list[float] = []
    done = threading.Event()

    def tick() -> None:
        while not done.wait(0.001):
            ticks.append(time.perf_counter())

    ticker = threading.Thread(target=tick)
    ticker.start()
    begun = time.perf_counter()
    backend.call("linear", x=x, w=w, y=np.empty((400, 2000), np.float32))
    ended = time.perf_counter()
    done.set()
    ticker.join()
    inside = [t for t in ticks if begun + 0.01 < t < ended - 0.01]
    assert ended - begun > 0.05 and len(inside) > 5, (ended - begun, len(inside))


def test_first_calls_from_many_threads_at_once() -> None:
    """A kernel is compiled at its first call; threads that arrive together wait for it."""
    from tq_core.kernels.native import NativeBackend

    backend = NativeBackend("scalar")
    scores = np.random.default_rng(0).standard_normal((40, 4, 33)).astype(np.float32)
    want = scores.copy()
    for part in want:
        NumpyBackend().call("softmax", scores=part, n_tokens=33)
    run_units(
        [lambda p=p: backend.call("softmax", scores=p, n_tokens=33) for p in scores],
        8,
    )
    assert scores.tobytes() == want.tobytes()
