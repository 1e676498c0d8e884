"""Budgets held against losses: pass, fail, and not exercised where nothing could be told."""

import copy
from dataclasses import replace

import numpy as np
import pytest

from validation.comparisons import comparisons
from validation.decisions import decide, decisions, losses_of
from validation.findings import Findings, WorkloadFindings
from validation.information import information_of
from validation.prompt_metrics import PROMPT_METRICS, first_difference
from validation.study import Budget
from validation.trajectories import trajectories

pytestmark = pytest.mark.slow  # a study of the tiny model comes first
N = 24


@pytest.fixture
def many(findings) -> Findings:
    """The findings as if N prompts had been read, each a little different."""
    w = findings.workloads["episodes"]
    rng = np.random.default_rng(0)

    def spread(reading):
        scores = replace(reading.scores, kl=reading.scores.kl * rng.uniform(0.5, 1.5))
        return replace(
            reading,
            scores=scores,
            alternatives=reading.alternatives + rng.normal(0, 0.05, len(reading.alternatives)),
        )

    readings = {n: [spread(r[i % len(r)]) for i in range(N)] for n, r in w.readings.items()}
    made = WorkloadFindings("episodes", [w.prompts[i % 2] for i in range(N)], readings)
    findings.workloads["episodes"] = made
    return findings


def budget(metric, limit):
    return Budget("episodes", metric, limit, "a test")


def test_a_loss_below_the_budget_passes_and_above_it_fails(many):
    losses = losses_of(many.workloads["episodes"], many.plan.arm, PROMPT_METRICS["kl_mean"])
    assert len(losses) == N and losses.min() > 0
    good, bad = (
        decide(many, budget("kl_mean", losses.mean() * 3)),
        decide(many, budget("kl_mean", losses.mean() * 0.9)),
    )
    assert (good.status, bad.status) == ("pass", "fail")
    assert losses.mean() < good.bound < losses.max() and good.loss == pytest.approx(losses.mean())


def test_a_mean_within_the_budget_whose_bound_is_not_fails(many):
    losses = losses_of(many.workloads["episodes"], many.plan.arm, PROMPT_METRICS["kl_mean"])
    assert decide(many, budget("kl_mean", losses.mean() * 1.001)).status == "fail"


def test_too_few_prompts_are_never_a_pass_and_fail_where_the_mean_is_beyond(findings):
    assert decide(findings, budget("kl_mean", 10.0)).status == "not exercised"
    assert decide(findings, budget("kl_mean", 1e-9)).status == "fail"


def test_a_nan_is_never_a_pass(many):
    many.workloads["episodes"].readings[many.plan.arm][3].scores.kl[0] = np.nan
    assert decide(many, budget("kl_mean", 10.0)).status != "pass"


def test_a_workload_at_the_floor_tells_nothing(many):
    w = many.workloads["episodes"]
    assert information_of(w).status == "ceiling"
    reference = w.readings["reference"]
    w.readings["reference"] = [replace(r, alternatives=r.floor) for r in reference]
    told = information_of(w)
    assert told.status == "floor" and "no information" in told.evidence
    assert decide(many, budget("log_odds", 100.0)).status == "not exercised"
    assert decide(many, budget("kl_mean", 10.0)).status == "pass", "divergence needs no right answer"


def test_at_the_ceiling_shares_decide_nothing_and_log_odds_do(many):
    assert decide(many, budget("accuracy", 0.5)).status == "not exercised"
    assert decide(many, budget("log_odds", 5.0)).status == "pass"


def test_between_floor_and_ceiling_it_is_informative(many):
    w = many.workloads["episodes"]
    w.readings["reference"][0] = replace(
        w.readings["reference"][0], alternatives=np.array([-5.0, -1.0, -6.0, -7.0])
    )
    assert information_of(w).status == "informative"


def test_without_alternatives_it_is_not_told(many):
    w = many.workloads["episodes"]
    w.readings["reference"] = [replace(r, alternatives=np.zeros(0)) for r in w.readings["reference"]]
    assert information_of(w).status == "not told"
    assert decide(many, budget("flips", 0.5)).status == "not exercised"


def test_one_decision_per_budget_of_the_study(many):
    found = decisions(many)
    assert [d.budget for d in found] == list(many.plan.study.budgets)
    assert all(set(d.as_dict()) >= {"loss", "bound", "budget", "power", "status"} for d in found)


def test_comparisons_are_one_family(many):
    rows = comparisons(many)
    assert len(rows) == len(many.plan.study.comparisons)
    for row in rows:
        assert row["other"] == "kivi-control" and row["n"] == N and 0 < row["p"] <= row["p_holm"] <= 1
    clear = next(r for r in rows if r["metric"] == "kl_mean")
    assert clear["rejected"] and clear["difference"] < 0 and clear["interval"]["high"] < 0
    same = copy.deepcopy(many)
    w = same.workloads["episodes"]
    w.readings["kivi-control"] = w.readings[same.plan.arm]
    assert not any(r["rejected"] for r in comparisons(same))


def test_where_replies_part(many):
    assert [
        first_difference(a, b) for a, b in (([1, 2], [1, 2]), ([1, 2], [1, 3]), ([1], [1, 2]), ([], []))
    ] == [None, 1, 1, None]
    w = many.workloads["episodes"]
    same, other = [5, 6, 7, 8], [5, 6, 9, 9]
    w.readings["reference"] = [
        replace(r, generated=same, sampled={"1": same}) for r in w.readings["reference"]
    ]
    w.readings[many.plan.arm] = [
        replace(r, generated=other if i % 2 else same, sampled={"1": same})
        for i, r in enumerate(w.readings[many.plan.arm])
    ]
    greedy, drawn = trajectories(many)
    assert (greedy["prompts"], greedy["identical"], greedy["first_difference_median"]) == (N, N // 2, 2.0)
    assert dict(map(tuple, greedy["survival"])) == {1: 1.0, 2: 1.0, 3: 0.5, 4: 0.5}
    assert drawn["identical"] == N and drawn["first_difference_median"] is None
