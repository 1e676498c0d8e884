"""Parity as a table: equal bits or not, backend by backend, over a share of the parity cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tq_core.kernels.backend import available_backends, get_backend
from tq_core.kernels.cases import Case, cases
from tq_core.kernels.parity import ParityChecker

# What a cache of structured TurboQuant calls when it takes a token and answers a query.
CACHE_KERNELS = (
    "append_keys",
    "append_values",
    "quantize_query",
    "score_keys",
    "attend_packed",
    "attend_half",
)


def some_cases(per_kernel: int, kernels: Sequence[str] | None = None) -> list[Case]:
    """The first and then evenly spread cases of every kernel, or of these, ``per_kernel`` of each."""
    by_kernel: dict[str, list[Case]] = {}
    for case in cases():
        if kernels is None or case.kernel in kernels:
            by_kernel.setdefault(case.kernel, []).append(case)
    chosen: list[Case] = []
    for found in by_kernel.values():
        step = max(1, len(found) // per_kernel)
        chosen += found[::step][:per_kernel]
    return chosen


def quick_backends() -> list[str]:
    """One native backend, the one that is used, and every wasm one: those that need no minutes of compiling."""
    names = available_backends()
    native = [name for name in names if name.startswith("native-")]
    return [*native[-1:], *(name for name in names if name.startswith("wasm-"))]


def compare(
    backends: Sequence[str],
    per_kernel: int = 4,
    kernels: Sequence[str] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[list[object]]:
    """(backend, cases, bits compared, bits that differ from numpy) for each backend."""
    checker, chosen, rows = ParityChecker(), some_cases(per_kernel, kernels), []
    for done, name in enumerate(backends):
        if progress:
            progress(f"parity, now {name}", done, len(backends))
        results = [checker.check(case, get_backend(name)) for case in chosen]
        bits = sum(r.bits_compared for r in results)
        rows.append([name, len(results), bits, sum(r.differing_bits for r in results)])
    if progress:
        progress("parity", len(backends), len(backends))
    return rows
