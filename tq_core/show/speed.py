"""How fast the backends are beside each other, on the calls that a decode step really makes.

The calls are recorded from a cache and replayed on every backend in turn, several rounds, so that a
change of the machine's load hits all of them. Results are ratios within one run: they are not kept.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.arms import Arm, get_arm
from tq_core.kernels.backend import Backend, get_backend
from tq_core.shapes import ModelShape

SHAPE = ModelShape(n_layers=1, n_query_heads=9, n_kv_heads=3, head_dim=64)
Calls = dict[str, dict[str, Any]]
SLOW = 0.02


class _Recorder:
    """A backend that keeps the arguments of the last call of every kernel."""

    def __init__(self, backend: Backend) -> None:
        self.name, self._backend = backend.name, backend
        self.calls: Calls = {}

    def call(self, kernel: str, **arguments: Any) -> None:
        self.calls[kernel] = arguments
        self._backend.call(kernel, **arguments)


def decode_step(n_tokens: int, shape: ModelShape = SHAPE, arm: Arm | None = None) -> Calls:
    """Arguments of every kernel in one decode step after ``n_tokens`` tokens; the arm is structured-turbo unless given.

    ``attend_packed`` is the step itself (``attend_half`` for the fp16 arm); ``score_keys`` is its first half alone,
    for notebooks.
    """
    arm = arm or get_arm("structured-turbo", window=16)
    rng = np.random.default_rng(1)
    recorder = _Recorder(get_backend())
    cache = PagedCache(shape, arm, recorder, reserve_tokens=n_tokens + 1)

    def draw(n: int, heads: int) -> np.ndarray:
        return rng.standard_normal((n, heads, shape.head_dim)).astype(np.float32)

    cache.append(0, draw(n_tokens, shape.n_kv_heads), draw(n_tokens, shape.n_kv_heads))
    cache.scores(0, draw(1, shape.n_query_heads)[0])
    cache.attend(0, draw(1, shape.n_query_heads), draw(1, shape.n_kv_heads), draw(1, shape.n_kv_heads))
    return recorder.calls


def _copied(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value.copy() if isinstance(value, np.ndarray) else value for name, value in arguments.items()
    }


def time_calls(
    calls: Calls, kernels: Sequence[str], backends: Sequence[str], rounds: int = 5
) -> dict[str, dict[str, float]]:
    """Median seconds of one call, by kernel and backend; the argument checks in Python are part of it."""
    ready = [get_backend(name) for name in backends]
    seconds: dict[str, dict[str, float]] = {}
    for kernel in kernels:
        arguments = _copied(calls[kernel])
        samples: dict[str, list[float]] = {backend.name: [] for backend in ready}
        for _ in range(rounds + 1):
            for backend in ready:
                begun = time.perf_counter()
                backend.call(kernel, **arguments)
                samples[backend.name].append(time.perf_counter() - begun)
        seconds[kernel] = {name: statistics.median(taken[1:]) for name, taken in samples.items()}
    return seconds


def token_costs(n_tokens: int, shape: ModelShape = SHAPE, rounds: int = 9) -> dict[str, float]:
    """Nanoseconds per token and KV head on the default backend: append, scan of codes, scan of float16 rows.

    "append" encodes one token's key and value, with Python's argument checks, some ten microseconds a call.
    """
    name = get_backend().name
    coded = time_calls(
        decode_step(n_tokens, shape), ("append_keys", "append_values", "attend_packed"), [name], rounds
    )
    plain = time_calls(decode_step(n_tokens, shape, get_arm("fp16")), ("attend_half",), [name], rounds)
    append = coded["append_keys"][name] + coded["append_values"][name]
    scans = {"scan": coded["attend_packed"][name], "fp16 scan": plain["attend_half"][name]}
    per = 1e9 / shape.n_kv_heads
    return {"append": per * append, **{what: per * t / n_tokens for what, t in scans.items()}}


def speedups(seconds: Mapping[str, Mapping[str, float]], base: str) -> list[list[object]]:
    """Rows (backend, speed-up of each kernel over ``base`` as text), for a table."""
    names = next(iter(seconds.values())).keys()
    return [[name, *[f"{taken[base] / taken[name]:.2g} x" for taken in seconds.values()]] for name in names]


def interleaved(
    runs: Mapping[str, Any],
    rounds: int = 9,
    seconds: float = 0.002,
    pick: Callable[[list[float]], float] = statistics.median,
) -> dict[str, float]:
    """Seconds of one run of each, ``pick`` of its samples: one sample of everybody per round, the order turned around every round.

    A run is a function, or an object whose ``sample(count)`` returns seconds per run by a clock of its own.
    A sample repeats the run for about ``seconds``, so that the clock's grain does not matter. What takes longer than
    ``SLOW`` seconds is there for scale, not for the last percent: it sits out after three rounds.
    """
    counts: dict[str, int] = {}
    limits: dict[str, int] = {}
    samples: dict[str, list[float]] = {}
    for name, run in runs.items():
        _seconds_per_run(run, 1)  # the first call compiles or faults pages in
        once = _seconds_per_run(run, 1)
        counts[name] = max(1, round(seconds / max(once, 1e-9)))
        samples[name], limits[name] = [], min(rounds, 3) if once > SLOW else rounds
    for i in range(rounds):
        for name in list(runs)[:: -1 if i % 2 else 1]:
            if i < limits[name]:
                samples[name].append(_seconds_per_run(runs[name], counts[name]))
    return {name: pick(found) for name, found in samples.items()}


def _seconds_per_run(run: Any, count: int) -> float:
    if hasattr(run, "sample"):
        return float(run.sample(count))
    begun = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - begun) / count
