"""Real faults, compiled: the certificate fails and names kernel, case and backend, on paper too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tq_core.kernels.native import cpu_features
from validation import parity_report
from validation.parity_report import Certificate, certify, chosen_cases
from validation.report import write_certificate
from validation.tests.planted import planted_backend

pytestmark = [pytest.mark.kernels, pytest.mark.slow]
RUN = {"command": "tq parity", "finished": "2000-01-01T00:00:00Z", "git": {"commit": "none", "dirty": False}, "machine": {}}  # fmt: skip
needs_fma = pytest.mark.skipif(
    not {"avx2", "fma", "f16c"} <= cpu_features(), reason="not exercised: this CPU has no fused multiply-add"
)
# Fault -> (target, the kernels that must be named, kernels that run beside them and must stay clean).
FAULTS = {
    "append_keys": ("scalar", {"append_keys"}, {"append_values"}),
    "score_keys": ("scalar", {"score_keys"}, {"score_keys_f32"}),
    "fused": ("avx2", {"linear"}, {"softmax", "rotate"}),
}


def made_with(fault: str, target: str, kernels: set[str], tmp_path: Path, monkeypatch) -> Certificate:
    few = [c for c in chosen_cases(quick=False) if c.kernel in kernels]
    monkeypatch.setattr(parity_report, "chosen_cases", lambda quick: few)
    return certify(["native-scalar"], extra=[planted_backend(fault, target, tmp_path)])


@pytest.mark.parametrize(
    "fault", [pytest.param(f, marks=[needs_fma] if f == "fused" else []) for f in FAULTS]
)
def test_a_planted_fault_fails_the_certificate(fault: str, tmp_path: Path, monkeypatch) -> None:
    target, wrong, right = FAULTS[fault]
    made = made_with(fault, target, wrong | right, tmp_path, monkeypatch)
    backend = f"native-{target}+{fault}"
    assert made.status() == "fail"
    assert {(r.kernel, r.backend) for r in made.rows if r.differing_bits} == {(k, backend) for k in wrong}
    first = made.differences[0]
    assert first["kernel"] in wrong and first["backend"] == backend and first["bits"] > 0
    entry = next(m for m in made.matrix if m["kernel"] == first["kernel"])
    named = entry["differing"][backend]
    assert first["case"] in named and set(named) <= set(entry["cases"])
    assert not any(entry["differing"]["native-scalar"].values())
    if fault == "score_keys":  # the tail of a history of whole tiles is empty
        assert not any(name.endswith(("x0", "x32", "x128")) for name in named)
    told = next(e for e in made.engines if e["name"] == backend)["known_answers"]
    if fault != "append_keys":  # of one call: a byte of two equal halves reads the same when they are swapped
        assert told["status"] == "fail" and any(kernel in told["note"] for kernel in wrong)
    paths = write_certificate({"status": made.status(), **made.as_dict(), "run": RUN}, tmp_path / "out")
    page = paths["html"].read_text()
    for words in ("<title>FAIL: ", backend, f"<td>{first['case']}</td>", "bits differ", "</span> fail"):
        assert words in page, words


def test_a_copy_without_a_fault_passes(tmp_path: Path, monkeypatch) -> None:
    made = made_with("none", "scalar", {"append_keys", "linear"}, tmp_path, monkeypatch)
    assert made.status() == "pass" and made.bits_compared > 0
    assert {e["known_answers"]["status"] for e in made.engines} == {"pass"}
    assert "native-scalar+none" in made.backends
