"""Parity as a table: equal bits or not, backend by backend, over a share of the parity cases."""

from __future__ import annotations

from collections.abc import Sequence

from tq_core.kernels.backend import get_backend
from tq_core.kernels.cases import Case, cases
from tq_core.kernels.parity import ParityChecker


def some_cases(per_kernel: int) -> list[Case]:
    """The first and then evenly spread cases of every kernel, ``per_kernel`` of each."""
    by_kernel: dict[str, list[Case]] = {}
    for case in cases():
        by_kernel.setdefault(case.kernel, []).append(case)
    chosen: list[Case] = []
    for found in by_kernel.values():
        step = max(1, len(found) // per_kernel)
        chosen += found[::step][:per_kernel]
    return chosen


def compare(backends: Sequence[str], per_kernel: int = 4) -> list[list[object]]:
    """(backend, cases, bits compared, bits that differ from numpy) for each backend."""
    checker, chosen, rows = ParityChecker(), some_cases(per_kernel), []
    for name in backends:
        results = [checker.check(case, get_backend(name)) for case in chosen]
        bits = sum(r.bits_compared for r in results)
        rows.append([name, len(results), bits, sum(r.differing_bits for r in results)])
    return rows
