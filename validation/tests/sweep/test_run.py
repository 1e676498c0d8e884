"""A sweep's readings: paid once, kept at once, the same whatever the order, and its files."""

import csv
import errno
import io
import json
import random
import xml.etree.ElementTree as ET

import jsonschema
import pytest

from tq_core.errors import ModelUnavailable
from validation.cli import main
from validation.compare.store import Store
from validation.engine import readings
from validation.sweep import report, run
from validation.sweep.figures import figures
from validation.sweep.file import SweepError, parse_sweep
from validation.sweep.result import make_result, result_digest
from validation.sweep.run import run_sweep
from validation.sweep.text import as_csv, as_text
from validation.tests.sweep.conftest import MINI

FACTS = {"command": "tq sweep"}


@pytest.fixture(scope="session")
def result(swept):
    return make_result(swept, FACTS)


class _Given:
    """Gives readings that are there already, in an order of its own."""

    def __init__(self, swept):
        (only,) = swept.models
        self.answers = [
            (index, label, found[index].as_row())
            for use in only.readings
            for label, found in only.readings[use].items()
            for index in range(len(found))
        ]
        random.Random(3).shuffle(self.answers)

    def run(self, model, jobs):
        return iter(self.answers)


def test_points_that_share_readings_pay_once(swept, result):
    # Reference, structured-turbo 2 and 3.5, kivi 2, and fp16 as an arm: the second way to say turbo 2 is not read again.
    assert (swept.computed, swept.reused) == (3 * 5, 0)
    assert result["models"][0]["shared"] == [["structured-turbo 2, window 16"] * 2]
    twice = [r for r in result["rows"] if r["label"] == "structured-turbo 2, window 16"]
    assert len(twice) == 2 and twice[0]["metrics"] == twice[1]["metrics"]
    losses = {r["label"]: r["metrics"][0]["loss"] for r in result["rows"]}
    assert (
        losses["structured-turbo 2, window 16"]
        > losses["structured-turbo 3.5, window 16"]
        > losses["fp16"]
        >= 0
    )


def test_a_second_run_computes_nothing_and_a_third_only_what_is_new(mini, store, swept, result, monkeypatch):
    again = run_sweep(mini, store=store)
    assert (again.computed, again.reused) == (0, 15)
    assert make_result(again, FACTS)["result_digest"] == result["result_digest"]
    monkeypatch.setattr(
        "validation.engine.cell._reference", lambda *a: pytest.fail("the reference was read again")
    )
    more = parse_sweep({**MINI, "arms": [*MINI["arms"], "q8_0"]})
    assert run_sweep(more, store=store).computed == 3


def test_the_order_of_readings_is_of_no_account(mini, tmp_path, swept, result):
    other = run_sweep(mini, store=Store(tmp_path), executor=_Given(swept))
    assert other.computed == 15
    assert make_result(other, FACTS)["result_digest"] == result["result_digest"]


def test_the_digest_is_of_the_findings(result):
    assert result["result_digest"] == result_digest({**result, "run": {"command": "another"}})
    changed = json.loads(json.dumps(result))
    changed["rows"][0]["metrics"][0]["loss"] *= 1 + 2**-52
    assert result_digest(changed) != result["result_digest"]


def test_a_full_disk_is_said_and_the_results_are_there(mini, swept, result, monkeypatch, tmp_path, capsys):
    class Full(Store):
        def keep_row(self, key, row):
            raise OSError(errno.ENOSPC, "No space left on device")

    full = run_sweep(mini, store=Full(tmp_path), executor=_Given(swept))
    made = make_result(full, FACTS)
    assert "No space left" in made["unkept"] and made["status"] == "incomplete"
    assert made["result_digest"] == result["result_digest"] and "NOT KEPT" in as_text(made)

    monkeypatch.setattr(readings, "default_store", lambda: Full(tmp_path))
    monkeypatch.setattr("validation.sweep.command.executor_for", lambda *a: _Given(swept))
    path = tmp_path / "mini.yaml"
    path.write_text(json.dumps(MINI))  # JSON is YAML
    assert main(["sweep", str(path), "--quiet", "--json"]) == 3
    said = capsys.readouterr()
    assert json.loads(said.out)["result_digest"] == result["result_digest"] and "No space left" in said.err


