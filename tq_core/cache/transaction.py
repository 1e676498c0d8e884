"""All or nothing: a step's marks, and the two ways in which it ends.

A step is over at one assignment, ``step.open = False``. Whatever stops the calls before it, the layers are put back;
whatever stops the cleaning up after it, references are counted anew. An interrupt that arrives while an earlier
one is being dealt with is the one case that is not covered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Protocol

from tq_core.cache.layer_pages import Step
from tq_core.cache.store import PageStore


class HasSteps(Protocol):
    """A cache: its stores, and the steps that its caller has open, outermost first."""

    steps: list[Step]

    @property
    def store_list(self) -> Sequence[PageStore]: ...


def touch(stores: Sequence[PageStore], step: Step, layer: int) -> None:
    """Take note of a layer, once per step, before it changes."""
    if layer not in step.layers:
        step.layers.add(layer)
        for store in stores:
            store.mark(layer, step)


def commit(stores: Sequence[PageStore], step: Step, tidy: bool = False) -> None:
    """End a step for good; with ``tidy`` the last pages lose the bytes of tokens that were taken back."""
    try:
        step.open = False
        for layer in step.layers:
            for store in stores:
                state = store.layers[layer]
                for mark in state.marks:
                    if mark.step is step:
                        store.settle(layer, mark)
                state.forget_closed()
                if tidy:
                    _tidy(store, layer)
    except BaseException:
        if not step.open:  # else nothing was settled, and what the caller undoes must still be there
            mend(stores, step.layers)
        raise


def undo(stores: Sequence[PageStore], step: Step) -> None:
    """Put everything back as it was when the step began; nothing happens when the step is over already."""
    if not step.open:
        return
    for layer in step.layers:
        for store in stores:
            for mark in store.layers[layer].marks:
                if mark.step is step:
                    store.layers[layer].restore(mark)
    step.open = False
    mend(stores, step.layers)


def mend(stores: Sequence[PageStore], layers: Iterable[int]) -> None:
    """Make references and last pages agree with the tables."""
    for store in stores:
        for layer in layers:
            store.layers[layer].forget_closed()
        store.pool.recount()
        for layer in layers:
            _tidy(store, layer)


def _tidy(store: PageStore, layer: int) -> None:
    table = store.layers[layer].table
    if len(table) and store.pool.references[table.page(table.end - 1)] == 1:
        store.tidy_tail(layer)


class OpenStep:
    """What ``with cache.step():`` holds. Leaving it by an exception undoes everything since it was entered."""

    def __init__(self, cache: HasSteps) -> None:
        self._cache, self._step = cache, Step()

    def __enter__(self) -> None:
        self._cache.steps.append(self._step)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                commit(self._cache.store_list, self._step)
        finally:
            self._close()

    def __del__(self) -> None:
        # An interrupt can come between the block's last line and __exit__; nobody else ends the step then.
        if self._step in self._cache.steps:
            self._close()

    def _close(self) -> None:
        undo(self._cache.store_list, self._step)
        self._cache.steps[:] = [step for step in self._cache.steps if step.open]
