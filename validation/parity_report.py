"""The parity certificate: every kernel on every backend, compared with the numpy reference bit for bit."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tq_core.errors import BackendError, ValueRangeError, check
from tq_core.kernels.backend import Backend, backend_statuses, get_backend
from tq_core.kernels.cases import Case, cases
from tq_core.kernels.native import TARGETS, cpu_features
from tq_core.kernels.parity import ParityChecker
from tq_core.kernels.table import KERNELS

REFERENCE = "numpy"
QUICK_STRIDE = 6
SHOWN_DIFFERENCES = 20
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class ParityRow:
    """One kernel on one backend."""

    kernel: str
    backend: str
    cases: int
    bits_compared: int
    differing_bits: int
    errors: int


@dataclass(frozen=True)
class Certificate:
    """``scope`` is "all cases" or "subset". ``missing`` names backends that this machine should have and lacks."""

    scope: str
    cases: int
    cases_known: int
    backends: tuple[str, ...]
    missing: tuple[dict[str, str], ...]
    rows: tuple[ParityRow, ...]
    differences: tuple[dict[str, Any], ...]
    built_with: dict[str, Any]

    @property
    def differing_bits(self) -> int:
        """Unequal bits over everything that was compared; a case that raised counts as one."""
        return sum(row.differing_bits for row in self.rows)

    @property
    def bits_compared(self) -> int:
        """Bits compared over all rows."""
        return sum(row.bits_compared for row in self.rows)

    def as_dict(self) -> dict[str, Any]:
        """JSON-able form."""
        return {
            "scope": self.scope,
            "cases": self.cases,
            "cases_known": self.cases_known,
            "backends": list(self.backends),
            "missing": list(self.missing),
            "bits_compared": self.bits_compared,
            "differing_bits": self.differing_bits,
            "kernels": [vars(row) for row in self.rows],
            "differences": list(self.differences),
            "built_with": self.built_with,
        }


def expected_backends() -> list[str]:
    """Backends that the workbook's set-up gives this machine, from its CPU flags, system and Python version."""
    x86 = platform.machine() in ("x86_64", "AMD64")
    found = ["numpy"]
    for target, needs in TARGETS.items():
        if target == "scalar" or (x86 and needs <= cpu_features()):
            found.append(f"native-{target}")
    hosts = ["wasmer-sdk", "wasmtime"]
    if sys.version_info < (3, 11) and x86:
        hosts.insert(0, "wasmer")
    return found + [f"wasm-{target}@{host}" for host in hosts for target in ("scalar", "simd128")]


def missing_backends(among: Sequence[str] | None = None) -> tuple[dict[str, str], ...]:
    """Expected backends (or those named) that do not run here, with the reason."""
    reasons = {s.name: s.reason for s in backend_statuses() if not s.available}
    running = {s.name for s in backend_statuses() if s.available}
    wanted = expected_backends() if among is None else among
    return tuple({"name": n, "reason": reasons.get(n, "unknown here")} for n in wanted if n not in running)


def chosen_cases(quick: bool) -> list[Case]:
    """All parity cases, or every sixth of each kernel's, its first and its last included."""
    every = list(cases())
    if not quick:
        return every
    chosen = []
    for kernel in KERNELS:
        own = [c for c in every if c.kernel == kernel]
        chosen += own[:-1:QUICK_STRIDE] + own[-1:]
    return chosen


def certify(
    names: Sequence[str] | None = None,
    quick: bool = False,
    progress: Progress | None = None,
    extra: Sequence[Backend] = (),
) -> Certificate:
    """Run the cases on the named backends (all that run here when None) and on ``extra`` ones.

    Raises BackendError for a name that is not known, ValueRangeError for an empty list; a known backend
    that does not run here is listed in ``missing``. The reference is compared with itself only when named.
    """
    statuses = {s.name: s for s in backend_statuses()}
    check(names is None or len(names) > 0, "backend", "at least one name", 0, ValueRangeError)
    for name in names or ():
        check(name in statuses, "backend", f"one of {', '.join(statuses)}", repr(name), BackendError)
    wanted = list(statuses) if names is None else list(dict.fromkeys(names))
    backends = [get_backend(n) for n in wanted if statuses[n].available] + list(extra)
    compared = backends if names is not None else [b for b in backends if b.name != REFERENCE]
    todo = chosen_cases(quick)
    checker = ParityChecker()
    totals: dict[tuple[str, str], list[int]] = {}
    differences: list[dict[str, Any]] = []
    for number, case in enumerate(todo):
        if progress is not None:
            progress(f"parity {case.kernel}", number, len(todo))
        for backend in compared:
            result = checker.check(case, backend)
            row = totals.setdefault((case.kernel, backend.name), [0, 0, 0, 0])
            for i, n in enumerate((1, result.bits_compared, result.differing_bits, bool(result.error))):
                row[i] += n
            differences += [d.as_dict() for d in result.differences]
            if result.error:
                differences.append(
                    {"kernel": case.kernel, "case": case.name, "backend": backend.name, "error": result.error}
                )
    if progress is not None:
        progress("parity", len(todo), len(todo))
    return Certificate(
        scope="subset" if quick else "all cases",
        cases=len(todo),
        cases_known=sum(1 for _ in cases()),
        backends=tuple(b.name for b in backends),
        missing=missing_backends(names),
        rows=tuple(ParityRow(k, b, *row) for (k, b), row in totals.items()),
        differences=tuple(differences[:SHOWN_DIFFERENCES]),
        built_with=build_facts(),
    )


def build_facts() -> dict[str, Any]:
    """Compiler and flags, CPU features in use, host versions and digests of the wasm modules."""
    import json

    from tq_core.kernels.cling import cling_facts
    from tq_core.kernels.hosts import host_statuses
    from tq_core.kernels.wasm import module_dir

    try:
        compiler: dict[str, Any] = cling_facts()
    except BackendError as error:
        compiler = {"error": str(error)}
    try:
        manifest = json.loads((module_dir() / "manifest.json").read_text())
        modules = {name: str(entry["sha256"]) for name, entry in manifest["modules"].items()}
        modules_by = f"zig {manifest.get('ziglang', 'unknown')}"
    except (OSError, ValueError, KeyError, TypeError):
        modules, modules_by = {}, "not built"
    used = sorted({flag for needs in TARGETS.values() for flag in needs} & cpu_features())
    return {
        "compiler": compiler,
        "cpu_features": used,
        "hosts": {s.name: s.version if s.available else "not available" for s in host_statuses()},
        "wasm_modules": modules,
        "wasm_compiler": modules_by,
    }
