"""Intervals: ordinary data, and every degenerate case by name."""

import numpy as np
import pytest

from tq_core.errors import ShapeError, ValueRangeError
from validation import stats
from validation.stats import MIN_DOCUMENTS, block_interval, document_interval, interval, paired


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def test_bca_holds_the_mean_and_repeats(rng):
    x = rng.gamma(2.0, 0.01, 40)
    a, b = document_interval(x, seed=3), document_interval(x, seed=3)
    assert a == b and a.low < x.mean() < a.high and a.method.startswith("BCa") and a.n == 40
    assert document_interval(x, seed=4) != a
    half_width = 1.96 * x.std(ddof=1) / np.sqrt(40)
    assert (a.high - a.low) / 2 == pytest.approx(half_width, rel=0.25)


def test_too_few_documents_give_no_interval(rng):
    got = document_interval(rng.random(MIN_DOCUMENTS - 1))
    assert got.low is None and got.high is None and str(MIN_DOCUMENTS) in got.note


@pytest.mark.parametrize("n", [0, 1])
def test_no_or_one_document(n):
    assert document_interval(np.ones(n)).low is None


def test_nan_fails_closed():
    x = np.ones(30)
    x[4] = np.nan
    got = document_interval(x)
    assert got.low is None and "1 of 30" in got.note
    assert block_interval([x]).low is None


def test_all_zero_says_identical_and_gives_the_rule_of_three():
    got = document_interval(np.zeros(30))
    assert (got.low, got.high, got.method) == (0.0, 0.0, "identical") and "0.1" in got.note


def test_equal_values_are_not_called_certain():
    got = document_interval(np.full(25, 0.5))
    assert (got.low, got.high) == (0.5, 0.5) and "not certainty" in got.note


def test_arguments_are_checked():
    with pytest.raises(ShapeError):
        document_interval(np.ones((5, 5)))
    with pytest.raises(ValueRangeError):
        document_interval(np.ones(30), level=1.0)
    with pytest.raises(ValueRangeError):
        block_interval([])
    with pytest.raises(ValueRangeError):
        block_interval([np.zeros(0)])


def test_blocks_are_labelled_as_covering_these_texts_only(rng):
    documents = [rng.random(100) for _ in range(4)]
    got = block_interval(documents)
    assert got.covers == "tokens within these 4 texts only" and "exploratory" in got.note
    mean = np.mean([d.mean() for d in documents])
    assert got.low < mean < got.high


def test_blocks_keep_dependence_that_tokens_would_lose(rng):
    runs = [np.repeat(rng.random(20), 32) for _ in range(3)]
    wide, narrow = block_interval(runs, block=32), block_interval(runs, block=1)
    assert wide.high - wide.low > 3 * (narrow.high - narrow.low)


def test_zero_blocks():
    got = block_interval([np.zeros(10), np.zeros(5)])
    assert (got.low, got.high) == (0.0, 0.0) and "15 tokens" in got.note


def test_interval_speaks_of_documents_when_there_are_enough(rng):
    few, many = [rng.random(50) for _ in range(3)], [rng.random(50) for _ in range(MIN_DOCUMENTS)]
    assert (
        interval(few).covers.startswith("tokens within") and interval(many).covers == "documents like these"
    )


def test_documents_differ_more_than_their_tokens(rng):
    documents = [rng.normal(centre, 0.1, 400) for centre in rng.normal(1.0, 0.5, MIN_DOCUMENTS)]
    over_documents, within = document_interval([d.mean() for d in documents]), block_interval(documents)
    assert over_documents.high - over_documents.low > 5 * (within.high - within.low)


def test_pairs_must_match():
    assert paired([1.0, 2.0], [0.5, 2.5]).tolist() == [0.5, -0.5]
    with pytest.raises(ShapeError):
        paired([1.0], [1.0, 2.0])


def test_a_degenerate_bootstrap_is_said_and_not_used(monkeypatch, rng):
    import scipy.stats as scipy_stats

    def degenerate(*_, **__):
        import warnings

        warnings.warn("all equal", scipy_stats.DegenerateDataWarning, stacklevel=1)

    monkeypatch.setattr(scipy_stats, "bootstrap", degenerate)
    got = document_interval(rng.random(30))
    assert got.low is None and "degenerate" in got.note


def test_exact_bound_of_a_share():
    assert stats.share_at_least(0, 40) == 0.0
    assert stats.share_at_least(40, 40) == pytest.approx(0.05 ** (1 / 40))
    assert 0.0 < stats.share_at_least(1, 8) < 0.01
    with pytest.raises(ValueRangeError):
        stats.share_at_least(3, 2)
