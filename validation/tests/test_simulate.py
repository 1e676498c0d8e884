"""The simulated cache reads what the paged cache reads."""

from __future__ import annotations

import numpy as np
import pytest

from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.arms import arm_names, calibrated_arm_names, get_arm
from tq_core.codecs.fit import fit_arm
from tq_core.errors import ShapeError, ValueRangeError
from tq_core.kernels.backend import get_backend
from tq_core.math.rotary import Rotary
from tq_core.shapes import ModelShape
from validation.simulate import SimulatedCache, as_half

SHAPE = ModelShape(2, 6, 2, 64)
NUMPY = get_backend("numpy")


def qkv(n: int, seed: int = 5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Correlated keys with an offset, so that arms differ."""
    rng = np.random.default_rng(seed)
    heads = (SHAPE.n_query_heads, SHAPE.n_kv_heads, SHAPE.n_kv_heads)
    q, k, v = (rng.standard_normal((n, h, SHAPE.head_dim)).astype(np.float32) for h in heads)
    return 3 * q, k + np.float32(0.5), v


def difference(cache: object, other: object, n: int, **options: int) -> float:
    """Relative error of one cache's outputs against another's, over all layers, in pieces of uneven length."""
    worst = 0.0
    for layer in range(SHAPE.n_layers):
        data = qkv(n, layer)
        outs = []
        for c in (cache, other):
            pieces = [slice(0, 7), slice(7, n // 2), slice(n // 2, n)]
            outs.append(np.concatenate([c.attend(layer, *(x[p] for x in data), **options) for p in pieces]))  # type: ignore[attr-defined]
        worst = max(worst, float(np.linalg.norm(outs[0] - outs[1]) / np.linalg.norm(outs[1])))
    return worst


@pytest.mark.parametrize("name", arm_names())
def test_every_arm_reads_what_the_paged_cache_reads(name: str) -> None:
    """Integer queries and weights have 15 bits; codecs that round more when they read say so in a tag."""
    options = {} if name == "fp16" else {"window": 9, "sinks": 2}
    arm = get_arm(name, **options)
    pair = SimulatedCache(SHAPE, arm, NUMPY), PagedCache(SHAPE, arm, NUMPY)
    rounded = max(arm.key_codec.tags.read_tolerance, arm.value_codec.tags.read_tolerance)
    assert difference(*pair, 90) < (0.1 if rounded else 2e-4)


@pytest.mark.parametrize("name", calibrated_arm_names())
def test_calibrated_arms_know_layer_and_position(name: str) -> None:
    queries, keys, values = (np.stack([qkv(256, 10 + n)[i] for n in range(2)]) for i in range(3))
    arm = fit_arm(name, keys, values, Rotary(), queries, window=9, sinks=2)
    assert difference(SimulatedCache(SHAPE, arm, NUMPY), PagedCache(SHAPE, arm, NUMPY), 90) < 2e-4


@pytest.mark.parametrize("fault", ["window", "sinks", "layer", "bits"])
def test_another_policy_shows(fault: str) -> None:
    """Each part of the policy is read: with another window, sinks, seed or rate the outputs are others."""
    arm = get_arm("structured-turbo", window=9, sinks=2)
    other = {
        "window": get_arm("structured-turbo", window=10, sinks=2),
        "sinks": get_arm("structured-turbo", window=9, sinks=1),
        "layer": get_arm("structured-turbo", window=9, sinks=2, seed=3),
        "bits": get_arm("structured-turbo", window=9, sinks=2, key_bits=2),
    }[fault]
    assert difference(SimulatedCache(SHAPE, other, NUMPY), PagedCache(SHAPE, arm, NUMPY), 60) > 1e-3


def test_a_sliding_window_hides_the_rest() -> None:
    arm = get_arm("structured-turbo", window=9, sinks=2)
    pair = SimulatedCache(SHAPE, arm, NUMPY), PagedCache(SHAPE, arm, NUMPY)
    assert difference(*pair, 60, sliding_window=30) < 2e-4


def test_tokens_leave_in_common_groups() -> None:
    """With groups of 32 the arm keeps up to 31 tokens more: what is read then are their float16 rows."""
    arm = get_arm("structured-turbo", window=9, sinks=2)
    cache = SimulatedCache(SHAPE, arm, NUMPY, flush_tokens=32)
    assert cache.packed(np.array([10, 42, 43, 74, 75])).tolist() == [0, 0, 32, 32, 64]
    q, k, v = qkv(42)
    exact = PagedCache(SHAPE, get_arm("fp16"), NUMPY)
    assert np.allclose(cache.attend(0, q, k, v), exact.attend(0, q, k, v), atol=1e-5)
    assert np.array_equal(as_half(k), k.astype(np.float16).astype(np.float32))


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueRangeError, match="flush_tokens"):
        SimulatedCache(SHAPE, get_arm("kivi-control"), NUMPY, flush_tokens=48)
    cache = SimulatedCache(SHAPE, get_arm("structured-turbo"), NUMPY)
    q, k, v = qkv(3)
    with pytest.raises(ShapeError, match="keys"):
        cache.attend(0, q, k[:2], v)
    assert cache.length == 0
