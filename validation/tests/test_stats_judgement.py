"""Non-inferiority, the sign-flip test, families and power: ordinary data and every degenerate case."""

import json

import numpy as np
import pytest

from tq_core.errors import ShapeError, ValueRangeError
from validation import stats
from validation.stats import flips, judge, mean_bound, power


@pytest.fixture
def kl():
    return np.random.default_rng(5).lognormal(np.log(0.018), 0.34, 40)


def test_the_bound_decides_not_the_mean(kl):
    good, bad = judge(kl, 0.025), judge(kl, kl.mean() * 1.01)
    assert good.passes is True and good.loss < good.bound < 0.025 and good.status == "pass"
    assert bad.passes is False and bad.loss < bad.budget < bad.bound
    assert good.bound == bad.bound == judge(kl, 0.025).bound
    assert judge(kl, 0.025, seed=1).bound != good.bound
    assert json.loads(json.dumps(good.as_dict()))["passes"] is True


def test_the_bound_follows_unit_and_offset(kl):
    bound = judge(kl, 1).bound
    assert judge(kl * 8, 1).bound == pytest.approx(bound * 8)
    assert judge(kl + 0.5, 1).bound == pytest.approx(bound + 0.5)
    assert judge(kl, 1, confidence=0.99).bound > bound


def test_a_tail_on_the_bad_side_raises_the_bound_above_students(kl):
    from scipy.stats import t

    def width(x):
        return (mean_bound.upper_mean(x) - x.mean()) / (x.std(ddof=1) / np.sqrt(len(x)))

    assert width(kl) > t.ppf(0.95, 39) + 0.05
    assert width(-kl) == pytest.approx(t.ppf(0.95, 39))


def test_a_skewed_sample_is_said(kl):
    assert judge(kl, 1).note == ""
    assert "skewness" in judge(np.append(kl, 2.0), 10).note


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_fails(kl, bad):
    kl[3] = bad
    got = judge(kl, 1e9)
    assert got.passes is False and got.bound is None and "1 of 40" in got.note and got.loss is None


@pytest.mark.parametrize("n", [0, 1, 3, 19])
def test_too_few_prompts_are_not_exercised(kl, n):
    got = judge(kl[:n], 1e9)
    assert got.passes is None and got.bound is None and got.status == "not exercised" and "20" in got.note
    assert judge(np.zeros(n), 1).passes is None


def test_nan_among_too_few_still_fails():
    assert judge([np.nan], 1).passes is False


def test_all_zero_passes_as_identical_and_says_what_could_hide():
    got = judge(np.zeros(40), 0.02)
    assert (got.passes, got.bound, got.method, got.power) == (True, 0.0, "identical", None)
    assert "0.075" in got.note and "149 prompts" in got.note and got.needed_n == 149
    strict = judge(np.zeros(40), 0.02, identical_passes=False)
    assert strict.passes is False and strict.bound == pytest.approx(0.0722, abs=1e-4)
    assert judge(np.zeros(149), 0.02, identical_passes=False).passes is True


def test_equal_losses_are_not_certain():
    assert judge(np.full(30, 0.5), 1).passes is None
    assert judge(np.full(30, 0.5), 0.5).passes is False


def test_one_flip_gets_an_exact_bound():
    x = np.zeros(40)
    x[7] = 1
    got = judge(x, 0.1)
    assert got.method == "exact bound of paired flips" and got.passes is False
    assert got.bound == pytest.approx(stats.share_at_most(1, 40), abs=1e-6)
    assert judge(np.ones(40), 0.9).bound == 1.0 and judge(-x, 0.1).passes is True


def test_few_prompts_that_differ_are_not_resampled():
    x = np.zeros(40)
    x[:2] = 0.5, -0.5
    got = judge(x, 0.1)
    assert got.bound == pytest.approx(0.5 * stats.share_at_most(1, 40)) and "2 of 40" in got.note


def test_ties_without_spread_in_most_resamples_give_no_studentised_bound():
    x = np.zeros(40)
    x[0] = 0.3
    assert mean_bound.upper_mean(x) is None
    x[:6] = 0.3
    assert mean_bound.upper_mean(x) > x.mean()


def test_arguments_of_judge():
    for budget in (0, -1, np.nan):
        with pytest.raises(ValueRangeError):
            judge(np.zeros(30), budget)
    with pytest.raises(ShapeError):
        judge(np.zeros((30, 2)), 1)
    with pytest.raises(ValueRangeError):
        judge(np.zeros(30), 1, confidence=0.4)
    with pytest.raises(ValueRangeError):
        judge(np.zeros(30), 1, least_n=1)


