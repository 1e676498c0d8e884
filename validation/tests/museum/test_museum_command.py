"""`tq museum`: exit codes, a table, JSON alone on standard output."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from validation import cli
from validation.museum import catalogue
from validation.museum.catalogue import get


def test_named_exhibits_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["museum", "h2", "F7", "--quiet"]) == cli.PASS
    said = capsys.readouterr()
    assert said.err == "" and "wasm.opcodes.gate" in said.out and "claimed 36 B, computed 58 B" in said.out
    assert said.out.strip().endswith("pass: 2 of 2 faults are stopped")


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["museum", "C9", "--json", "--quiet"]) == cli.PASS
    data = json.loads(capsys.readouterr().out)
    (shown,) = data["exhibits"]
    assert data["status"] == "pass" and data["not_stopped"] == []
    assert shown["id"] == "C9" and shown["stopped"] and shown["right"]["kl"] == 0 < shown["faulty"]["kl"]


def test_all_of_them_list_what_is_not_exercised(monkeypatch, capsys) -> None:
    monkeypatch.setattr(catalogue, "EXHIBITS", (get("H2"), get("F7")))
    assert cli.main(["museum", "--quiet"]) == cli.PASS
    said = capsys.readouterr().out
    assert "not exercised: H5:" in said and "gate" in said.splitlines()[0]


@pytest.mark.parametrize("side", ["faulty", "right"])
def test_a_gate_that_lets_a_fault_pass_or_stops_what_is_right_fails(monkeypatch, capsys, side: str) -> None:
    e = get("F7")
    both = e.right if side == "faulty" else e.faulty
    monkeypatch.setattr(catalogue, "EXHIBITS", (replace(e, right=both, faulty=both),))
    assert cli.main(["museum", "--quiet"]) == cli.FAILED
    said = capsys.readouterr().out
    assert "NOT STOPPED" in said and "fail: 0 of 1" in said


def test_an_unknown_exhibit_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["museum", "Z9"]) == cli.BAD_INPUT
    said = capsys.readouterr()
    assert said.out == "" and "exhibit" in said.err and len(said.err.splitlines()) == 1
