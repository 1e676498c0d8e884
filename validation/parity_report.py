"""The parity certificate: every kernel on every backend, compared with the numpy reference bit for bit."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tq_core.errors import BackendError, ValueRangeError, check
from tq_core.kernels import qemu
from tq_core.kernels.backend import Backend, backend_statuses, get_backend
from tq_core.kernels.cases import Case, cases
from tq_core.kernels.native import TARGETS, cpu_features
from tq_core.kernels.parity import ParityChecker
from tq_core.kernels.table import KERNELS
from validation.parity_facts import build_facts, engine_facts, known_answers, wasm_opcodes

REFERENCE = "numpy"
QUICK_STRIDE = 7
SHOWN_DIFFERENCES = 20
NOT_ASKED = "not asked for in this run"
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
    """``scope`` is "all cases" or "subset".

    ``missing`` names backends that this machine should have and lacks, ``not_exercised`` every known backend that was
    compared on no case, with the reason. ``engines`` says of each exercised one what made it, what runs it and how it
    did on the known answers. ``matrix`` has, per kernel, the names of its cases, the bits compared in each, and for
    each backend the cases that differed with how many bits; a case that is not named there differed in none.
    """

    scope: str
    cases: int
    cases_known: int
    backends: tuple[str, ...]
    missing: tuple[dict[str, str], ...]
    rows: tuple[ParityRow, ...]
    differences: tuple[dict[str, Any], ...]
    built_with: dict[str, Any]
    not_exercised: tuple[dict[str, str], ...] = ()
    engines: tuple[dict[str, Any], ...] = ()
    matrix: tuple[dict[str, Any], ...] = ()
    wasm_opcodes: tuple[dict[str, Any], ...] = ()

    def status(self, strict: bool = False) -> Literal["pass", "fail", "incomplete"]:
        """fail when a bit, a known answer or the instruction gate does; incomplete when a backend is missing or the
        reference was compared with itself alone (``strict``: fail)."""
        answers = any(e["known_answers"]["status"] == "fail" for e in self.engines)
        gates = any(m["gate"].startswith("fail") for m in self.wasm_opcodes)
        if self.differing_bits or answers or gates:
            return "fail"
        if self.missing or not self.independent:
            return "fail" if strict else "incomplete"
        return "pass"

    @property
    def independent(self) -> bool:
        """Whether anything but the reference was compared with the reference."""
        return any(row.backend != REFERENCE for row in self.rows)

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
            "not_exercised": list(self.not_exercised),
            "engines": list(self.engines),
            "matrix": list(self.matrix),
            "wasm_opcodes": list(self.wasm_opcodes),
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
    """All parity cases, or every seventh of each kernel's, its first and its last included."""
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
    matrix: dict[str, dict[str, Any]] = {}
    differences: list[dict[str, Any]] = []
    for number, case in enumerate(todo):
        if progress is not None:
            progress(f"parity {case.kernel}", number, len(todo))
        entry = matrix.setdefault(
            case.kernel, {"kernel": case.kernel, "cases": [], "bits": [], "differing": {}}
        )
        entry["cases"].append(case.name)
        entry["bits"].append(0)
        for backend in compared:
            result = checker.check(case, backend)
            row = totals.setdefault((case.kernel, backend.name), [0, 0, 0, 0])
            for i, n in enumerate((1, result.bits_compared, result.differing_bits, bool(result.error))):
                row[i] += n
            entry["bits"][-1] = max(entry["bits"][-1], result.bits_compared)
            wrong = entry["differing"].setdefault(backend.name, {})
            if result.differing_bits:
                wrong[case.name] = result.differing_bits
            differences += [d.as_dict() for d in result.differences]
            if result.error:
                differences.append(
                    {"kernel": case.kernel, "case": case.name, "backend": backend.name, "error": result.error}
                )
    if progress is not None:
        progress("parity", len(todo), len(todo))
    answers = {b.name: known_answers(b) for b in compared}
    return Certificate(
        scope="subset" if quick else "all cases",
        cases=len(todo),
        cases_known=sum(1 for _ in cases()),
        backends=tuple(b.name for b in backends),
        missing=missing_backends(names),
        rows=tuple(ParityRow(k, b, *row) for (k, b), row in totals.items()),
        differences=tuple(one_of_each_first(differences)[:SHOWN_DIFFERENCES]),
        built_with=build_facts(),
        not_exercised=not_exercised({b.name for b in backends}),
        engines=tuple(
            {"name": name, **engine_facts(name), "known_answers": answer} for name, answer in answers.items()
        ),
        matrix=tuple(matrix.values()),
        wasm_opcodes=tuple(wasm_opcodes()),
    )


def one_of_each_first(differences: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first difference of each kernel and backend before the others, so that none is crowded out."""
    seen: set[tuple[str, str]] = set()
    first: list[dict[str, Any]] = []
    rest: list[dict[str, Any]] = []
    for d in differences:
        pair = (d["kernel"], d["backend"])
        (rest if pair in seen else first).append(d)
        seen.add(pair)
    return first + rest


def not_exercised(run: set[str]) -> tuple[dict[str, str], ...]:
    """Known and expected backends that are not among ``run``, with the reason."""
    reasons = {s.name: NOT_ASKED if s.available else s.reason for s in backend_statuses()}
    names = dict.fromkeys([*expected_backends(), *reasons, qemu.NAME])
    neon = "native-neon" in reasons  # the machine's own NEON makes the emulated one needless
    return tuple(
        {"name": name, "reason": reasons.get(name, "unknown here")}
        for name in names
        if name not in run and not (neon and name == qemu.NAME)
    )
