"""Every kernel on drawn arguments, on every fast backend: the reference's bits.

The same few examples every time; `make parity-deep` draws $TQ_PARITY_EXAMPLES new ones, on the slow backends too.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tq_core.errors import TqError
from tq_core.kernels.backend import Backend, NumpyBackend, available_backends, get_backend
from tq_core.kernels.cases import Case
from tq_core.kernels.parity import compare, run_case
from tq_core.kernels.table import KERNELS
from tq_core.tests.kernels.drawn import STRATEGIES, drawn_cases

pytestmark = pytest.mark.kernels
EXAMPLES = int(os.environ.get("TQ_PARITY_EXAMPLES", "0"))
DEEP = EXAMPLES > 0


def _backends() -> list[str]:
    """All of them when deep; else those that answer in microseconds."""
    names = [n for n in available_backends(slow=DEEP) if n != "numpy"]
    return names if DEEP else [n for n in names if not n.startswith("wasm-scalar") and "sdk" not in n]


def difference(case: Case, backends: list[Backend]) -> str:
    """What differs first, with kernel, sizes, backend and index; empty when nothing does."""
    expected = run_case(case, NumpyBackend())
    for backend in backends:
        where = f"{case.kernel} {case.name} on {backend.name}"
        try:
            got = run_case(case, backend)
        except TqError as error:
            return f"{where}: {type(error).__name__}: {error}"
        for d in compare(case, backend.name, expected, got).differences:
            index = list(d.first_index)
            return f"{where}: {d.argument}{index}: expected {d.expected}, got {d.got}; {d.elements} elements differ"
    return ""


# Kernels whose compilation or whose numpy twin takes seconds.
LONG = (
    "append_keys",
    "append_values",
    "attend_half",
    "attend_half_each",
    "attend_packed",
    "attend_packed_each",
    "encode_rows",
    "score_affine",
    "score_bytes",
    "score_keys",
    "sum_affine",
    "sum_bytes",
    "sum_values",
)


@pytest.mark.parametrize(
    "kernel", [pytest.param(k, marks=[pytest.mark.slow] if k in LONG else []) for k in sorted(KERNELS)]
)
def test_same_bits_on_drawn_arguments(kernel: str) -> None:
    backends = [get_backend(name) for name in _backends()]
    assert any(b.name.startswith("native-") for b in backends)
    seen: list[str] = []

    @settings(
        max_examples=EXAMPLES or 12, deadline=None, derandomize=not DEEP, database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )  # fmt: skip
    @given(drawn_cases(kernel))
    def compare_all(case: Case) -> None:
        seen.append(case.name)
        found = difference(case, backends)
        assert not found, found

    compare_all()
    assert len(set(seen)) > 3


def test_every_kernel_has_a_strategy() -> None:
    assert set(STRATEGIES) == set(KERNELS)


class _DropsTheLastToken:
    """The reference, one column short on histories of more than a page."""

    name, parallel = "one-short", False

    def call(self, kernel: str, **arguments: object) -> None:
        scores = arguments["scores"]
        assert isinstance(scores, np.ndarray)
        before = scores.copy()
        NumpyBackend().call(kernel, **arguments)
        last = int(arguments["n_tokens"]) + int(arguments["offset"]) - 1  # type: ignore[call-overload]
        if arguments["n_tokens"] > 128:  # type: ignore[operator]
            scores[:, last] = before[:, last]


@pytest.mark.slow
def test_a_fault_is_found_and_told_with_kernel_sizes_and_index() -> None:
    @settings(max_examples=60, deadline=None, derandomize=True, database=None)
    @given(drawn_cases("score_keys"))
    def compare_faulty(case: Case) -> None:
        found = difference(case, [_DropsTheLastToken()])
        assert not found, found

    with pytest.raises(
        AssertionError, match=r"score_keys [\d.x]+x129x\d, .* on one-short: scores\[0, 131\]: expected"
    ):
        compare_faulty()


@given(st.data())
@settings(max_examples=20, deadline=None, derandomize=True, database=None)
def test_a_drawn_case_gives_the_same_arguments_each_time(data: st.DataObject) -> None:
    kernel = data.draw(st.sampled_from(sorted(KERNELS)))
    case = data.draw(drawn_cases(kernel))
    first, second = case.build(), case.build()
    for arg in KERNELS[kernel].args:
        assert first[arg.name].tobytes() == second[arg.name].tobytes()
        assert not np.shares_memory(first[arg.name], second[arg.name])
