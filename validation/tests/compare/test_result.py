"""Rows, frontier, files and the command: what is printed is what was measured."""

import json
import re

import jsonschema
import numpy as np
import pytest

from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.arms import arm_names, calibrated_arm_names, get_arm
from tq_core.errors import ValueRangeError
from tq_core.paths import ROOT
from tq_core.shapes import ModelShape
from validation import cli
from validation.compare.bits import bits_all_in, bits_at, side_bits, tokens_in_half
from validation.compare.claims import read_claims
from validation.compare.figures import pareto, styles
from validation.compare.report import write
from validation.compare.result import mark_frontier, paired_kl, row_of, table_rows

SCHEMA = json.loads((ROOT / "validation" / "schema" / "compare-v1.schema.json").read_text())


def test_the_result_fits_its_schema(result) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(result, SCHEMA, jsonschema.Draft202012Validator)
    broken = json.loads(json.dumps(result))
    del broken["rows"][0]["kl_mean"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, SCHEMA, jsonschema.Draft202012Validator)


@pytest.mark.parametrize(
    "path",
    sorted(
        p for p in (ROOT / "validation" / "compare" / "results").glob("*.json") if "ablation" not in p.name
    ),
    ids=lambda p: p.stem,
)
def test_committed_results_are_complete(path) -> None:
    """What notebook 09 loads: the schema, arms of the registry, claims as they are stated today."""
    kept = json.loads(path.read_text())
    jsonschema.validate(kept, SCHEMA, jsonschema.Draft202012Validator)
    assert {r["codec"] for r in kept["rows"]} <= {*arm_names(), *calibrated_arm_names()}
    assert [(c["subject"], c["quantity"]) for c in kept["claims"]] == [
        (c.subject, c.quantity) for c in read_claims()
    ]
    run = [c for c in kept["claims"] if c["measured"] is not None]
    assert len(run) >= (43 if path.stem == "smollm2" else 30), (
        "claims about arms that were not run are left open"
    )


def test_rows_hold_what_the_runs_gave(comparison, result) -> None:
    for entry, rows in comparison.rows.items():
        row = row_of(result, entry.label)
        assert row["kl_mean"] == pytest.approx(np.mean([k for r in rows for k in r["kl"]]))
        assert row["top1_agreement"] == pytest.approx(np.mean([r["top1"] for r in rows]))
        low, high = row["kl_ci95"]
        assert low <= row["kl_mean"] <= high
        assert "within these 2 texts" in row["kl_ci95_covers"], "two documents say nothing of others"


def test_more_bits_diverge_less(result) -> None:
    kl = {r["label"]: r["kl_mean"] for r in result["rows"]}
    assert kl["fp16"] < 1e-5 < kl["structured-turbo 3"] < kl["structured-turbo 2"]
    assert kl["turboquant-prod 2"] > kl["structured-turbo 2"]


def test_the_frontier_is_what_nothing_beats() -> None:
    rows = [
        {"bits_all_in": b, "kl_mean": k}
        for b, k in ((2.0, 0.3), (2.0, 0.2), (3.0, 0.25), (3.5, 0.1), (4.0, 0.1))
    ]
    mark_frontier(rows)
    assert [r["pareto"] for r in rows] == [False, True, False, True, False]


@pytest.mark.parametrize(
    ("name", "options"), [("structured-turbo", {}), ("kivi-control", {"key_bits": 2}), ("qjl", {})]
)
def test_bits_are_those_of_the_cache(name: str, options: dict[str, int]) -> None:
    shape = ModelShape(1, 4, 2, 64)
    arm = get_arm(name, window=16, sinks=4, **options)
    ledger = PagedCache(shape, arm).ledger()
    assert bits_all_in(shape, arm) == pytest.approx(ledger.bits_per_channel_all_in)
    assert sum(side_bits(shape, arm)) / 2 <= bits_all_in(shape, arm)


def test_the_tail_is_counted() -> None:
    shape, arm = ModelShape(1, 4, 2, 64), get_arm("kivi-control", window=16, sinks=4)
    full = bits_all_in(shape, arm)
    assert tokens_in_half(arm, 32, 512) == 512 - 480
    assert bits_at(shape, arm, 32, 512) == pytest.approx((480 * full + 32 * 16) / 512)
    assert bits_at(shape, arm, 32, 51) == 16 > bits_at(shape, arm, 32, 52) > full
    assert bits_at(shape, arm, 128, 512) > bits_at(shape, arm, 32, 512), "a larger open group costs more"
    assert bits_at(shape, get_arm("fp16"), 32, 100) == 16


def test_figure_and_files(result, tmp_path) -> None:
    paths = write(result, tmp_path / "out")
    again = json.loads(paths["compare.json"].read_text())
    jsonschema.validate(again, SCHEMA, jsonschema.Draft202012Validator)
    page, text = paths["compare.html"].read_text(), paths["compare.txt"].read_text()
    assert "http" not in re.sub(r'src="data:[^"]*"', "", page) and 'lang="en"' in page and "alt=" in page
    for row in result["rows"]:
        assert row["label"] in page and row["label"] in text
    figure = pareto(result)
    assert figure.svg == pareto(result).svg, "the same bytes for the same rows"
    assert len(figure.rows) == len(result["rows"])
    assert all(r["label"] in figure.alt for r in result["rows"] if r["pareto"] and r["bits_all_in"] < 5)


def test_arms_differ_without_colour() -> None:
    looks = [(s["marker"], s["linestyle"], s["markerfacecolor"] == "white") for s in styles(40)]
    assert len(set(looks)) == 40


def test_pairs_need_documents(result) -> None:
    found = paired_kl(result, "structured-turbo 2", "structured-turbo 3")
    assert found.low is None and "2 documents" in found.note
    with pytest.raises(ValueRangeError, match="label"):
        paired_kl(result, "nothing", "structured-turbo 3")
    columns, rows = table_rows(result)
    assert all(len(r) == len(columns) for r in rows)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--arms", "nothing"], "arm"),
        (["--arms", "eden:depth=3"], "options"),
        (["--rates", "many"], "rates"),
        (["--rates", "99"], "rates"),
        (["--model", "gpt"], "model"),
        (["--tokens", "30"], "tokens"),
        (["--documents", "0"], "documents"),
        (["--window", "-1"], "window"),
    ],
)
def test_bad_input_is_one_line(arguments, named, tmp_path, capsys) -> None:
    extra = [] if "--arms" in arguments else ["--arms", "kivi-control"]
    out = tmp_path / "out"
    assert cli.main(["compare", *extra, *arguments, "--quiet", "--out", str(out)]) == cli.BAD_INPUT
    said = capsys.readouterr()
    assert said.out == "" and named in said.err and len(said.err.splitlines()) == 1
    assert not out.exists()
