"""The parity certificate notices one flipped bit, a dropped tail, a failure, and a backend that is not there."""

import dataclasses
import json
import re
from importlib.metadata import version

import numpy as np
import pytest

from tq_core.errors import BackendError, KernelError, ValueRangeError
from tq_core.kernels.backend import BackendStatus, NumpyBackend
from tq_core.kernels.native import TARGETS
from tq_core.kernels.table import KERNELS
from validation import parity_facts, parity_report
from validation.parity_report import certify, chosen_cases, expected_backends, missing_backends
from validation.report import render, write_certificate
from validation.tests.pages import Page

pytestmark = pytest.mark.kernels
RUN = {"command": "tq parity", "finished": "2000-01-01T00:00:00Z", "git": {"commit": "none", "dirty": False}, "machine": {}}  # fmt: skip


class Planted:
    """The reference with one fault planted in one kernel."""

    name = "planted"

    def __init__(self, kernel, fault):
        self._kernel, self._fault, self._good = kernel, fault, NumpyBackend()

    def call(self, kernel, **arguments):
        before = {k: v.copy() for k, v in arguments.items() if isinstance(v, np.ndarray)}
        self._good.call(kernel, **arguments)
        if kernel == self._kernel:
            outputs = [a.name for a in KERNELS[kernel].args if a.role != "in"]
            self._fault(arguments[outputs[0]], before[outputs[0]])


