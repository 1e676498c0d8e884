"""Every kernel, on every case, on every backend that is here: the reference's bits."""

from __future__ import annotations

import platform

import numpy as np
import pytest

from tq_core.kernels import native
from tq_core.kernels.backend import NumpyBackend, available_backends, backend_statuses, get_backend
from tq_core.kernels.cases import cases
from tq_core.kernels.parity import ParityChecker, compare, run_case
from tq_core.kernels.table import KERNELS
from tq_core.kernels.twins import KERNEL_FUNCTIONS

pytestmark = pytest.mark.kernels
CASES = list(cases())
CHECKER = ParityChecker()


def _backends() -> list:
    """Every backend that runs here, and the slow ones even where they do not: that must show as a skip."""
    # `make check` leaves out the backends that take longest, and of the native ones takes the widest; `make test` has
    # them all.
    native_names = [
        s.name for s in backend_statuses() if s.name.startswith("native-") and s.available and not s.slow
    ]
    long = {
        s.name for s in backend_statuses() if s.slow or s.name.startswith("wasm-scalar") or "sdk" in s.name
    } | set(native_names[:-1])
    marks = {s.name: [pytest.mark.slow] if s.name in long else [] for s in backend_statuses()}
    for s in backend_statuses():
        if s.slow and not s.available:
            marks[s.name].append(pytest.mark.skip(reason=s.reason))
    shown = [s.name for s in backend_statuses() if s.name != "numpy" and (s.available or s.slow)]
    return [pytest.param(name, marks=marks[name]) for name in shown]


@pytest.mark.parametrize("backend", _backends())
@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_same_bits(kernel: str, backend: str) -> None:
    mine = [case for case in CASES if case.kernel == kernel]
    failures = []
    for case in mine:
        result = CHECKER.check(case, get_backend(backend))
        if result.differing_bits:
            failures.append(f"{case.name}: {result.error or result.differences[0]}")
    assert mine and not failures, f"{len(failures)} of {len(mine)} cases differ, first {failures[0]}"


def test_expected_backends() -> None:
    """A backend that this machine must have is not quietly missing."""
    have = set(available_backends())
    expected = {"numpy", "native-scalar"}
    if platform.machine() == "x86_64":
        expected |= {f"native-{t}" for t, needs in native.TARGETS.items() if needs <= native.cpu_features()}
    expected |= {"wasm-scalar@wasmtime", "wasm-simd128@wasmtime"}
    assert expected <= have, {s.name: s.reason for s in backend_statuses() if s.name in expected - have}
    assert any(name.startswith("wasm-simd128@wasmer") for name in have), "no Wasmer host runs the kernels"


def test_reference_and_table_name_the_same_kernels() -> None:
    assert set(KERNEL_FUNCTIONS) == set(KERNELS) == {case.kernel for case in CASES}


def test_case_names_are_unique_and_outputs_are_guarded() -> None:
    assert len({(c.kernel, c.name) for c in CASES}) == len(CASES)
    for case in CASES:
        first, second = case.build(), case.build()
        for arg in KERNELS[case.kernel].args:
            assert first[arg.name].tobytes() == second[arg.name].tobytes(), (case.name, arg.name)


class _FaultyBackend:
    """The reference with one planted fault in its outputs."""

    name = "faulty"

    def __init__(self, kernel: str, fault) -> None:
        self._kernel, self._fault = kernel, fault

    def call(self, kernel: str, **arguments) -> None:
        before = {k: v.copy() for k, v in arguments.items() if isinstance(v, np.ndarray)}
        NumpyBackend().call(kernel, **arguments)
        if kernel == self._kernel:
            self._fault(arguments, before)


def _swap_nibble(arguments, before) -> None:
    changed = np.nonzero(arguments["pool"] != before["pool"])[0]
    if changed.size:
        byte = arguments["pool"][changed[0]]
        arguments["pool"][changed[0]] = (byte >> 4) | ((byte & 15) << 4)


def _drop_tail(arguments, before) -> None:
    arguments["scores"][:, -3] = before["scores"][:, -3]


def _fuse(arguments, before) -> None:
    """What one fused multiply-add in the last step of a dot product would give."""
    x, w = arguments["x"].astype(np.float64), arguments["w"].astype(np.float64)
    arguments["y"][:] = (x @ w.T).astype(np.float32)


def _write_input(arguments, before) -> None:
    arguments["query"][:] += 1


@pytest.mark.parametrize(
    "kernel, fault",
    [
        ("append_keys", _swap_nibble),
        ("score_keys", _drop_tail),
        ("linear", _fuse),
        ("score_keys", _write_input),
    ],
)
def test_planted_faults_are_seen(kernel: str, fault) -> None:
    backend = _FaultyBackend(kernel, fault)
    mine = [case for case in CASES if case.kernel == kernel]
    results = [ParityChecker().check(case, backend) for case in mine]
    assert any(r.differing_bits for r in results)


def test_a_single_flipped_bit_is_counted_and_located() -> None:
    case = next(c for c in CASES if c.kernel == "softmax" and c.name.startswith("33"))
    want = run_case(case, NumpyBackend())
    got = {k: v.copy() for k, v in want.items()}
    got["scores"].view(np.uint32)[2, 5] ^= 1 << 7
    result = compare(case, "flipped", want, got)
    assert result.differing_bits == 1
    assert result.differences[0].first_index == (2, 5) and result.differences[0].argument == "scores"


def test_exact_kernels_agree_with_the_float32_oracle() -> None:
    """16-bit queries and weights stay within their rounding of the float32 twin."""
    backend = NumpyBackend()
    for case in (c for c in CASES if c.kernel == "sum_values" and "x64x" in c.name):
        arguments = case.build()
        twin = {**arguments, "out": arguments["out"].copy()}
        backend.call("sum_values", **arguments)
        backend.call("sum_values_f32", **twin)
        weight = np.abs(arguments["weights"]).sum(axis=1).max() * 4 * 3
        assert np.abs(arguments["out"] - twin["out"]).max() <= weight / 32639
