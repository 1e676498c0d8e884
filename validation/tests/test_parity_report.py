"""The parity certificate notices one flipped bit, a dropped tail, a failure, and a backend that is not there."""

import numpy as np
import pytest

from tq_core.errors import BackendError, KernelError, ValueRangeError
from tq_core.kernels.backend import NumpyBackend
from tq_core.kernels.table import KERNELS
from validation import parity_report
from validation.parity_report import certify, chosen_cases, expected_backends, missing_backends

pytestmark = pytest.mark.kernels


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
    chosen = [c for c in chosen_cases(quick=True) if c.kernel in ("rotate", "softmax", "encode_rows")][::3]
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
