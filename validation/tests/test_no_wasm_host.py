"""A machine without any wasm host: the run says what it did not try and is incomplete, never a pass."""

from dataclasses import replace

import pytest

from tq_core.codecs.arms import get_arm
from tq_core.kernels.backend import NumpyBackend
from validation import parity_report, rules
from validation.gates import overall
from validation.parity_report import certify, chosen_cases
from validation.runner import make_record
from validation.trials import wasm_hosts
from validation.trials.run import run_trials

pytestmark = pytest.mark.slow  # a study of the tiny model comes first
REASON = "planted: not installed"
WASM = ("parity-coverage", "wasm-memory", "wasm-growth")


@pytest.fixture
def hosts(monkeypatch):
    """Call it to take every host away; and few parity cases either way."""
    chosen = [c for c in chosen_cases(quick=True) if c.kernel == "softmax"][:2]
    monkeypatch.setattr(parity_report, "chosen_cases", lambda quick: chosen)
    monkeypatch.setattr(parity_report, "known_answers", lambda backend: {"status": "pass", "answers": 0, "note": ""})  # fmt: skip

    def take_away():
        known, there = parity_report.backend_statuses(), wasm_hosts.host_statuses()
        statuses = [
            replace(s, available=False, reason=REASON) if s.name.startswith("wasm-") else s for s in known
        ]
        gone = [replace(s, available=False, reason=REASON) for s in there]
        for place in (parity_report, rules):
            monkeypatch.setattr(place, "backend_statuses", lambda: statuses)
        monkeypatch.setattr(wasm_hosts, "host_statuses", lambda: gone)

    return take_away


def verdicts(findings, tiny):
    findings.certificate = certify()
    only = ("wasm_memory", "wasm_growth")
    findings.trials = run_trials(tiny, get_arm("structured-turbo"), NumpyBackend(), only=only, quick=True)
    record = make_record(findings, tiny, "test", "tq validate", "2000-01-01T00:00:00Z", 1.0)
    return record, {g.name: g.judge(findings) for g in rules.gates_for(findings.plan, findings)}


def test_without_a_host_the_gates_are_not_exercised_and_the_run_is_incomplete(hosts, findings, tiny):
    hosts()
    record, found = verdicts(findings, tiny)
    for name in WASM:
        assert found[name].status == "not exercised" and found[name].value is None, name
        assert REASON in found[name].evidence
    good = {n: v if n in WASM else replace(v, status="pass") for n, v in found.items()}
    assert overall(list(good.values())) == "incomplete", "whatever else passed"
    assert record.status != "pass" and findings.certificate.status() == "incomplete"
    assert findings.certificate.status(strict=True) == "fail"
    told = " ".join(record.not_exercised)
    assert all(name in told for name in WASM) and REASON in told
    missing = {m["name"] for m in findings.certificate.missing}
    assert {"wasm-scalar@wasmtime", "wasm-simd128@wasmtime"} <= missing
    assert not any(r.backend.startswith("wasm") for r in findings.certificate.rows)


def test_with_a_host_they_are(hosts, findings, tiny):
    if not any(not reason for reason in wasm_hosts.resident_hosts().values()):
        pytest.skip("not exercised: no wasm host in this process")
    _, found = verdicts(findings, tiny)
    assert found["wasm-memory"].status == "pass" and found["wasm-growth"].status == "pass"