def test_a_model_that_is_not_here_is_listed_and_the_run_incomplete(store, swept, monkeypatch):
    real = run.load_model

    def load(name):
        if name == "gemma":
            raise ModelUnavailable("model gemma: expected a file, got none")
        return real(name)

    monkeypatch.setattr(run, "load_model", load)
    made = make_result(run_sweep(parse_sweep({**MINI, "models": ["gemma", "tiny"]}), store=store), FACTS)
    assert made["status"] == "incomplete" and len(made["rows"]) == 5
    missing = [r for r in made["not_measured"] if r["model"] == "gemma"]
    assert len(missing) == 5 and not any(r["available"] for r in missing)
    jsonschema_ok = {**made, "run": made["run"]}
    report.validate(jsonschema_ok)


def test_a_workload_that_does_not_fit_is_listed(store, swept):
    uses = [*MINI["workloads"], {"name": "episodes", "prompts": 1, "tokens": 100_000}]
    made = make_result(run_sweep(parse_sweep({**MINI, "workloads": uses}), store=store), FACTS)
    reasons = {r["reason"] for r in made["not_measured"] if r["workload"]}
    assert made["status"] == "pass" and len(made["rows"]) == 5 and "tokens" in " ".join(reasons)
    only = parse_sweep({**MINI, "workloads": uses[1:]})
    with pytest.raises(SweepError, match="at least one point"):
        make_result(run_sweep(only, store=store), FACTS)


def test_files(result, tmp_path):
    paths = report.write(result, tmp_path / "out")
    assert set(paths) == {"csv", "html", "json"}
    data = json.loads(paths["json"].read_text())
    report.validate(data)
    assert data["result_digest"] == result_digest(data)
    rows = list(csv.DictReader(io.StringIO(paths["csv"].read_text())))
    assert len(rows) == 5 * 2 + 1 and rows[0]["key_bits"] == "2" and "not measured" in rows[-1]["note"]
    assert float(rows[0]["loss"]) == result["rows"][0]["metrics"][0]["loss"]
    page = paths["html"].read_text()
    assert page.count("<img alt=") == 2 and "http" not in page.replace("http://www.w3.org", "")
    assert "kivi-control 3.5" in page and 'lang="en"' in page


def test_the_schema_refuses_what_is_wrong(result):
    for spoil in (
        lambda d: d.update(status="fine"),
        lambda d: d["rows"][0].pop("bits_all_in"),
        lambda d: d["rows"][0]["metrics"][0].update(n=-1),
        lambda d: d.update(result_digest="x"),
        lambda d: d.update(extra=1),
    ):
        data = json.loads(json.dumps(result))
        spoil(data)
        with pytest.raises(jsonschema.ValidationError):
            report.validate(data)


def test_figures_can_be_read_without_colour(result):
    drawn = figures(result)
    assert [f.name for f in drawn] == [
        "sweep-tiny-episodes-80-kl_mean".replace("_", "-"),
        "sweep-tiny-episodes-80-flips",
    ]
    for figure in drawn:
        ET.fromstring(figure.svg)
        assert len(figure.rows) == 5 and "structured-turbo, window 16" in figure.alt
    assert figures(result)[0].svg == drawn[0].svg
    assert as_csv(result).count("\n") == 12


def test_bad_input_and_list(tmp_path, capsys):
    assert main(["sweep", "no-such-file.yaml"]) == 2
    assert main(["sweep", "tiny", "--workers", "2", "--scheduler", "tcp://127.0.0.1:1"]) == 2
    assert "beside a scheduler" in capsys.readouterr().err
    assert main(["sweep", "tiny", "--prompts", "0"]) == 2
    path = tmp_path / "mini.yaml"
    path.write_text(json.dumps(MINI))
    assert main(["sweep", str(path), "--list", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out[0:].split("\n", 0)[0])["points"]) == 5
