"""Metrics on values that were worked out by hand, and against scipy."""

import numpy as np
import pytest
from scipy import special

from tq_core.errors import ShapeError, ValueRangeError
from validation.logit_scores import Reference, TokenScores, log_softmax, top_mask
from validation.metrics import METRICS, answers_right, metrics_of


def logits_of(*rows):
    return np.log(np.array(rows, np.float64)).astype(np.float32)


def scores(p, q, targets):
    return Reference(logits_of(*p), np.array(targets)).compare(logits_of(*q))


def test_kl_of_two_words_is_the_closed_form():
    s = scores([[0.5, 0.5]], [[0.9, 0.1]], [0])
    assert s.kl[0] == pytest.approx(0.5 * np.log(0.5 / 0.9) + 0.5 * np.log(0.5 / 0.1), rel=1e-6)


def test_kl_takes_the_reference_as_p():
    forward, backward = scores([[0.98, 0.02]], [[0.5, 0.5]], [0]), scores([[0.5, 0.5]], [[0.98, 0.02]], [0])
    assert forward.kl[0] < 0.7 < backward.kl[0]


def test_kl_agrees_with_scipy_over_a_large_vocabulary():
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((3, 5000)).astype(np.float32) * 6 for _ in range(2))
    s = Reference(a, np.zeros(3, int)).compare(b)
    p, q = (special.softmax(x.astype(np.float64), axis=1) for x in (a, b))
    np.testing.assert_allclose(s.kl, special.rel_entr(p, q).sum(axis=1), rtol=1e-10)


def test_a_shift_of_all_logits_changes_nothing_measurable_and_huge_logits_stay_finite():
    x = np.array([[1e4, 1e4 - 1, -1e4]], np.float32)
    assert np.isfinite(log_softmax(x)[0, :2]).all()
    s = Reference(x, np.array([0])).compare(x + 64)
    assert abs(s.kl[0]) < 1e-12 and s.max_difference[0] == 64


def test_equal_logits_give_exact_zeros():
    x = np.random.default_rng(2).standard_normal((4, 300)).astype(np.float32)
    s = Reference(x, np.arange(4)).compare(x.copy())
    assert not s.kl.any() and s.same_top.all() and (s.overlap == 1).all() and not s.max_difference.any()
    assert (
        METRICS["ppl_ratio"].of(s) == 1.0
        and METRICS["rms_delta_p"].of(s) == 0.0
        and METRICS["flips"].of(s) == 0.0
    )


def test_top_mask_breaks_ties_by_token_id():
    x = np.array([[1.0, 3.0, 3.0, 3.0, 0.0, 3.0], [6, 5, 4, 3, 2, 1]], np.float32)
    assert np.flatnonzero(top_mask(x, 2)[0]).tolist() == [1, 2]
    assert top_mask(x, 3)[1].tolist() == [True, True, True, False, False, False]
    assert top_mask(x, 50).all(axis=1).all()


def test_overlap_counts_common_tokens():
    p = np.arange(10, 0, -1, dtype=np.float32)[None]
    q = p.copy()
    q[0, 4], q[0, 9] = q[0, 9], q[0, 4]
    assert Reference(p, np.array([0])).compare(q).overlap[0] == pytest.approx(0.8)


def test_values_of_the_metrics_by_hand():
    s = scores([[0.6, 0.3, 0.1]] * 2, [[0.6, 0.3, 0.1], [0.2, 0.7, 0.1]], [0, 0])
    assert METRICS["top1_agreement"].of(s) == 0.5
    assert METRICS["top1_agreement_clear"].of(s) == 0.5
    assert METRICS["flips"].of(s) == 0.5
    assert METRICS["rms_delta_p"].of(s) == pytest.approx(np.sqrt((0.4**2) / 2), rel=1e-6)
    assert METRICS["ppl_ratio"].of(s) == pytest.approx(np.exp(np.log(0.6 / 0.2) / 2), rel=1e-6)
    assert METRICS["kl_max"].of(s) == pytest.approx(0.6 * np.log(3) + 0.3 * np.log(3 / 7), rel=1e-5)


def test_a_better_perplexity_can_hide_a_worse_model():
    s = scores([[0.5, 0.4, 0.1]] * 2, [[0.2, 0.7, 0.1], [0.6, 0.1, 0.3]], [1, 0])
    assert (
        METRICS["ppl_ratio"].of(s) < 1
        and METRICS["kl_mean"].of(s) > 0.1
        and METRICS["top1_agreement"].of(s) == 0.5
    )


def test_agreement_where_no_token_is_clear_is_undefined():
    s = scores([[0.34, 0.33, 0.33]], [[0.33, 0.34, 0.33]], [0])
    assert np.isnan(METRICS["top1_agreement_clear"].of(s))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_logits_that_are_not_finite_are_refused(bad):
    x = np.zeros((1, 4), np.float32)
    y = x.copy()
    y[0, 2] = bad
    with pytest.raises(ValueRangeError, match=r"logits: expected finite"):
        Reference(x, np.array([0])).compare(y)


def test_shapes_must_match():
    x = np.zeros((2, 4), np.float32)
    with pytest.raises(ShapeError, match="reference logits"):
        Reference(x, np.array([0]))
    with pytest.raises(ShapeError, match=r"logits: expected shape \(2, 4\)"):
        Reference(x, np.array([0, 1])).compare(x[:, :3])


def test_joining_and_selecting_keep_the_rows():
    s = scores([[0.6, 0.4]] * 3, [[0.6, 0.4], [0.4, 0.6], [0.6, 0.4]], [0, 0, 1])
    joined = TokenScores.join([s, s])
    assert len(joined) == 6 and joined.select(np.array([1, 4])).same_top.tolist() == [False, False]
    with pytest.raises(ValueRangeError):
        TokenScores.join([])


def test_every_metric_tells_formula_unit_and_direction():
    for metric in METRICS.values():
        told = metric.describe()
        assert all(told[k] for k in ("name", "title", "formula", "unit")) and isinstance(
            told["higher_is_better"], bool
        )
    assert {m.name for m in METRICS.values() if m.decides} == {"kl_mean", "top1_agreement"}
    assert len(metrics_of("attention")) >= 6


def test_an_answer_counts_only_when_all_its_tokens_are_right():
    right = np.array([True, True, True, False])
    assert answers_right(right, [np.array([0, 1]), np.array([2, 3])]).tolist() == [True, False]
    with pytest.raises(ValueRangeError):
        answers_right(right, [])
