"""The `tq` command: exit codes, JSON alone on standard output, one line for bad input, nothing half-written."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from tq_core.errors import ModelUnavailable
from validation import cli
from validation.study import WorkloadUse

SMALL = [
    "validate",
    "--prompts",
    "1",
    "--length",
    "128",
    "--window",
    "32",
    "--parity",
    "off",
    "--no-trials",
    "--quiet",
]


@pytest.fixture
def out(tmp_path):
    return tmp_path / "report"


@pytest.fixture
def unavailable(monkeypatch):
    from tq_core.model import zoo

    real = zoo.load_model

    def load(name, **options):
        if name == "smollm2":
            raise ModelUnavailable(
                "model smollm2: expected a file or a network, got neither.\nAdvice: fetch it."
            )
        return real(name, **options)

    monkeypatch.setattr(zoo, "load_model", load)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["validate", "--model", "gpt"], "model"),
        (["validate", "--arm", "turbo9"], "arm"),
        (["validate", "--key-bits", "5"], "bits"),
        (["validate", "--arm", "kivi-control", "--key-bits", "3.5"], "key_bits"),
        (["validate", "--arm", "fp16", "--key-bits", "3"], "options"),
        (["validate", "--window", "-1"], "window"),
        (["validate", "--kl-budget", "nan"], "kl_budget"),
        (["validate", "--length", "1"], "length"),
        (["validate", "--prompts", "0"], "prompts"),
        (["validate", "--backend", "gpu"], "backend"),
        (["validate", "--prompts", "many"], "--prompts"),
        (["parity", "--backend", "gpu"], "backend"),
        (["dance"], "command"),
        ([], "command"),
    ],
)
def test_bad_input_is_one_line_that_names_the_argument(arguments, names, out, capsys):
    extra = ["--out", str(out)] if arguments and arguments[0] in ("validate", "parity") else []
    assert cli.main([*arguments, *extra]) == cli.BAD_INPUT
    said = capsys.readouterr()
    assert said.out == "" and names in said.err and "Traceback" not in said.err
    assert len([line for line in said.err.splitlines() if not line.startswith("  parity")]) == 1
    assert not out.exists()


def test_a_file_as_out_is_refused_before_anything_runs(tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    assert cli.main([*SMALL, "--out", str(tmp_path / "file" / "report")]) == cli.BAD_INPUT
    assert "out" in capsys.readouterr().err and (tmp_path / "file").read_text() == "mine"


def test_a_model_that_cannot_be_had_is_incomplete_and_says_why(unavailable, out, capsys):
    assert cli.main(["validate", "--model", "smollm2", "--out", str(out)]) == cli.INCOMPLETE
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and "a network" in said.err and not out.exists()


def test_the_tiny_model_in_its_place_is_incomplete_and_says_so(unavailable, out, capsys, monkeypatch):
    from validation import plan, study_file

    small = replace(
        study_file.default_study("tiny"), workloads=(WorkloadUse("episodes", 2, 200),), parity="off"
    )
    monkeypatch.setattr(
        plan, "default_study", lambda model: small if model == "tiny" else study_file.default_study(model)
    )
    arguments = [
        "validate",
        "--model",
        "smollm2",
        "--fallback-tiny",
        "--parity",
        "off",
        "--window",
        "32",
        "--json",
    ]
    code = cli.main([*arguments, "--out", str(out)])
    told = json.loads(capsys.readouterr().out)
    assert (told["model"], told["asked_for"]) == ("tiny", "smollm2")
    assert told["status"] != "pass" and code == cli.CODES[told["status"]]
    assert any("smollm2" in reason for reason in told["not_exercised"])
    assert "The real model was NOT exercised: smollm2 was asked for" in (out / "report.html").read_text()
    assert json.loads((out / "report.json").read_text())["status"] == told["status"]


def test_json_has_the_agreed_keys_and_the_report_is_there(out, capsys):
    code = cli.main([*SMALL, "--json", "--out", str(out)])
    told = json.loads(capsys.readouterr().out)
    wanted = {"status", "model", "arm", "tokens_scored", "kl_mean", "top1_agreement", "bits_all_in", "report"}
    assert wanted <= set(told) and code == cli.CODES[told["status"]]
    assert told["tokens_scored"] == 127 and told["model"] == "tiny"
    stored = json.loads((out / "report.json").read_text())
    assert stored["status"] == told["status"] and stored["result_digest"] == told["result_digest"]
    assert stored["run"]["command"].startswith("tq validate --prompts 1")


def test_a_budget_that_is_not_met_exits_1(out, capsys):
    assert cli.main([*SMALL, "--kl-budget", "1e-12", "--json", "--out", str(out)]) == cli.FAILED
    told = json.loads(capsys.readouterr().out)
    assert told["status"] == "fail" and told["gates"]["kl"] == "fail"


def test_an_arm_that_compresses_nothing_exits_1(out, capsys):
    arguments = [a for a in SMALL if a not in ("--window", "32")]
    assert cli.main([*arguments, "--arm", "fp16", "--json", "--out", str(out)]) == cli.FAILED
    told = json.loads(capsys.readouterr().out)
    assert told["gates"]["tokens-compressed"] == "fail" and told["gates"]["output-changed"] == "fail"


def test_an_interruption_writes_nothing(out, capsys, monkeypatch):
    from validation import findings

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(findings, "_take", stop)
    assert cli.main([*SMALL, "--out", str(out)]) == cli.INTERRUPTED
    assert not out.exists() and "the same command goes on from there" in capsys.readouterr().err


def test_a_run_that_is_interrupted_midway_writes_what_it_has_and_goes_on_later(out, capsys, monkeypatch):
    from validation.engine.execute import Serial

    whole = Serial.run

    def stopped(self, model, jobs):
        for index, label, row in whole(self, model, jobs):
            if jobs[index].prompt.name == "episode-20001" and label != "reference":
                raise KeyboardInterrupt
            yield index, label, row

    arguments = [*SMALL[:2], "2", *SMALL[3:], "--seed", "5", "--json", "--out", str(out)]
    monkeypatch.setattr(Serial, "run", stopped)
    assert cli.main(arguments) == cli.INTERRUPTED
    told = json.loads(capsys.readouterr().out)
    stored = json.loads((out / "report.json").read_text())
    assert told["status"] == stored["status"] == "incomplete" and stored["incomplete"].startswith(
        "interrupted"
    )
    assert stored["summary"]["prompts"] == 1 and "INCOMPLETE" in stored["verdict"][0]
    monkeypatch.setattr(Serial, "run", whole)
    cli.main(arguments)
    again = json.loads((out / "report.json").read_text())
    assert again["incomplete"] == "" and again["summary"]["prompts"] == 2


@pytest.fixture
def few_cases(monkeypatch):
    from validation import parity_report

    chosen = [c for c in parity_report.chosen_cases(quick=True) if c.kernel == "softmax"]
    monkeypatch.setattr(parity_report, "chosen_cases", lambda quick: chosen)
    right = {"status": "pass", "answers": 0, "note": ""}
    monkeypatch.setattr(parity_report, "known_answers", lambda backend: right)
    only = [s for s in parity_report.backend_statuses() if s.name in ("numpy", "native-scalar")]
    monkeypatch.setattr(parity_report, "backend_statuses", lambda: only)
    return parity_report


def test_parity_with_a_missing_backend_is_incomplete_or_strictly_a_failure(few_cases, out, capsys):
    for extra, code in (([], cli.INCOMPLETE), (["--strict"], cli.FAILED)):
        assert cli.main(["parity", "--json", "--quiet", *extra]) == code
        told = json.loads(capsys.readouterr().out)
        assert told["differing_bits"] == 0 and told["cases"] > 0 and told["missing"]
        assert {"cases", "backends", "missing", "differing_bits"} <= set(told)


def test_parity_passes_on_a_named_backend_and_stores_its_certificate(few_cases, out, capsys):
    arguments = ["parity", "--backend", "native-scalar", "--out", str(out), "--json"]
    assert cli.main(arguments) == cli.PASS
    assert json.loads(capsys.readouterr().out) == json.loads((out / "parity.json").read_text())
    assert sorted(path.name for path in out.iterdir()) == ["parity.html", "parity.json"]


def test_the_reference_alone_proves_nothing(few_cases, capsys):
    assert cli.main(["parity", "--backend", "numpy"]) == cli.INCOMPLETE
    assert "but itself" in capsys.readouterr().out


def test_differing_bits_exit_1(few_cases, capsys, monkeypatch):
    from tq_core.kernels.backend import NumpyBackend

    class Faulty(NumpyBackend):
        name = "native-scalar"

        def call(self, kernel, **arguments):
            super().call(kernel, **arguments)
            if kernel == "softmax":
                arguments["scores"].view("u4").reshape(-1)[:1] ^= 1

    monkeypatch.setattr(few_cases, "get_backend", lambda name: Faulty())
    assert cli.main(["parity", "--backend", "native-scalar", "--json"]) == cli.FAILED
    assert json.loads(capsys.readouterr().out)["differing_bits"] > 0


def test_progress_tells_the_time_left_and_keeps_to_standard_error(capsys, monkeypatch):
    clock = iter([0.0, 10.0, 10.5, 20.0])
    monkeypatch.setattr(cli.time, "monotonic", lambda: next(clock))
    told = cli.Progress()
    for done in (0, 50, 60, 100):
        told("reading a", done, 100)
    said = capsys.readouterr()
    assert said.out == "" and "50 of 100, about 10 s left" in said.err and "60 of 100" not in said.err
    assert "100 of 100" in said.err


@pytest.mark.slow
def test_the_same_run_has_the_same_digest(out, capsys):
    digests = set()
    for _ in range(2):
        cli.main([*SMALL, "--json", "--out", str(out)])
        digests.add(json.loads(capsys.readouterr().out)["result_digest"])
    assert len(digests) == 1


@pytest.mark.slow
def test_doctor_in_a_process_of_its_own():
    done = subprocess.run(
        [sys.executable, "-m", "validation.cli", "doctor", "--json"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    told = json.loads(done.stdout)
    assert done.returncode == cli.CODES[told["status"]], done.stderr
    for row in told["backends"]:
        assert set(row) == {"name", "available", "reason"} and row["reason"]
    assert {"wasmer-sdk", "wasmtime"} <= {h["name"] for h in told["hosts"]}


@pytest.mark.slow
def test_validate_in_a_process_of_its_own_on_the_planted_bad_arm(out):
    arguments = [
        "validate",
        "--arm",
        "planted-bad",
        "--prompts",
        "2",
        "--parity",
        "off",
        "--fresh",
        "--json",
        "--out",
        str(out),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "validation.cli", *arguments], capture_output=True, text=True, timeout=300
    )
    told = json.loads(done.stdout)
    assert done.returncode == cli.FAILED and told["gates"]["kl"] == "fail"
    assert "readings" in done.stderr and "Traceback" not in done.stderr
