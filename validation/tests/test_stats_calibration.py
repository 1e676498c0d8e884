"""The simulation: its committed result, its limits on small runs, and wrong methods that it catches."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tq_core.errors import ValueRangeError
from validation.stats import calibration, judge, shapes, simulate

RESULTS = calibration.RESULT.parent
RUNS = 200


@pytest.fixture(scope="module")
def default():
    return {(s.metric, s.name): s for s in shapes.default_shapes()}


@pytest.fixture
def kl(default):
    return default["KL", "structured-turbo 3"]


def stopped(shape, n, mean, method, runs=RUNS):
    return 1 - simulate.passing(calibration.bounds(shape, n, mean, runs, 0, method), mean)


@pytest.mark.parametrize("name", [("KL", "structured-turbo 3"), ("top-1 disagreement", "best-turbo 3")])
def test_fast_bounds_are_those_of_judge(default, name):
    samples = default[name].draw(np.random.default_rng(1), (6, 24), 0.04)
    expected = [judge(x, 1e9).bound for x in samples]
    assert simulate.judged(samples) == pytest.approx(expected, rel=1e-9)


def test_fast_bounds_of_flips_and_sparse_losses_are_those_of_judge():
    samples = np.zeros((4, 20))
    samples[1, :3], samples[2, :2], samples[3] = (1, -1, 1), (0.25, 0.5), 0.5
    got = simulate.judged(samples)
    assert got[0] == 0 and got[1] == judge(samples[1], 2).bound and got[2] == judge(samples[2], 2).bound
    assert np.isinf(got[3])


def test_bca_is_scipys(kl):
    from scipy import stats

    from validation.stats.intervals import RESAMPLES, generator

    x = kl.draw(np.random.default_rng(3), (1, 24), 0.02)
    found = stats.bootstrap(
        (x[0],), np.mean, n_resamples=RESAMPLES, method="BCa", confidence_level=0.9, batch=500, **generator(0)
    )
    assert simulate.bca(x)[0] == pytest.approx(found.confidence_interval.high, rel=2e-3)


def test_a_small_simulation_holds_and_repeats(kl):
    a = calibration.study([kl], [24], RUNS, 7, methods=False)
    one = replace(kl, budgets=(0.03,))
    again, other = (calibration.study([one], [24], 50, seed, methods=False) for seed in (7, 8))
    assert again == calibration.study([one], [24], 50, 7, methods=False) and again["rows"] != other["rows"]
    by_budget = {r["budget"]: r for r in a["rows"]}
    assert all(r["holds"] for r in a["rows"])
    assert by_budget[0.03]["decides"] and by_budget[0.05]["false_stops"] <= 0.05
    assert not by_budget[0.02]["decides"]  # a budget next to the clean loss decides nothing


def test_the_mean_without_a_bound_is_caught(kl):
    assert stopped(kl, 24, 0.03, lambda x, _: x.mean(axis=1)) < calibration.LEAST_STOPPED_AT_BUDGET


def test_the_percentile_interval_at_five_prompts_is_caught(kl):
    assert stopped(kl, 5, 0.03, simulate.percentile, 500) < calibration.LEAST_STOPPED_AT_BUDGET
    assert stopped(kl, 5, 0.03, simulate.judged, 500) >= calibration.LEAST_STOPPED_AT_BUDGET


def test_the_token_as_unit_is_caught(kl):
    """Every prompt as 16 tokens around it: their number makes a bound that ignores prompts far too low."""

    def by_token(samples, confidence):
        noise = np.random.default_rng(0).exponential(1.0, (*samples.shape, 16))
        return simulate.student((samples[..., None] * noise).reshape(len(samples), -1), confidence)

    def by_prompt(samples, confidence):
        noise = np.random.default_rng(0).exponential(1.0, (*samples.shape, 16))
        return simulate.judged((samples[..., None] * noise).mean(axis=2), confidence)

    assert stopped(kl, 40, 0.03, by_token) < calibration.LEAST_STOPPED_AT_BUDGET
    assert stopped(kl, 40, 0.03, by_prompt) >= calibration.LEAST_STOPPED_AT_BUDGET


def test_committed_result_holds_where_it_must():
    found = json.loads(calibration.RESULT.read_text())
    rows = [r for r in found["rows"] if calibration.required(r)]
    assert len(rows) > 80 and all(r["stopped_at_budget"] >= 0.9 for r in rows)
    clean = {(r["metric"], r["shape"], r["budget"]): r["false_stops"] for r in rows if r["n"] == 40}
    for case in (("KL", "structured-turbo 3", 0.03), ("top-1 disagreement", "structured-turbo 3", 0.1)):
        assert clean[case] <= 0.05
    assert clean["answer log-prob loss", "sd 0.3", 0.2] <= 0.06 and found["settings"]["runs"] >= 1000


def test_committed_result_says_why_bca_is_not_used():
    """What the docstring of `mean_bound` claims."""
    rows = [r for r in json.loads(calibration.RESULT.read_text())["methods"] if r["n"] == 20]
    kl = [r["passed_at_budget"] for r in rows if r["metric"] == "KL"]
    assert all(p["judge"] <= p["BCa"] <= p["percentile"] + 0.01 for p in kl)
    assert np.mean([p["BCa"] - p["judge"] for p in kl]) > 0.01
    noise = [r["passed_at_budget"] for r in rows if r["shape"].startswith("sd")]
    assert all(p["judge"] <= p["studentised"] <= p["BCa"] for p in noise)


def test_committed_result_is_of_these_shapes_and_in_the_readme(default):
    found = json.loads(calibration.RESULT.read_text())
    assert {(r["metric"], r["shape"], r["source"], r["clean"]) for r in found["rows"]} == {
        (s.metric, s.name, s.source, s.clean) for s in default.values()
    }
    assert calibration.table(found, [40]) in (RESULTS / "README.md").read_text()


def test_measured_rows_from_a_file(tmp_path, capsys):
    values = np.random.default_rng(0).lognormal(-4, 0.4, 40)
    file, out = tmp_path / "rows.json", tmp_path / "out.json"
    file.write_text(
        json.dumps(
            {
                "kl": {"values": values.tolist(), "budgets": [0.04]},
                "log-prob": (values - values.mean()).tolist(),
                "retrieval": {"values": [0] * 38 + [1, -1], "budgets": [0.2]},
            }
        )
    )
    arguments = ["--rows", str(file), "--prompts", "24", "--runs", "100", "--out", str(out)]
    assert calibration.main(arguments) == 0
    rows = {r["metric"]: r for r in json.loads(out.read_text())["rows"]}
    assert rows["kl"]["false_stops"] == 0 and rows["kl"]["clean"] == pytest.approx(values.mean())
    assert rows["log-prob"]["budget"] is None and rows["log-prob"]["stopped_at_budget"] > 0.85
    assert rows["retrieval"]["power"] > 0.5 and "| kl |" in capsys.readouterr().out


def test_bad_input_of_the_command(tmp_path, capsys):
    assert calibration.main(["--rows", str(tmp_path / "absent.json")]) == 2
    bad = tmp_path / "bad.json"
    for text in ("[]", "{", '{"kl": [1]}', '{"kl": {"budgets": [1]}}', '{"kl": [1, NaN, 2]}'):
        bad.write_text(text)
        assert calibration.main(["--rows", str(bad)]) == 2
    assert capsys.readouterr().err.strip()
    with pytest.raises(ValueRangeError):
        calibration.read_rows(Path(bad))
