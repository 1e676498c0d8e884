"""The error hierarchy and the shape that every cache is made for."""

from __future__ import annotations

import inspect
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest

from tq_core import errors
from tq_core.errors import ShapeError, TqError, ValueRangeError, check
from tq_core.shapes import ModelShape, check_head_dim


def test_every_error_is_a_tq_error() -> None:
    found = [c for _, c in inspect.getmembers(errors, inspect.isclass) if c.__module__ == "tq_core.errors"]
    assert len(found) > 8
    assert all(issubclass(c, TqError) for c in found)
    for name in ("ShapeError", "DTypeError", "ValueRangeError", "CodecError"):
        assert issubclass(getattr(errors, name), ValueError), name


def test_check_says_argument_expected_and_got() -> None:
    check(True, "x", "anything", "whatever")
    with pytest.raises(ShapeError, match=r"^x: expected shape \(3,\), got \(4,\)$"):
        check(False, "x", "shape (3,)", (4,))
    with pytest.raises(ValueRangeError, match="^y: expected 1, got 2$"):
        check(False, "y", "1", 2, ValueRangeError)


@pytest.mark.parametrize("heads, kv_heads, group", [(9, 3, 3), (32, 8, 4), (7, 1, 7), (5, 5, 1)])
def test_group_size(heads: int, kv_heads: int, group: int) -> None:
    assert ModelShape(2, heads, kv_heads, 64).group_size_heads == group


@pytest.mark.parametrize(
    "values, argument",
    [
        ((0, 4, 2, 64), "n_layers"),
        ((-1, 4, 2, 64), "n_layers"),
        ((1.0, 4, 2, 64), "n_layers"),
        ((True, 4, 2, 64), "n_layers"),
        ((1, 0, 2, 64), "n_query_heads"),
        ((1, 4, 0, 64), "n_kv_heads"),
        ((1, 4, "2", 64), "n_kv_heads"),
        ((1, 4, None, 64), "n_kv_heads"),
        ((1, 5, 2, 64), "n_query_heads"),
        ((1, 2, 4, 64), "n_query_heads"),
        ((1, 4, 2, 0), "head_dim"),
        ((1, 4, 2, 24), "head_dim"),
        ((1, 4, 2, 272), "head_dim"),
        ((1, 4, 2, 64.0), "head_dim"),
        ((1, 4, 2, -64), "head_dim"),
    ],
)
def test_bad_shapes(values: tuple[Any, ...], argument: str) -> None:
    with pytest.raises(ShapeError, match=rf"^{argument}: expected .*, got "):
        ModelShape(*values)


@pytest.mark.parametrize("head_dim", range(16, 257, 16))
def test_head_sizes(head_dim: int) -> None:
    check_head_dim(head_dim)
    check_head_dim(np.int64(head_dim))  # type: ignore[arg-type]
    with pytest.raises(ShapeError):
        check_head_dim(head_dim + 8)


@pytest.mark.parametrize("head_dim", ["64", None, 64.0, True, [64], float("nan")])
def test_head_sizes_that_are_no_integers(head_dim: Any) -> None:
    with pytest.raises(ShapeError, match="^head_dim: expected"):
        check_head_dim(head_dim)


def test_shapes_are_frozen_and_comparable() -> None:
    shape = ModelShape(2, 6, 2, 48)
    with pytest.raises(FrozenInstanceError):
        shape.head_dim = 64  # type: ignore[misc]
    assert shape == ModelShape(2, 6, 2, 48)
    assert shape != ModelShape(2, 6, 3, 48)
