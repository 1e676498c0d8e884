"""The performance protocol on the tiny model: complete, in its schema, and no figure from a clock that saw nothing."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from tq_core.codecs.arms import get_arm
from tq_core.errors import ValueRangeError
from tq_core.kernels.backend import NumpyBackend
from tq_core.model.zoo import load_model
from tq_core.paths import ROOT
from validation.bench.protocol import beside, guest, measure, passes, rows, seams
from validation.bench.protocol.command import lengths
from validation.bench.protocol.run import run_protocol, text
from validation.cli import main

SCHEMA = json.loads((ROOT / "validation" / "schema" / "protocol-v1.schema.json").read_text())
CONTEXT = 96


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    """structured-turbo and a length that the tiny model does not hold, on the numpy backend: nothing is compiled."""
    arm = get_arm("structured-turbo", window=16)
    return run_protocol(
        load_model("tiny"), [arm], (CONTEXT, 4096), 2, 300.0, True, lambda *_: None, NumpyBackend()
    )


def at(result: dict[str, Any], what: str, context: int = CONTEXT) -> dict[str, Any]:
    (row,) = (r for r in result["rows"] if (r["what"], r["context"]) == (what, context))
    return row


def test_every_measurement_has_a_row_and_the_result_fits_the_schema(result: dict[str, Any]) -> None:
    jsonschema.validate(json.loads(json.dumps(result)), SCHEMA)
    assert len(rows.MEASUREMENTS) - 1 == 13  # peak RSS or peak WASM pages: two rows for one of the thirteen
    assert [r["what"] for r in result["rows"]] == 2 * list(rows.UNITS)
    gaps = {r["what"] for r in result["rows"] if r["context"] == CONTEXT and r["value"] is None}
    assert gaps <= {
        "peak RSS",
        "WASM memory-growth events",
        "peak WASM pages",
    }  # the system's, and the host's


def test_the_committed_run_fits_the_schema_and_lacks_nothing_silently() -> None:
    made = json.loads((ROOT / "validation" / "bench" / "results" / "smollm2-protocol.json").read_text())
    jsonschema.validate(made, SCHEMA)
    assert len(made["rows"]) == len(made["arms"]) * len(made["contexts"]) * len(rows.UNITS)
    assert made["git"]["dirty"] is False


def test_figures_are_about_what_they_say(result: dict[str, Any]) -> None:
    prefill, speed = at(result, "prefill latency"), at(result, "prefill speed")
    steps = passes.DECODE_STEPS
    assert prefill["n"] == 2 and at(result, "steady-state decode latency")["n"] == 2 * (steps - 1)
    assert speed["value"] == pytest.approx((CONTEXT - steps) / prefill["value"] * 1000, rel=0.5)
    assert 0 < at(result, "cache share of decode")["value"] < 100
    assert (
        "score_keys" in at(result, "key-scan time")["note"] and "fuses" in at(result, "key-scan time")["note"]
    )
    assert "rotate" in at(result, "query-transform time")["note"]
    assert at(result, "packed payload bytes")["value"] > 0
    assert "pools grew" in at(result, "allocator time")["note"]


def test_a_length_that_the_model_does_not_hold_is_not_measured(result: dict[str, Any]) -> None:
    for row in (r for r in result["rows"] if r["context"] == 4096):
        assert row["value"] is None and "1024 tokens at most" in row["note"]
    assert "not measured" in text(result)


def test_llama_cpp_is_named_when_it_cannot_run(result: dict[str, Any]) -> None:
    assert {r["arm"] for r in result["beside"]} == {"llama.cpp f16", "llama.cpp q8_0", "llama.cpp q4_0"}
    assert all(r["value"] is None and "no model file" in r["note"] for r in result["beside"])
    assert result["ratios"] == []


def test_llama_cpp_that_is_not_installed_says_how_to(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    class Named:
        name, context_length = "smollm2", 8192

    monkeypatch.setenv(beside.VARIABLE, str(tmp_path))
    found, versions = beside.beside(Named(), (512,), 1, lambda *_: None, 1.0)  # type: ignore[arg-type]
    assert versions == {} and {r["note"] for r in found} == {"llama.cpp is not installed, make bench-peers"}


def test_ratios_are_within_a_length() -> None:
    made = [
        rows.measured("decode speed", a, c, [x], "x")
        for a, c, x in (("llama.cpp f16", 64, 8.0), ("fp16", 64, 2.0), ("fp16", 128, 2.0))
    ]
    assert [(r["arm"], r["context"], r["ratio"]) for r in beside.ratios(made)] == [("fp16", 64, 0.25)]


@pytest.mark.parametrize("samples", [[], [0.0], [1.0, 0.0], [float("nan")], [-1.0], [float("inf")]])
def test_a_timer_that_saw_nothing_is_refused(samples: list[float]) -> None:
    with pytest.raises(ValueRangeError, match="prefill latency"):
        rows.measured("prefill latency", "fp16", 64, samples, "x")
    assert rows.figure("prefill latency", "fp16", 64, samples, "x")["value"] is None


def test_counts_may_be_zero_but_not_below() -> None:
    assert rows.measured("scratch bytes", "fp16", 64, [0], "x")["value"] == 0
    with pytest.raises(ValueRangeError, match="scratch bytes"):
        rows.measured("scratch bytes", "fp16", 64, [-1], "x")


def test_a_measurement_that_nobody_made_is_visible() -> None:
    found = rows.completed([rows.measured("prefill latency", "fp16", 64, [1.0], "x")], "fp16", 64)
    assert [r["what"] for r in found] == list(rows.UNITS)
    assert all(r["where"] == "not measured" and r["note"] for r in found[1:])


def test_a_clock_that_stands_still_becomes_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seams.TimedCache, "taken", lambda self: 0)
    monkeypatch.setattr(measure, "part_rows", lambda *_: [])
    monkeypatch.setattr(guest, "host_statuses", lambda: [])
    found = measure.measure(load_model("tiny"), get_arm("fp16"), (64,), NumpyBackend(), repeats=1)
    (row,) = (r for r in found if r["what"] == "cache share of prefill")
    assert row["value"] is None and "this timer saw nothing" in row["note"]
    (growth,) = (r for r in found if r["what"] == "WASM memory-growth events")
    assert growth["value"] is None and "no WebAssembly host" in growth["note"]


def test_a_pass_over_its_time_limit_is_not_measured() -> None:
    found = measure.measure(
        load_model("tiny"), get_arm("fp16"), (128,), NumpyBackend(), repeats=1, seconds=0.0
    )
    assert all(r["value"] is None and "the limit of 0 s was over" in r["note"] for r in found)


def test_timed_cache_changes_no_bit_and_sees_every_call() -> None:
    model, arm = load_model("tiny"), get_arm("structured-turbo", window=32)
    made = passes.run_pass(model, arm, 80, NumpyBackend(), 60.0, lambda *_: None)
    timed = made.cache
    assert timed is not None and timed.length == 80 and timed.queries is not None
    assert len(made.decode) == passes.DECODE_STEPS and all(
        0 < c < ns for c, ns in zip(made.decode_cache, made.decode)
    )
    assert made.allocator.calls > 0 and made.allocator.ns > 0 and made.allocator.growths > 0


@pytest.mark.parametrize("given", ["", "512,", "512,x", "-4", "99999999"])
def test_lengths_that_are_none(given: str) -> None:
    with pytest.raises(ValueRangeError, match="contexts"):
        lengths(given)


@pytest.mark.parametrize(
    "options",
    [
        ["--contexts", "8"],
        ["--arm", "no-such-arm"],
        ["--repeats", "0"],
        ["--limit", "0"],
        ["--model", "nobody"],
    ],
)
def test_bad_options_are_bad_input(
    options: list[str], tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "--protocol", "--model", "tiny", "--out", str(tmp_path / "out"), *options]) == 2
    assert capsys.readouterr().err.startswith("tq bench: ") and not (tmp_path / "out").exists()
