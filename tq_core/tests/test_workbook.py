"""`make workbook` goes on without the real model, says so, and fails when something failed."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "workbook.py"


@pytest.fixture
def workbook(monkeypatch):
    spec = importlib.util.spec_from_file_location("workbook", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(sys, "argv", ["workbook.py", "--build", "out"])
    return module


def commands_that_return(monkeypatch, workbook, fetch=0, notebooks=0, validate=0, status="pass"):
    """Replace the real commands; returns the list of those that ran."""
    ran = []

    def run(*command, capture=False):
        ran.append([str(part) for part in command])
        if "validate" in ran[-1]:
            text = json.dumps({"status": status, "report": "out/report/report.html"}) if status else "no JSON"
            return subprocess.CompletedProcess(command, validate, text)
        return subprocess.CompletedProcess(command, fetch if "tq_core.model.fetch" in ran[-1] else notebooks)

    monkeypatch.setattr(workbook, "run", run)
    return ran


def outcome(workbook):
    with pytest.raises(SystemExit) as stopped:
        workbook.main()
    return stopped.value.code


def test_all_well(workbook, monkeypatch, capsys):
    ran = commands_that_return(monkeypatch, workbook)
    assert outcome(workbook) == 0
    assert len(ran) == 3 and "smollm2" in ran[-1]
    shown = capsys.readouterr().out
    assert "out/report/report.html" in shown and "verdict:   pass" in shown and "NOT EXERCISED" not in shown


def test_without_the_model_the_tiny_one_takes_its_place_and_that_is_said(workbook, monkeypatch, capsys):
    ran = commands_that_return(monkeypatch, workbook, fetch=3, validate=3, status="incomplete")
    assert outcome(workbook) == 0
    assert "--fallback-tiny" in ran[-1]
    shown = capsys.readouterr().out
    assert "NOT EXERCISED" in shown and "verdict:   incomplete" in shown


@pytest.mark.parametrize(
    "codes",
    [
        {"fetch": 1},
        {"notebooks": 1},
        {"validate": 1, "status": "fail"},
        {"validate": 2, "status": None},
        {"validate": 0, "status": None},
    ],
    ids=["tampered-model", "notebook-failed", "check-failed", "bad-input", "no-report"],
)
def test_a_failure_fails_the_workbook(workbook, monkeypatch, capsys, codes):
    ran = commands_that_return(monkeypatch, workbook, **codes)
    assert outcome(workbook) == 1
    assert len(ran) == 3, "one failure must not keep the other results from being made"
    assert "verdict:" in capsys.readouterr().out
