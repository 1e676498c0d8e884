"""Whatever keys are stored without, window, sinks and packed tokens are on one scale of logits."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.arm import Arm
from tq_core.codecs.arms import get_arm
from tq_core.codecs.fit import fit_arm
from tq_core.codecs.offset import OffsetKeys, fit_offset, offset_of, with_key_offset
from tq_core.kernels.backend import NumpyBackend
from tq_core.math.rotary import Rotary
from tq_core.shapes import ModelShape
from tq_core.tests.cache.worlds import exact_attention

SHAPE = ModelShape(2, 4, 2, 64)
N, WINDOW, SINKS = 232, 20, 4
ROTARY = Rotary(10000.0, "half")


def bias() -> np.ndarray:
    """(n_layers, n_kv_heads, head_dim): five times as long as a key, another one per layer and head."""
    vectors = np.random.default_rng(1).standard_normal((2, 2, 64)) * (np.arange(64) % 9 == 0)
    return (5 * 8 * vectors / np.linalg.norm(vectors, axis=2, keepdims=True)).astype(np.float32)


def tokens(rotary: Rotary | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Queries (n, 4, 64), keys and values (2 layers, n, 2, 64): keys share the bias, turned by ``rotary``."""
    random = np.random.default_rng(2)
    shapes = ((N, 4, 64), (2, N, 2, 64), (2, N, 2, 64))
    q, k, v = (random.standard_normal(s).astype(np.float32) for s in shapes)
    k += bias()[:, None]
    if rotary is not None:
        k = np.stack([rotary.rotate(layer, np.arange(N)) for layer in k])
    return q, k.astype(np.float16).astype(np.float32), v


def turbo(**options: Any) -> Arm:
    return get_arm("structured-turbo", window=WINDOW, sinks=SINKS, key_bits=4, value_bits=4, **options)


STATIC, TURNED = tokens(None), tokens(ROTARY)
FITTED = {"window": WINDOW, "sinks": SINKS}
CASES = {
    "static vector": (with_key_offset(turbo(), fit_offset(STATIC[1])), STATIC),
    "turned bias": (with_key_offset(turbo(), offset_of(bias()), ROTARY), TURNED),
    "mean before RoPE": (with_key_offset(turbo(), fit_offset(TURNED[1], ROTARY), ROTARY), TURNED),
    "quarot, turned bias": (
        with_key_offset(get_arm("quarot", **FITTED), offset_of(bias()), ROTARY),
        TURNED,
    ),
    "per channel before RoPE": (fit_arm("kvquant", *TURNED[1:], ROTARY, key_bits=4, **FITTED), TURNED),
    "smoothed": (fit_arm("qserve", *TURNED[1:], ROTARY, key_bits=8, **FITTED), TURNED),
}


def filled(arm: Arm, keys: np.ndarray, values: np.ndarray) -> PagedCache:
    cache = PagedCache(SHAPE, arm, NumpyBackend())
    for layer in range(SHAPE.n_layers):
        cache.append(layer, keys[layer], values[layer])
    return cache


@cache
def case(name: str) -> PagedCache:
    """The cache of a case, filled once; tests that change it take a fork."""
    arm, (_, k, v) = CASES[name]
    return filled(arm, k, v)


def part_errors(
    cache: PagedCache, queries: np.ndarray, keys: np.ndarray, layer: int
) -> dict[str, np.ndarray]:
    """Logit errors of each part of a layer, all query heads and queries together."""
    packed = cache.stores["packed"].count(layer)
    got = np.stack([cache.scores(layer, q) for q in queries])
    shared = np.repeat(keys[layer], SHAPE.group_size_heads, axis=1)
    error = got - np.einsum("qhd,thd->qht", queries, shared) / 8
    cuts = np.split(error, [SINKS, SINKS + packed], axis=2)
    return dict(zip(("sinks", "packed", "recent"), cuts))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("layer", [0, 1])
