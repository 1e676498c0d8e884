"""All rows of one arm at every context length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tq_core.codecs.arms import Arm
from tq_core.errors import ValueRangeError, check
from tq_core.kernels.backend import Backend, get_backend
from tq_core.model.interface import LanguageModel
from validation.bench.machine import pinned
from validation.bench.protocol.guest import guest_rows
from validation.bench.protocol.parts import part_rows
from validation.bench.protocol.passes import DECODE_STEPS, OutOfTime, Pass, run_pass
from validation.bench.protocol.rows import UNITS, Row, completed, figure, not_measured
from validation.bench.protocol.seams import CLOCKS

CONTEXTS, REPEATS, SECONDS = (512, 2048, 8192), 3, 600.0
PART_ROUNDS = 7  # of the parts, which take milliseconds
WHOLE = "whole model, python runtime"
LEAST_CONTEXT = 2 * DECODE_STEPS
Progress = Callable[[str, int, int], None]


def measure(
    model: LanguageModel,
    arm: Arm,
    context_lengths: Sequence[int] = CONTEXTS,
    backend: Backend | None = None,
    repeats: int = REPEATS,
    progress: Progress = lambda what, done, total: None,
    seconds: float = SECONDS,
    clock: str = "wall",
) -> list[Row]:
    """Rows of every measurement at every context length, one thread; a gap is a row with its reason.

    context_lengths: tokens that the cache holds at the end, decode steps included. repeats: whole passes, and rounds of
    the parts. seconds: what the passes of one context may take together; what has not ended by then is not measured. clock: "wall", or "cpu" for the process's own time, where others run on its processor.
    Raises ValueRangeError for a length below 32 or no repeats.
    """
    check(repeats >= 1, "repeats", "at least 1", repeats, ValueRangeError)
    for context in context_lengths:
        ok = context >= LEAST_CONTEXT
        check(ok, "contexts", f"lengths of at least {LEAST_CONTEXT} tokens", context, ValueRangeError)
    check(clock in CLOCKS, "clock", f"one of {', '.join(CLOCKS)}", repr(clock), ValueRangeError)
    runner, rows = backend or get_backend(), []
    for context in context_lengths:
        with pinned(1):
            found = _context(model, arm, context, runner, repeats, progress, seconds, clock)
        rows += completed(found, arm.name, context)
    return rows


def _context(
    model: LanguageModel,
    arm: Arm,
    context: int,
    backend: Backend,
    repeats: int,
    progress: Progress,
    seconds: float,
    clock: str,
) -> list[Row]:
    if context > model.context_length:
        reason = f"{model.name} holds {model.context_length} tokens at most"
        return [not_measured(what, arm.name, context, reason) for what in UNITS]
    passes: list[Pass] = []
    parts: list[Row] = []
    try:
        _warm_up(model, arm, backend)
        left = seconds
        for _ in range(repeats):
            made = run_pass(model, arm, context, backend, left, progress, clock)
            left -= (made.prefill + sum(made.decode)) / 1e9
            # The cache of the first pass is looked into, so that the others do not hold two.
            parts = parts or _looked_into(made, arm, context, repeats)
            made.cache = None
            passes.append(made)
    except OutOfTime as late:
        if not passes:
            return [not_measured(what, arm.name, context, str(late)) for what in UNITS]
    rows = [*_whole(passes, arm.name, context), _peak(passes, arm.name, context), *parts]
    return rows + guest_rows(model.shape, arm, context)


def _warm_up(model: LanguageModel, arm: Arm, backend: Backend) -> None:
    """Kernels are compiled at their first call; a short pass meets all of them."""
    held = (arm.window or 0) + arm.sinks + 2 * arm.flush_tokens
    run_pass(model, arm, min(model.context_length, held + 3 * DECODE_STEPS), backend, 3600.0, lambda *_: None)


def _whole(passes: list[Pass], arm: str, context: int) -> list[Row]:
    filled = context - DECODE_STEPS
    steady = [ns / 1e6 for p in passes for ns in p.decode[1:]]
    caching = [100 * c / ns for p in passes for c, ns in zip(p.decode_cache[1:], p.decode[1:])]
    totals = [(p.prefill + sum(p.decode)) / 1e9 for p in passes]
    clocks = [p.allocator for p in passes]
    row: Any = lambda what, samples, note="": figure(what, arm, context, samples, WHOLE, note)  # noqa: E731
    return [
        row("prefill latency", [p.prefill / 1e6 for p in passes], f"{filled} tokens in chunks of 64"),
        row("first-decode latency", [p.decode[0] / 1e6 for p in passes], "the first token after the prefill"),
        row("steady-state decode latency", steady, f"a token; {DECODE_STEPS - 1} steps of every pass"),
        row("end-to-end speed", [context / t for t in totals], f"{filled} prefilled, {DECODE_STEPS} decoded"),
        row("prefill speed", [filled / (p.prefill / 1e9) for p in passes]),
        row("decode speed", [1000 / ms for ms in steady]),
        row("cache share of prefill", [100 * p.prefill_cache / p.prefill for p in passes], "the rest: products, norms, logits"),
        row("cache share of decode", caching, "the rest: matrix products, norms, logits in numpy"),
        row(
            "allocator time", [c.ns / 1e6 for c in clocks],
            f"a whole pass: {clocks[-1].calls} pages taken or given back, the pools grew {clocks[-1].growths} times",
        ),
    ]  # fmt: skip


def _looked_into(made: Pass, arm: Arm, context: int, repeats: int) -> list[Row]:
    """Bytes of the filled cache, and the parts of a step over its pages."""
    timed = made.cache
    if timed is None:
        return []
    ledger = timed.cache.ledger()
    halves = ledger.recent + ledger.sinks
    payload, note = sum(ledger.payload.values()), f"codes and scales; {halves:,} B more in float16 rows"
    if arm.window is None:
        payload, note = halves, "float16 rows, nothing is packed"
    where = "ledger of the cache"
    largest = f"largest so far; {ledger.total:,} B in all"
    return [
        figure("packed payload bytes", arm.name, context, [payload], where, note),
        figure("scratch bytes", arm.name, context, [ledger.scratch], where, largest),
        *part_rows(timed, arm.name, context, max(repeats, PART_ROUNDS)),
    ]


def _peak(passes: list[Pass], arm: str, context: int) -> Row:
    peaks = [p.rss for p in passes if p.rss is not None]
    if len(peaks) < len(passes):
        return not_measured("peak RSS", arm, context, "this system does not tell it or does not reset it")
    note = f"weights of the model included; {passes[-1].rss_before or 0:,} B before the last pass"
    return figure("peak RSS", arm, context, peaks, "whole process", note)
