"""The bytes that a cache really holds, found by walking its objects: what its own ledger is checked against."""

from __future__ import annotations

import array
import functools
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import numpy as np


def owner(array: np.ndarray) -> Any:
    """The array, buffer or other object that owns an array's memory."""
    base: Any = array
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    return base


def held_buffers(root: object, skip: Callable[[object], bool] = lambda _: False) -> dict[str, int]:
    """Path -> bytes of every distinct numpy buffer that can be reached from ``root``'s attributes.

    Follows __dict__, __slots__, dicts, lists, tuples and deques of this project's objects, arrays of objects, what a
    memoryview looks into, and what functions close over, are bound to or have as defaults; a buffer that is reached twice
    is counted once, at its owner's full size. ``skip`` leaves objects out. Globals of modules belong to nobody and are not
    followed: the trials count allocations wherever they are.
    """
    found: dict[str, int] = {}
    seen: set[int] = set()
    todo: list[tuple[str, object]] = [("cache", root)]
    while todo:
        path, item = todo.pop()
        if id(item) in seen or skip(item):
            continue
        seen.add(id(item))
        if isinstance(item, memoryview):
            item = item.obj
            if id(item) in seen:
                continue
            seen.add(id(item))
        if isinstance(item, np.ndarray):
            if item.dtype == object:
                todo += [(f"{path}[{i}]", value) for i, value in enumerate(item.flat)]
            held = owner(item)
            if id(held) != id(item):
                if id(held) in seen:
                    continue
                seen.add(id(held))
            found[path] = int(getattr(held, "nbytes", 0) or len(held))
        elif isinstance(item, (bytes, bytearray)):
            found[path] = len(item)
        elif isinstance(item, array.array):
            found[path] = item.itemsize * len(item)
        elif isinstance(item, (types.FunctionType, types.MethodType, functools.partial)):
            todo += [(f"{path}.{name}", value) for name, value in _kept_by(item)]
        elif isinstance(item, dict):
            todo += [(f"{path}[{key!r}]", value) for key, value in item.items()]
        elif isinstance(item, (list, tuple, set, frozenset)) or type(item).__name__ == "deque":
            members = cast(Iterable[object], item)
            todo += [(f"{path}[{i}]", value) for i, value in enumerate(members)]
        elif type(item).__module__.split(".")[0] in ("tq_core", "validation", "tests") or item is root:
            names = list(getattr(item, "__dict__", {}))
            names += [s for c in type(item).__mro__ for s in _slots(c)]
            todo += [(f"{path}.{n}", getattr(item, n)) for n in names if hasattr(item, n)]
    return found


def _kept_by(function: Any) -> Iterator[tuple[str, object]]:
    """What a function, bound method or partial keeps alive, by name."""
    if isinstance(function, functools.partial):
        yield from (("func", function.func), ("args", function.args), ("keywords", function.keywords))
    elif isinstance(function, types.MethodType):
        yield from (("__self__", function.__self__), ("__func__", function.__func__))
    else:
        cells = zip(function.__code__.co_freevars, function.__closure__ or ())
        yield from ((name, cell.cell_contents) for name, cell in cells if cell != types.CellType())
        yield from (("__defaults__", function.__defaults__), ("__kwdefaults__", function.__kwdefaults__))
        yield from (("__dict__", vars(function)),)


def _slots(cls: type) -> tuple[str, ...]:
    slots = cls.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def held_bytes(root: object, skip: Callable[[object], bool] = lambda _: False) -> int:
    """Sum of `held_buffers`."""
    return sum(held_buffers(root, skip).values())
