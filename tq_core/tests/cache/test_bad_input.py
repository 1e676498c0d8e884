"""Bad input is a typed error that names the argument, and the cache is as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.arms import arm_names, get_arm
from tq_core.codecs.offset import offset_of, with_key_offset
from tq_core.errors import DTypeError, ShapeError, TqError, ValueRangeError
from tq_core.kernels.backend import NumpyBackend
from tq_core.shapes import ModelShape
from tq_core.tests.cache.worlds import ARMS, SHAPE, make, tokens


def state(cache: PagedCache) -> tuple[Any, ...]:
    """Everything that a failed call must leave alone: every byte, every count, what is decoded."""
    pools = {
        name: (s.pool.buffer.tobytes(), s.pool.in_use, s.pool.growth_events)
        for name, s in cache.stores.items()
    }
    tables = {name: [t.tobytes() for t in s.tables] for name, s in cache.stores.items()}
    decoded = [x.tobytes() for layer in range(cache.shape.n_layers) for x in cache.decode(layer)]
    return pools, tables, decoded, cache.length, cache.ledger().as_dict()


def _set(x: np.ndarray, value: float) -> np.ndarray:
    x = x.copy()
    x[2, 1, 7] = value
    return x


def _too_long(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x[2, 1] = 65504 / np.sqrt(48) * 1.001
    return x


BAD_ARRAYS: dict[str, tuple[Any, type[TqError]]] = {
    "one axis less": (lambda x: x[:, :, 0], ShapeError),
    "another head": (lambda x: x[:, :-1], ShapeError),
    "another channel": (lambda x: x[:, :, :-1], ShapeError),
    "a scalar": (lambda x: np.float32(1), DTypeError),
    "zero axes": (lambda x: np.zeros((), np.float32), ShapeError),
    "None": (lambda x: None, DTypeError),
    "a list": (lambda x: x.tolist(), DTypeError),
    "float64": (lambda x: x.astype(np.float64), DTypeError),
    "float16": (lambda x: x.astype(np.float16), DTypeError),
    "other byte order": (lambda x: x.astype(">f4"), DTypeError),
    "NaN": (lambda x: _set(x, np.nan), ValueRangeError),
    "+inf": (lambda x: _set(x, np.inf), ValueRangeError),
    "-inf": (lambda x: _set(x, -np.inf), ValueRangeError),
    "beyond float16": (lambda x: _set(x, 65536.0), ValueRangeError),
    "norm beyond float16": (_too_long, ValueRangeError),
    "largest float32": (lambda x: _set(x, float(np.finfo(np.float32).max)), ValueRangeError),
}


@pytest.mark.parametrize("argument", ["queries", "keys", "values"])
@pytest.mark.parametrize("kind", BAD_ARRAYS)
def test_attend(kind: str, argument: str) -> None:
    cache = make("structured-turbo", window=3, sinks=1)
    cache.append(1, *tokens(9)[1:])
    before = state(cache)
    good = dict(zip(("queries", "keys", "values"), tokens(4)))
    spoil, error = BAD_ARRAYS[kind]
    with pytest.raises(error, match=rf"^{argument}: expected .*, got ") as caught:
        cache.attend(1, **{**good, argument: spoil(good[argument])})
    assert isinstance(caught.value, TqError)
    assert state(cache) == before


@pytest.mark.parametrize("argument", ["keys", "values"])
@pytest.mark.parametrize("kind", BAD_ARRAYS)
def test_append(kind: str, argument: str) -> None:
    cache = make("kivi-control", window=0)
    cache.append(0, *tokens(33)[1:])
    before = state(cache)
    good = dict(zip(("keys", "values"), tokens(31)[1:]))
    spoil, error = BAD_ARRAYS[kind]
    with pytest.raises(error, match=rf"^{argument}: expected .*, got "):
        cache.append(0, **{**good, argument: spoil(good[argument])})
    assert state(cache) == before


@pytest.mark.parametrize("value, shown", [(np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf")])
def test_the_message_shows_the_bad_value_and_its_place(value: float, shown: str) -> None:
    _, k, v = tokens(4)
    with pytest.raises(
        ValueRangeError, match=f"^values: expected finite values, got {shown} at token 2, head 1, channel 7$"
    ):
        make("fp16").append(0, k, _set(v, value))


def test_the_largest_norm_that_float16_holds_is_accepted() -> None:
    for name in ARMS:
        cache = make(name, window=0)
        _, k, v = tokens(32)
        k[3, 1], v[3, 1] = 0, 0
        k[3, 1, 5] = v[3, 1, 5] = -65504
        cache.append(0, k, v)
        for x in cache.decode(0):
            assert np.isfinite(x).all()
            assert x[3, 1, 5] == pytest.approx(-65504, rel=0.3)


def _edge(n: int, norm: float) -> np.ndarray:
    """n tokens, each vector ``norm`` long and equal in all 48 channels."""
    return np.full((n, 2, 48), norm / np.sqrt(48), np.float32)


@pytest.mark.parametrize("name", arm_names())
def test_what_the_window_takes_can_leave_it(name: str) -> None:
    """Rounding to float16 lengthens this vector beyond the range: refused at the door, not when it leaves the window."""
    at_the_edge = 65504 * (1 - 2.0**-16)
    rounded = np.linalg.norm(_edge(1, at_the_edge).astype(np.float16).astype(np.float64)[0, 0])
    assert at_the_edge < 65504 < rounded
    options = {} if name == "fp16" else {"window": 2}
    cache = PagedCache(ModelShape(1, 2, 2, 64), get_arm(name, **options), NumpyBackend())
    x = np.zeros((1, 2, 64), np.float32)
    x[..., :48] = _edge(1, at_the_edge)
    with pytest.raises(ValueRangeError, match="^keys: expected vectors of norm at most 65504"):
        cache.append(0, x, np.zeros_like(x))
    with pytest.raises(ValueRangeError, match="^values: expected vectors of norm at most 65504"):
        cache.append(0, np.zeros_like(x), x)
    fine = np.zeros((40, 2, 64), np.float32)
    fine[..., :48] = _edge(40, 65504 * (1 - 2.0**-10))
    cache.append(0, fine, fine)
    assert all(np.isfinite(part).all() for part in cache.decode(0)) and cache.length == 40


@pytest.mark.parametrize("kind", ["centres", "offset"])
def test_a_key_that_grows_when_an_offset_is_taken_off_is_refused_at_the_door(kind: str) -> None:
    shared = np.full((1, 2, 48), -1000.0, np.float32)
    arm, centres = get_arm("int8", window=2), shared
    if kind == "offset":
        arm, centres = with_key_offset(arm, offset_of(shared)), None
    cache = PagedCache(ModelShape(1, 2, 2, 48), arm, NumpyBackend(), key_centres=centres)
    room = 65504 - 1000 * np.sqrt(48)
    with pytest.raises(ValueRangeError, match="less 6928 that are taken off"):
        cache.append(0, _edge(1, room * 1.001), _edge(1, 1.0))
    for _ in range(3):
        cache.append(0, _edge(8, room * (1 - 2.0**-10)), _edge(8, 1.0))
    keys, _ = cache.decode(0)
    assert np.allclose(keys, _edge(24, room), rtol=0.02)


@pytest.mark.parametrize(
    "n_queries, n_keys, n_values, argument", [(3, 4, 4, "keys"), (4, 4, 3, "values"), (0, 1, 1, "keys")]
)
def test_counts_must_agree(n_queries: int, n_keys: int, n_values: int, argument: str) -> None:
    cache = make("fp16")
    q, k, v = tokens(4)
    with pytest.raises(ShapeError, match=f"^{argument}: expected shape"):
        cache.attend(0, q[:n_queries], k[:n_keys], v[:n_values])
    assert cache.length == 0


@pytest.mark.parametrize("layer", [-1, 2, 1.0, "0", None, True, np.int64(2)])
def test_layer(layer: Any) -> None:
    cache, (q, k, v) = make("structured-turbo", window=3), tokens(5)
    for call in (
        lambda: cache.attend(layer, q, k, v),
        lambda: cache.append(layer, k, v),
        lambda: cache.scores(layer, q[0]),
        lambda: cache.decode(layer),
    ):
        with pytest.raises(ValueRangeError, match=r"^layer: expected 0\.\.1, got "):
            call()
    assert [s.pool.in_use for s in cache.stores.values()] == [0, 0, 0]
    cache.append(np.int64(1), k, v)  # numpy's integers are fine


@pytest.mark.parametrize(
    "spoil",
    [
        lambda q: q[:-1],
        lambda q: q[None],
        lambda q: q.astype(np.float64),
        lambda q: q * np.nan,
        lambda q: None,
    ],
)
def test_scores(spoil: Any) -> None:
    cache, (q, k, v) = make("structured-turbo", window=3), tokens(5)
    cache.append(0, k, v)
    with pytest.raises(TqError, match="^queries: expected"):
        cache.scores(0, spoil(q[0]))


@pytest.mark.parametrize(
    "argument, value",
    [
        ("shape", (2, 6, 2, 48)),
        ("arm", "fp16"),
        ("backend", "numpy"),
        ("reserve_tokens", -1),
        ("reserve_tokens", 1.5),
    ],
)
def test_construction(argument: str, value: Any) -> None:
    good: dict[str, Any] = {
        "shape": SHAPE,
        "arm": get_arm("structured-turbo"),
        "backend": NumpyBackend(),
        "reserve_tokens": 7,
    }
    PagedCache(**good)
    with pytest.raises(TqError, match=f"^{argument}: expected .*, got "):
        PagedCache(**{**good, argument: value})


@pytest.mark.parametrize("head_dim", [8, 15, 24, 272])
def test_head_dim(head_dim: int) -> None:
    with pytest.raises(
        ShapeError, match=f"^head_dim: expected a multiple of 16 in 16..256, or 576, got {head_dim}"
    ):
        ModelShape(1, 2, 1, head_dim)