@pytest.mark.parametrize("n, net", [(20, 0.1), (40, 0.05), (40, 0.0635)])
def test_exact_bound_of_flips_keeps_its_level_where_the_score_does_not(n, net):
    """Every table of so many prompts, weighted by its probability: the chance to exclude the truth."""
    from scipy.stats import multinomial, norm

    b, c = np.meshgrid(np.arange(n // 2), np.arange(n // 3), indexing="ij")
    b, c = b.ravel(), c.ravel()
    scores = np.round(flips.score(b.astype(float), c.astype(float), n, net), 9)
    chance = {s: flips.chance_of_so_few(x, y, n, net) for s, x, y in zip(scores, b, c) if s < -1}
    exact = np.array([chance.get(s, 1.0) <= 0.05 for s in scores])
    by_score = norm.cdf(scores) <= 0.05
    worst = {"exact": 0.0, "score": 0.0}
    for gained in (0.0, 0.02, 0.05, 0.1):
        p = multinomial.pmf(np.stack([b, c, n - b - c], 1), n, [net + gained, gained, 1 - net - 2 * gained])
        worst["exact"] = max(worst["exact"], p[exact].sum())
        worst["score"] = max(worst["score"], p[by_score].sum())
    assert 0.01 < worst["exact"] <= 0.05 + 1e-6
    if net == 0.0635:
        assert worst["score"] > 0.07


def test_net_loss_counts_gains():
    assert stats.net_loss_at_most(3, 3, 60) < stats.net_loss_at_most(3, 0, 60)
    assert stats.net_loss_at_most(0, 0, 300) == pytest.approx(0.00994, abs=1e-4)
    assert stats.net_loss_at_most(5, 0, 5) == 1.0
    for counts in ((3, 3, 5), (-1, 0, 5), (0, 0, 0)):
        with pytest.raises(ValueRangeError):
            stats.net_loss_at_most(*counts)


def test_rule_of_three_table():
    assert stats.share_at_most(0, 40) == pytest.approx(0.072, abs=5e-4)
    assert stats.share_at_most(0, 300) < 0.01 < stats.share_at_most(0, 290)
    assert power.without_loss(0.01) == 299


def test_sign_flips():
    assert stats.permutation_p(np.zeros(30)) == 1.0
    five = stats.sign_flip_test([0.1, 0.2, 0.3, 0.4, 0.5], "greater")
    assert five.p == 0.03125 == five.least and five.exact and "0.031" in five.note
    assert stats.permutation_p([0.1, 0.2, 0.3, 0.4, 0.5], "less") == 1.0
    assert stats.permutation_p([0.1, 0.2, 0.3, 0.4, 0.5]) == 0.0625
    x = np.random.default_rng(2).normal(0.2, 1, 30)
    drawn = stats.sign_flip_test(x, "greater", seed=4)
    assert not drawn.exact and drawn == stats.sign_flip_test(x, "greater", seed=4) and 0 < drawn.p < 1
    assert stats.sign_flip_test([1.0], "greater").p == 0.5 and stats.sign_flip_test([1.0]).p == 1.0
    assert stats.sign_flip_test([0.0, 0.0, 1.0], "greater").least == 0.5
    assert np.isnan(stats.permutation_p([1.0, np.nan])) and np.isnan(stats.permutation_p([]))
    with pytest.raises(ValueRangeError):
        stats.permutation_p([1.0], "more")


def test_holm_counts_a_nan_and_never_rejects_it():
    got = stats.holm([0.01, np.nan, 0.04])
    assert got[0] == pytest.approx(0.03) and np.isnan(got[1]) and got[2] == pytest.approx(0.08)
    assert [stats.rejected(p) for p in got] == [True, False, False]
    assert stats.holm([0.01, 0.04]) == [0.02, 0.04] and stats.holm([]) == []
    assert np.isnan(stats.holm([np.nan])).all()
    # Five prompts cannot survive a family of two, whatever they say.
    assert not any(map(stats.rejected, stats.holm([0.03125, 0.03125])))
    with pytest.raises(ValueRangeError):
        stats.holm([1.2])


def test_mcnemar():
    assert stats.mcnemar_p(0, 0) == 1.0 and stats.mcnemar_p(3, 3) == 1.0
    assert stats.mcnemar_p(0, 5) == 0.0625 == stats.mcnemar_p(5, 0)
    with pytest.raises(ValueRangeError):
        stats.mcnemar_p(-1, 0)


PLANNED = {0.05: (3092, 773, 124), 0.10: (6184, 1546, 248), 0.20: (12367, 3092, 495)}


@pytest.mark.parametrize("discordance, needed", PLANNED.items())
def test_prompts_that_a_binary_budget_needs(discordance, needed):
    """The table comes from z rounded to 1.645 and 0.842, so that it may be one higher."""
    for margin, n in zip((0.01, 0.02, 0.05), needed):
        assert n - 1 <= stats.needed_binary(discordance, margin) <= n
        assert stats.power_binary(discordance, margin, n) == pytest.approx(0.8, abs=2e-3)
    assert stats.needed_binary(0.0, 0.02) == 149 and stats.power_binary(0.0, 0.02, 148) == 0.0
    assert stats.power_binary(0.0, 0.02, 149) == 1.0


def test_power_of_a_mean_is_that_of_statsmodels():
    from statsmodels.stats.power import TTestPower

    for margin, n in ((0.1, 40), (0.05, 24), (-0.02, 60)):
        expected = TTestPower().power(margin / 0.3, n, 0.05, alternative="larger")
        assert stats.power_mean(0.3, margin, n) == pytest.approx(expected)
    needed = stats.needed_mean(0.3, 0.1)
    assert stats.power_mean(0.3, 0.1, needed) >= 0.8 > stats.power_mean(0.3, 0.1, needed - 1)
    assert stats.needed_mean(0.3, 0.0) is None and stats.power_mean(1e-9, 1.0, 20) == 1.0
    with pytest.raises(ValueRangeError):
        stats.power_mean(0.0, 0.1, 20)


def test_the_power_of_a_judgement_is_that_of_a_clean_arm(kl):
    at_zero, at_clean = judge(kl, 0.02), judge(kl, 0.02, true_loss=0.0189)
    assert at_zero.power > 0.99 > at_clean.power and at_clean.needed_n > 40 > at_zero.needed_n
    assert judge(kl, 0.02, true_loss=0.03).needed_n is None