def test_parts_are_on_one_scale(name: str, layer: int) -> None:
    _, (q, k, v) = CASES[name]
    cache = case(name).fork()
    assert cache.stores["packed"].count(layer) >= 192
    errors = part_errors(cache, q[:32], k, layer)
    for part in ("sinks", "recent"):
        assert np.abs(errors[part]).max() < 2e-3
    packed = errors["packed"]
    # Per query head: a shift common to all packed tokens would change their weight against the others.
    shift = packed.mean(axis=(0, 2))
    assert np.abs(shift).max() < 5 * packed.std() / np.sqrt(packed.shape[0]) and packed.std() < 0.15
    out, queries = cache.attend(layer, q[:1], k[layer, -1:], v[layer, -1:]), q[0]
    exact = exact_attention(SHAPE, queries, *(np.concatenate([x[layer], x[layer, -1:]]) for x in (k, v)))
    assert np.abs(out[0] - exact).max() < 0.15 * np.abs(exact).max() + 0.05


class Forgets(OffsetKeys):
    """Planted: scores of what is stored, without what it was stored without."""

    def scores(self, *arguments: Any) -> None:
        self.inner.scores(*arguments)


class CountsFromTheFirstSlot(OffsetKeys):
    """Planted: scores take slots for positions, so the offset is turned as if there were no sinks."""

    def scores(self, backend: Any, queries: Any, scale: float, pages: Any, *rest: Any) -> None:
        super().scores(backend, queries, scale, replace(pages, position=0), *rest)


@pytest.mark.parametrize("fault", [Forgets, CountsFromTheFirstSlot])
def test_a_part_on_another_scale_is_seen(fault: type[OffsetKeys]) -> None:
    right, (q, k, v) = CASES["turned bias"]
    keys = right.key_codec
    assert isinstance(keys, OffsetKeys)
    wrong = Arm("faulty", fault(keys.inner, keys.calibration, keys.rotary), right.value_codec, WINDOW, SINKS)
    assert part_errors(filled(wrong, k, v), q[:8], k, 0)["packed"].std() > 0.3


def test_an_unmoved_offset_costs_logits() -> None:
    """The reason for all of it: the same bits with the bias left in."""
    q, k, v = TURNED
    plain = part_errors(filled(turbo(), k, v), q[:32], k, 0)["packed"].std()
    known = part_errors(case("turned bias"), q[:32], k, 0)["packed"].std()
    assert known < 0.3 * plain


@pytest.mark.parametrize("name", ["turned bias", "per channel before RoPE", "mean before RoPE"])
def test_positions_survive_a_slide_and_a_truncation(name: str) -> None:
    """Pages that stay keep their keys when older ones go, and when newer ones are taken back and written again."""
    _, (_, k, v) = CASES[name]
    cache, before = case(name).fork(), case(name).decode(0)[0]
    dropped = cache.slide(60)
    assert dropped >= 128
    assert np.array_equal(cache.decode(0)[0][SINKS:], before[SINKS + dropped :])
    cache = case(name).fork()
    cache.truncate(N - 20)
    for layer in range(SHAPE.n_layers):
        cache.append(layer, k[layer, N - 20 :], v[layer, N - 20 :])
    assert np.array_equal(cache.decode(1)[0], case(name).decode(1)[0])


@pytest.mark.parametrize("name", CASES)
def test_bits_are_counted(name: str) -> None:
    """An offset costs its vectors, once; the pages are those of the inner codec."""
    arm, ledger = CASES[name][0], case(name).ledger()
    keys = arm.key_codec
    if isinstance(keys, OffsetKeys):
        assert keys.streams(64) == keys.inner.streams(64)
        assert keys.fixed_bytes(64) - keys.inner.fixed_bytes(64) == 2 * 2 * 64 * 4
    assert ledger.fixed_tables == keys.fixed_bytes(64) + arm.value_codec.fixed_bytes(64)
    assert ledger.decoded_shadow == 0
