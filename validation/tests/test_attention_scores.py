"""Agreement of attention scores with exact ones."""

import numpy as np
import pytest

from tq_core.errors import ShapeError
from validation.attention_scores import (
    attention_divergence,
    centred_error,
    exact_scores,
    key_overlap,
    rank_agreement,
    score_rankings,
)


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def test_exact_scores_read_the_kv_head_of_the_group(rng):
    query, keys = (rng.standard_normal(s).astype(np.float32) for s in ((6, 16), (7, 2, 16)))
    got = exact_scores(query, keys)
    for h in range(6):
        for t in range(7):
            assert got[h, t] == pytest.approx(float(query[h].astype(float) @ keys[t, h // 3]) / 4, rel=1e-6)


def test_a_constant_shift_is_no_error(rng):
    row = rng.standard_normal(40)
    assert centred_error(row, row + 3.0) == pytest.approx(0.0, abs=1e-12)
    assert centred_error(row, row * 1.5) > 0.1


def test_the_error_is_weighted_by_the_attention():
    row = np.array([8.0, 0.0, 0.0, 0.0])
    quiet, loud = row + [0, 1, 0, 0], row + [1, 0, 0, 0]
    assert centred_error(row, quiet) < 0.03
    assert centred_error(np.array([1.0, 1.0, 0, 0]), np.array([2.0, 1.0, 0, 0])) > 0.3
    assert centred_error(row, loud) < 0.1  # nearly all mass moves together: a shift


def test_rank_agreement_of_equal_and_reversed_orders(rng):
    row = rng.standard_normal(50)
    assert rank_agreement(row, 2 * row + 1) == pytest.approx((1.0, 1.0))
    assert rank_agreement(row, -row) == pytest.approx((-1.0, -1.0))


def test_only_the_top_keys_are_ranked():
    row = np.arange(64, dtype=float)
    shuffled = row.copy()
    shuffled[:32] = shuffled[:32][::-1]
    assert rank_agreement(row, shuffled)[0] == pytest.approx(1.0)


def test_constant_scores_are_dropped_and_counted(rng):
    row, outputs = rng.standard_normal((2, 9)), np.ones((3, 2, 16), np.float32)
    got = score_rankings([(row, np.stack([row[0], np.zeros(9)]))], (outputs, outputs))
    assert got.undefined == 1 and len(got.tau) == 1 and len(got.same_top) == 2


def test_the_sink_can_hide_a_wrong_order():
    a, b = np.array([[9.0, 1.0, 2.0]]), np.array([[9.0, 2.0, 1.0]])
    outputs = np.ones((1, 1, 16), np.float32)
    got = score_rankings([(a, b)], (outputs, outputs))
    assert got.same_top.tolist() == [True] and got.same_top_no_sink.tolist() == [False]


def test_output_error_and_cosine(rng):
    exact = rng.standard_normal((4, 2, 16)).astype(np.float32)
    got = score_rankings([], (exact, 2 * exact))
    np.testing.assert_allclose(got.output_error, 1.0, rtol=1e-6)
    np.testing.assert_allclose(got.output_cosine, 1.0, rtol=1e-6)
    with pytest.raises(ShapeError):
        score_rankings([], (exact, exact[:2]))


def test_divergence_is_that_of_the_distributions(rng):
    row, other = rng.standard_normal((2, 30))
    p, q = (np.exp(x) / np.exp(x).sum() for x in (row, other))
    assert attention_divergence(row, other) == pytest.approx(float((p * np.log(p / q)).sum()))
    assert attention_divergence(row, row + 9) == pytest.approx(0, abs=1e-12)
    assert attention_divergence(row + 900, row) == pytest.approx(0, abs=1e-9), "large logits do not overflow"


def test_overlap_counts_the_positions_that_both_attend_most():
    row = np.arange(20.0)
    assert key_overlap(row, row) == 1 and key_overlap(row, -row) == 0
    moved = row.copy()
    moved[[19, 0]] = moved[[0, 19]]
    assert key_overlap(row, moved) == 7 / 8
    assert key_overlap(np.zeros(3), np.zeros(3)) == 1, "ties go to the lower position on both sides"