def flip_one_bit(got, before):
    if got.size:
        got.view(np.uint8).reshape(-1)[got.nbytes // 2] ^= 1


def drop_tail(got, before):
    written = np.flatnonzero(got.reshape(-1) != before.reshape(-1))
    got.reshape(-1)[written[-1:]] = before.reshape(-1)[written[-1:]]


def fail(got, before):
    raise KernelError("planted failure")


def honest(got, before):
    pass


@pytest.fixture(autouse=True)
def few_cases(monkeypatch):
    """Few cases, and no known answers (test_planted_faults.py has them): each would compile every kernel."""
    right = {"status": "pass", "answers": 0, "note": ""}
    monkeypatch.setattr(parity_report, "known_answers", lambda backend: right)
    chosen = [c for c in chosen_cases(quick=True) if c.kernel in ("rotate", "softmax", "encode_rows")][::2]
    monkeypatch.setattr(parity_report, "chosen_cases", lambda quick: chosen)


def run(kernel, fault):
    return certify(["numpy"], extra=[Planted(kernel, fault)])


def test_the_harness_itself_is_clean():
    made = run("softmax", honest)
    assert made.differing_bits == 0 and made.bits_compared > 0 and not made.differences


@pytest.mark.parametrize("kernel", ["rotate", "softmax", "encode_rows"])
@pytest.mark.parametrize("fault", [flip_one_bit, drop_tail, fail])
def test_a_planted_fault_makes_the_certificate_fail(kernel, fault):
    made = run(kernel, fault)
    assert made.differing_bits > 0
    assert {r.kernel for r in made.rows if r.differing_bits} == {kernel}
    assert all(r.backend == "planted" for r in made.rows if r.differing_bits)
    assert made.differences[0]["kernel"] == kernel and made.differences[0]["backend"] == "planted"


def test_one_flipped_bit_is_counted_as_one():
    made = run("rotate", flip_one_bit)
    row = next(r for r in made.rows if r.kernel == "rotate" and r.backend == "planted")
    assert 0 < row.differing_bits <= row.cases


def test_the_reference_is_not_compared_with_itself_unless_asked(monkeypatch):
    only = [s for s in parity_report.backend_statuses() if s.name == "numpy"]
    monkeypatch.setattr(parity_report, "backend_statuses", lambda: only)
    assert certify().bits_compared == 0
    assert certify(["numpy"]).bits_compared > 0


def test_a_missing_backend_is_named(monkeypatch):
    only = [s for s in parity_report.backend_statuses() if s.name == "numpy"]
    monkeypatch.setattr(parity_report, "backend_statuses", lambda: only)
    assert {m["name"] for m in missing_backends()} == set(expected_backends()) - {"numpy"}


def test_what_did_not_run_is_listed_and_never_passed(monkeypatch):
    """An expected backend that is missing, and NEON without its emulator: neither among the engines, both told."""
    gone = [s for s in parity_report.backend_statuses() if s.name == "numpy"]
    reason = "not exercised: no qemu-aarch64"
    gone.append(BackendStatus("native-neon@qemu", False, reason, slow=True))
    monkeypatch.setattr(parity_report, "backend_statuses", lambda: gone)
    made = certify(extra=[Planted("softmax", honest)])
    told = {m["name"]: m["reason"] for m in made.not_exercised}
    assert told["native-neon@qemu"] == reason and set(told) == set(expected_backends()) - {"numpy"} | {
        "native-neon@qemu"
    }
    assert {e["name"] for e in made.engines} == {"planted"} and made.status() == "incomplete"
    page = Page(
        render("parity.html.j2", p={**made.as_dict(), "status": made.status(), "run": RUN}, embedded="{}")
    )
    rows = {row[0]: row[1] for row in reversed(page.rows)}  # the first table has the verdicts
    assert all(rows[name].endswith("not exercised") for name in told)
    assert rows["planted"].endswith("pass")


def test_a_backend_that_was_not_asked_for_is_not_exercised():
    made = certify(["native-scalar"])
    told = {m["name"]: m["reason"] for m in made.not_exercised}
    assert told["wasm-simd128@wasmtime"] == parity_report.NOT_ASKED and "native-scalar" not in told
    assert made.status() == "pass"


def test_the_matrix_has_every_case_of_every_kernel():
    made, cases = run("softmax", flip_one_bit), parity_report.chosen_cases(True)
    assert [(m["kernel"], name) for m in made.matrix for name in m["cases"]] == [
        (c.kernel, c.name) for c in cases
    ]
    assert sum(sum(m["bits"]) for m in made.matrix) * 2 == made.bits_compared
    wrong = {m["kernel"]: m["differing"] for m in made.matrix}
    assert wrong["rotate"] == {"numpy": {}, "planted": {}} and wrong["softmax"]["planted"]
    assert set(wrong["softmax"]["planted"].values()) == {1}


def test_one_difference_of_each_kernel_and_backend_comes_first():
    made = [{"kernel": k, "backend": "b", "n": n} for k in ("x", "y") for n in range(3)]
    assert [(d["kernel"], d["n"]) for d in parity_report.one_of_each_first(made)][:3] == [
        ("x", 0),
        ("y", 0),
        ("x", 1),
    ]


def test_wrong_known_answers_and_a_refused_module_fail():
    good = run("softmax", honest)
    assert good.status() in ("pass", "incomplete")
    wrong = {**good.engines[0], "known_answers": {"status": "fail", "answers": 0, "note": "x"}}
    assert dataclasses.replace(good, engines=(wrong,)).status() == "fail"
    refused = {"module": "tq.wasm", "gate": "fail: f64.sqrt", "instructions": {}}
    assert dataclasses.replace(good, wasm_opcodes=(refused,)).status() == "fail"


def test_the_page_needs_nothing_else_and_says_everything_in_words(tmp_path):
    made = run("softmax", flip_one_bit)
    paths = write_certificate({"status": made.status(), **made.as_dict(), "run": RUN}, tmp_path)
    text = paths["html"].read_text()
    assert not re.search(r"(src|href)=|@import|url\(", text.split("</style>")[1].split("<script")[0])
    assert "prefers-color-scheme: dark" in text and "http" not in text.split("</style>")[1]
    page = Page(text)
    softmax = next(row for row in page.rows if row[0] == "softmax" and row[-2].endswith("same"))
    assert len(softmax) == 5 and softmax[-1].endswith("bits differ")
    flags = next(row for row in page.rows if row[0] == "numpy" and len(row) == 3)
    assert flags[1].startswith("numpy ")
    embedded = json.loads(
        text.split('<script type="application/json" id="tq-parity">')[1].split("</script>")[0]
    )
    assert embedded == json.loads(paths["json"].read_text())


def test_facts_are_those_of_this_machine():
    facts = parity_facts.engine_facts("wasm-simd128@wasmtime")
    assert "+simd128" in facts["flags"] and facts["runs_on"] == f"wasmtime {version('wasmtime')}"
    assert "avx512vnni" in parity_facts.engine_facts("native-avx512vnni")["flags"]
    assert set(parity_facts.target_attributes()) == set(TARGETS)
    plain, wide = parity_facts.wasm_opcodes()
    assert plain["gate"] == wide["gate"] == "pass" and plain["sha256"] != wide["sha256"]
    assert wide["instructions"]["f32x4.mul"] > 0 and "f32x4.mul" not in plain["instructions"]


def test_a_module_that_is_not_built_is_not_exercised(tmp_path):
    (tmp_path / "tq_scalar.wasm").write_bytes(b"no module")
    plain, wide = parity_facts.wasm_opcodes(tmp_path)
    assert plain["gate"].startswith("fail: ") and wide["gate"].startswith("not exercised")


def test_the_digest_of_the_sources_follows_them(tmp_path):
    (tmp_path / "a.h").write_text("int a;")
    first = parity_facts.sources_digest(tmp_path)
    (tmp_path / "a.h").write_text("int b;")
    assert parity_facts.sources_digest(tmp_path) != first


def test_unknown_names_and_empty_lists_are_refused():
    with pytest.raises(BackendError, match="'nonesuch'"):
        certify(["nonesuch"])
    with pytest.raises(ValueRangeError, match="backend"):
        certify([])


@pytest.mark.parametrize(
    ("flags", "wanted"),
    [
        (set(), {"numpy", "native-scalar"}),
        ({"avx2", "f16c"}, {"numpy", "native-scalar", "native-avx2"}),
        (
            {"avx2", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512dq"},
            {"numpy", "native-scalar", "native-avx2", "native-avx512"},
        ),
    ],
)
def test_what_is_expected_follows_the_cpu(monkeypatch, flags, wanted):
    monkeypatch.setattr(parity_report, "cpu_features", lambda: frozenset(flags))
    monkeypatch.setattr(parity_report.platform, "machine", lambda: "x86_64")
    assert {n for n in expected_backends() if not n.startswith("wasm-")} == wanted


def test_wasmer_in_process_is_expected_only_where_it_has_wheels(monkeypatch):
    monkeypatch.setattr(parity_report.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(parity_report.sys, "version_info", (3, 10, 9))
    assert "wasm-simd128@wasmer" in expected_backends()
    monkeypatch.setattr(parity_report.sys, "version_info", (3, 11, 0))
    assert (
        "wasm-simd128@wasmer" not in expected_backends() and "wasm-simd128@wasmer-sdk" in expected_backends()
    )


def test_a_quick_certificate_has_every_kernel(monkeypatch):
    monkeypatch.undo()
    quick, full = chosen_cases(True), chosen_cases(False)
    assert {c.kernel for c in quick} == {c.kernel for c in full} == set(KERNELS)
    assert len(full) / 8 < len(quick) < len(full) / 3


@pytest.mark.slow
def test_every_backend_of_this_machine_on_the_few_cases():
    made = certify()
    assert made.differing_bits == 0, made.differences
    assert not made.missing, made.missing
    assert len({r.backend for r in made.rows}) == len(made.backends) - 1
