"""The one-layer fixture: repeatable, shaped like real caches, and an exact reference beside it."""

from __future__ import annotations

import numpy as np
import pytest

from tq_core.errors import DTypeError, ShapeError, ValueRangeError
from tq_core.model.fixture import (
    attention_weights,
    exact_attention,
    exact_scores,
    make_fixture,
    rotation_and_rope,
)
from tq_core.shapes import ModelShape

FROZEN = ["-0x1.f56ae80000000p-1", "0x1.a596660000000p-4", "0x1.afce000000000p-1"]
ODD = ModelShape(n_layers=1, n_query_heads=9, n_kv_heads=3, head_dim=80)


def test_same_seed_same_bits() -> None:
    assert make_fixture(5, ODD, 31).digest == make_fixture(5, ODD, 31).digest
    assert make_fixture(5, ODD, 31).digest != make_fixture(6, ODD, 31).digest


def test_numbers_before_rope_are_frozen() -> None:
    fixture = make_fixture(7, ODD, 19)
    picked = [float(a[3, 1, 2]).hex() for a in (fixture.queries_pre, fixture.keys_pre, fixture.values)]
    assert picked == FROZEN, "the generator of the fixture changed: every figure made from it changes too"


@pytest.mark.parametrize("n_tokens", [2, 17, 33])
def test_shapes_and_types(n_tokens: int) -> None:
    fixture = make_fixture(3, ODD, n_tokens)
    assert fixture.queries.shape == fixture.queries_pre.shape == (n_tokens, 9, 80)
    assert fixture.keys.shape == fixture.keys_pre.shape == fixture.values.shape == (n_tokens, 3, 80)
    assert {a.dtype for a in (fixture.queries, fixture.keys, fixture.values)} == {np.dtype(np.float32)}
    assert not fixture.keys.flags.writeable


def test_habits_of_real_caches_are_there() -> None:
    fixture = make_fixture()
    means = np.abs(fixture.keys_pre[1:].mean(axis=0))
    norms = np.linalg.norm(fixture.keys, axis=-1)
    for head, channels in enumerate(fixture.outlier_channels):
        others = np.delete(means[head], channels)
        assert means[head, channels].min() > 5 * others.max(), "outlier channels stand out"
        assert norms[0, head] < 0.1 * np.median(norms[:, head]), "the sink's key is small"
    weights = attention_weights(fixture.queries, fixture.keys)[:, 100:]
    assert weights[:, :, 0].mean() > 20 / fixture.topics.size, "the sink draws attention"
    same = fixture.topics[None, :] == fixture.topics[100:, None]
    uniform = np.where(same, 1, 0)[:, 1:].mean()
    assert (weights * same)[:, :, 1:].sum(-1).mean() > 2 * uniform, "queries look for their topic"


def test_query_heads_read_their_group() -> None:
    fixture = make_fixture(4, ODD, 13)
    before = exact_attention(fixture.queries, fixture.keys, fixture.values)
    values = fixture.values.copy()
    values[:, 1] += 1.0
    moved = np.abs(exact_attention(fixture.queries, fixture.keys, values) - before).max(axis=(0, 2)) > 1e-6
    assert moved.tolist() == [False] * 3 + [True] * 3 + [False] * 3


def test_attention_equals_a_plain_loop() -> None:
    fixture = make_fixture(8, ODD, 11)
    got = exact_attention(fixture.queries, fixture.keys, fixture.values)
    for t in range(11):
        for h in range(9):
            keys, values = (a[: t + 1, h // 3].astype(np.float64) for a in (fixture.keys, fixture.values))
            scores = keys @ fixture.queries[t, h].astype(np.float64) / np.sqrt(80)
            weights = np.exp(scores - scores.max())
            np.testing.assert_allclose(got[t, h], weights @ values / weights.sum(), atol=1e-12)


def test_scores_depend_on_distance_only() -> None:
    fixture = make_fixture(9, ODD, 40)
    query, key = fixture.queries_pre[:1, :3], fixture.keys_pre[5:6]

    def score(query_at: int, key_at: int) -> np.ndarray:
        rotated = fixture.rope.rotate_half_split(query, query_at) * fixture.rope.rotate_half_split(
            key, key_at
        )
        return rotated.astype(np.float64).sum(axis=-1)

    np.testing.assert_allclose(score(9, 2), score(37, 30), atol=1e-3)
    assert np.abs(score(9, 2) - score(10, 2)).max() > 0.1


def test_rotation_commutes_with_the_product_after_rope_only() -> None:
    scores = rotation_and_rope(make_fixture(2, ODD, 29))
    seen = np.isfinite(scores.exact)
    assert np.abs(scores.after_rope[seen] - scores.exact[seen]).max() < 1e-9
    assert np.abs(scores.before_rope[seen] - scores.exact[seen]).mean() > 0.3 * scores.exact[seen].std()
    diagonal = np.eye(29, dtype=bool)[None].repeat(9, axis=0)
    np.testing.assert_allclose(scores.before_rope[diagonal], scores.exact[diagonal], atol=1e-4)


def test_bad_arguments_are_named() -> None:
    fixture = make_fixture(1, ODD, 5)
    with pytest.raises(ValueRangeError, match="n_tokens"):
        make_fixture(1, ODD, 1)
    with pytest.raises(ValueRangeError, match="n_outliers"):
        make_fixture(1, ODD, 5, n_outliers=11)
    with pytest.raises(ValueRangeError, match="seed"):
        make_fixture(-1, ODD, 5)
    with pytest.raises(ShapeError, match="multiple of 3 heads"):
        exact_scores(fixture.queries[:, :7], fixture.keys)
    with pytest.raises(DTypeError, match="keys"):
        exact_scores(fixture.queries, fixture.keys.astype(np.int32))
    with pytest.raises(ShapeError, match="values"):
        exact_attention(fixture.queries, fixture.keys, fixture.values[:, :2])
