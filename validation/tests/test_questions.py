"""The six questions: every answer is computed, and says what its source says."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import Any

import pytest

from tq_core.model.fixture import make_fixture
from validation import questions


def record(**statuses: str) -> Any:
    gates = [
        {"name": name.replace("_", "-"), "status": status.replace("_", " ")}
        for name, status in statuses.items()
    ]
    profile = {"model": {"name": "tiny"}, "plan": {"arm": "structured-turbo"}}
    return SimpleNamespace(status="fail", gates=gates, profile=profile)


def test_there_are_six_and_each_has_an_answer() -> None:
    rows = questions.rows(record(kl="fail"))
    assert len(rows) == 6 and all(len(row) == len(questions.COLUMNS) for row in rows)
    assert all(row[0].endswith("?") and re.search(r"\d|fail", row[1]) for row in rows)


def test_bits_are_those_of_the_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    scale = json.loads(questions.SCALE.read_text())["workloads"]["chat"]["arms"]
    keys, values, windows = questions.bits_rows()
    assert f"2 bits {scale['structured-turbo 2/3']['kl_mean']['mean']:.3f}" in keys[1]
    assert f"4 bits {scale['structured-turbo 3/4']['kl_mean']['mean']:.3f}" in values[1]
    assert f"window 128 {scale['structured-turbo']['kl_mean']['mean']:.3f}" in windows[1]
    monkeypatch.setattr(questions, "losses", lambda: dict.fromkeys(scale, 0.5))
    assert "2 bits 0.500" in questions.bits_rows()[0][1]


def test_a_rotation_that_does_not_cancel_is_not_called_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "by rounding alone" in questions.rope_row()[1]
    exact, after, before = questions.rotation_and_rope(make_fixture())
    monkeypatch.setattr(questions, "rotation_and_rope", lambda fixture: (exact, after + 0.5, before))
    assert "by 0.5 alone" in questions.rope_row()[1]


def test_memory_falls_with_the_context() -> None:
    shares = [int(share) for share in re.findall(r"(\d+)% at", questions.pays_row()[1])]
    assert shares == sorted(shares, reverse=True) and len(shares) == len(questions.CONTEXTS)


def test_the_verdict_names_what_failed_and_what_was_not_exercised() -> None:
    told = questions.verdict_row(record(kl="fail", no_shadow="pass", parity="not_exercised"))[1]
    assert "fail" in told and "failed: kl;" in told and told.endswith("not exercised: parity")
    assert "failed: nothing" in questions.verdict_row(record(kl="pass"))[1]
