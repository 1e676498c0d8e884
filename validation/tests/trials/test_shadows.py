"""A decoded copy of the history in every hiding place: the walk over objects finds it, or the count of allocations does."""

from __future__ import annotations

import array
import functools
import types
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.arms import get_arm
from tq_core.kernels.backend import NumpyBackend
from tq_core.shapes import ModelShape
from validation.buffers import held_bytes
from validation.museum import hoards
from validation.trials.peak_memory import grow

SMALL = ModelShape(1, 2, 1, 64)
TOKENS, CHUNK = 512, 128
LEAST = 2 * SMALL.head_dim * (TOKENS - CHUNK)
MODULE = types.ModuleType("a_module")
KEPT: list[Any] = []


class _Foreign:
    """Of no package that the walk enters."""


_Foreign.__module__ = "elsewhere"


def keep_as(cache: Any, name: str, value: Any) -> None:
    setattr(cache, f"_{name}{len(vars(cache))}", value)


def _foreign(cache: Any, rows: np.ndarray) -> None:
    other = _Foreign()
    other.rows = rows  # type: ignore[attr-defined]
    keep_as(cache, "foreign", other)


def _closure(cache: Any, rows: np.ndarray) -> None:
    keep_as(cache, "closure", lambda: rows)


def _default(cache: Any, rows: np.ndarray) -> None:
    def function(rows: np.ndarray = rows) -> None: ...

    keep_as(cache, "default", function)


# Where the rows are put, and whether a walk over the cache's objects comes by.
PLACES: dict[str, tuple[Callable[[Any, np.ndarray], None], bool]] = {
    "attribute": (lambda c, rows: keep_as(c, "rows", rows), True),
    "dict": (lambda c, rows: keep_as(c, "dict", {"rows": rows}), True),
    "array of objects": (lambda c, rows: keep_as(c, "objects", np.array([rows, None], object)), True),
    "numpy base": (lambda c, rows: keep_as(c, "view", rows.reshape(-1)[:1]), True),
    "memoryview": (lambda c, rows: keep_as(c, "memory", memoryview(rows)), True),
    "bytes": (lambda c, rows: keep_as(c, "bytes", rows.tobytes()), True),
    "array.array": (lambda c, rows: keep_as(c, "array", array.array("B", rows.tobytes())), True),
    "closure": (_closure, True),
    "default argument": (_default, True),
    "partial": (lambda c, rows: keep_as(c, "partial", functools.partial(print, rows)), True),
    "bound method": (lambda c, rows: keep_as(c, "method", rows.copy), False),
    "foreign object": (_foreign, False),
    "class attribute": (lambda c, rows: type(c).kept.append(rows), False),
    "module attribute": (lambda c, rows: setattr(MODULE, f"rows{len(vars(MODULE))}", rows), False),
    "global": (lambda c, rows: KEPT.append(rows), False),
}


@pytest.fixture
def tidy() -> Any:
    """Hiding places are emptied again."""
    before = set(vars(MODULE))
    yield
    KEPT.clear()
    hoards._OUTSIDE.clear()
    for name in set(vars(MODULE)) - before:
        delattr(MODULE, name)


@pytest.mark.parametrize("place", PLACES)
def test_a_shadow_is_found_wherever_it_hides(place: str, tidy: None) -> None:
    hide, walked = PLACES[place]

    class Shadowed(PagedCache):
        kept: ClassVar[list[np.ndarray]] = []

        def append(self, layer: int, keys: np.ndarray, values: np.ndarray) -> None:
            hide(self, keys[:, 0].astype(np.float16))
            super().append(layer, keys, values)

    made: list[Any] = []

    def make(*given: Any) -> Shadowed:
        made.append(Shadowed(*given))
        return made[-1]

    grown = grow(SMALL, get_arm("fp16"), NumpyBackend(), TOKENS, make, CHUNK)
    assert grown.hidden > 0.9 * LEAST  # the last token of a chunk comes by another way
    (cache,) = made
    ledger = cache.ledger()
    unnamed = held_bytes(cache, lambda x: x is cache.backend) - (
        ledger.total - ledger.scratch - ledger.fixed_tables
    )
    assert (unnamed > 0.9 * LEAST) == walked


def test_a_clean_cache_hides_nothing() -> None:
    grown = grow(SMALL, get_arm("fp16"), NumpyBackend(), TOKENS, chunk=CHUNK)
    assert grown.hidden < 0.5 * LEAST
    assert grown.peak >= grown.ledger_peak > 0 and grown.staging > 0
