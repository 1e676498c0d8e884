"""Units of work dealt to threads: who takes a unit never decides a bit, since units share nothing that is written.

What is dealt is fixed by the shapes alone; a free thread takes the next unit. Native kernels run with Python's
lock released, so their units run side by side. Other backends hold the lock (numpy) or are bound to the thread
that made them (wasm engines), so with them everything runs on the caller's thread.
"""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from tq_core.errors import ValueRangeError, check

THREADS_MAX = 256
VARIABLE = "TQ_THREADS"
Unit = Callable[[], None]


class OneThreadWarning(UserWarning):
    """More threads were asked for than a backend can use."""


def thread_count(threads: int | None, backend: Any) -> int:
    """How many threads to use with a backend: ``threads``, or where that is None $TQ_THREADS, or 1.

    A backend that is not ``parallel`` gets one thread, with an OneThreadWarning when more were asked for by argument.
    Raises ValueRangeError for a count outside 1..256.
    """
    asked: Any = threads
    label = "threads"
    if asked is None:
        label, text = f"${VARIABLE}", os.environ.get(VARIABLE, "1")
        asked = int(text) if text.isascii() and text.isdigit() else text
    whole = hasattr(asked, "__index__") and not isinstance(asked, bool)
    ok = whole and 1 <= int(asked) <= THREADS_MAX
    check(ok, label, f"a count of threads in 1..{THREADS_MAX}", repr(asked), ValueRangeError)
    if int(asked) > 1 and not getattr(backend, "parallel", False):
        if threads is not None:
            note = f"threads: {backend.name} runs its kernels on one thread, {int(asked)} were asked for"
            warnings.warn(note, OneThreadWarning, stacklevel=3)
        return 1
    return int(asked)


@cache
def _pool(helpers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(helpers, thread_name_prefix="tq")


if hasattr(os, "register_at_fork"):  # a forked child has the pool object but none of its threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


def run_units(units: Sequence[Unit], threads: int) -> None:
    """Run every unit once, on the caller's thread and up to ``threads`` - 1 others.

    When units fail, no further one is begun, and the error of the first of them in the order of ``units`` is raised
    once all have stopped.
    """
    helpers = min(threads, len(units)) - 1
    if helpers < 1:
        for unit in units:
            unit()
        return
    turn = itertools.count()  # next() on it is one step under Python's lock
    failed: dict[int, BaseException] = {}

    def work() -> None:
        while (index := next(turn)) < len(units) and not failed:
            try:
                units[index]()
            except BaseException as error:
                failed[index] = error

    others = [_pool(helpers).submit(work) for _ in range(helpers)]
    work()
    for other in others:
        if not other.cancel():  # one that has not begun has nothing left to do
            other.result()
    if failed:
        raise failed[min(failed)]
