"""The product's checks in the form that exhibits take: each judges one result and says why."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tq_core.codecs.checkbench import Bench, CheckFailed
from tq_core.codecs.checks import Check
from tq_core.kernels.backend import Backend, NumpyBackend
from tq_core.kernels.cases import Case
from tq_core.kernels.parity import ParityChecker
from validation.budget.published import WRONG, check_entry
from validation.findings import Findings
from validation.museum.exhibit import Outcome, Stop
from validation.rules import gates_for

PASSED = "passes"


def conformance(check: Check, head_dim: int = 48, **bench: Any) -> Stop:
    """A conformance check; judges a codec, or (codec, backend)."""

    def run(result: Any) -> Outcome:
        codec, backend = result if isinstance(result, tuple) else (result, NumpyBackend())
        try:
            with np.errstate(all="ignore"):  # the check judges what comes of it, not numpy's warning
                check(Bench(codec, backend, head_dim, **bench))
        except CheckFailed as error:
            return Outcome(True, str(error))
        return Outcome(False, PASSED)

    return Stop(f"conformance: {check.__name__}", f"{check.__module__}.{check.__name__}", run)


def rule(name: str) -> Stop:
    """A gate of a validation run; judges a Trial by its findings. Stopped means that the verdict is not "pass"."""

    def run(result: Any) -> Outcome:
        findings: Findings = result.findings
        gate = next(g for g in gates_for(findings.plan, findings) if g.name == name)
        verdict = gate.judge(findings)
        value = "no value" if verdict.value is None else f"{verdict.value:.4g}"
        said = f"{verdict.status}: {value} {verdict.unit}, wanted {verdict.op} {verdict.limit:.4g}"
        return Outcome(verdict.status != "pass", said)

    return Stop(f"gate: {name}", "validation.rules.gates_for", run)


def refusal(error: type[Exception], where: str) -> Stop:
    """A typed error, or MemoryError; judges a call without arguments. Any other error is not caught: it would be a defect."""

    def run(call: Callable[[], object]) -> Outcome:
        try:
            call()
        except error as caught:
            return Outcome(True, f"{type(caught).__name__}: {caught}")
        return Outcome(False, "accepted")

    return Stop(f"refused: {error.__name__}", where, run)


def parity(cases: Callable[[], Iterable[Case]]) -> Stop:
    """The bit-for-bit comparison with the numpy reference; judges a backend on these cases."""

    def run(backend: Backend) -> Outcome:
        checker, bits, compared, first = ParityChecker(), 0, 0, ""
        for case in cases():
            found = checker.check(case, backend)
            bits, compared = bits + found.differing_bits, compared + found.bits_compared
            if found.differing_bits and not first:
                first = f", first in {case.kernel}, case {case.name}"
        return Outcome(bits > 0, f"{bits:,} of {compared:,} bits differ{first}")

    return Stop("parity with numpy", "tq_core.kernels.parity.ParityChecker", run)


def claim() -> Stop:
    """The recomputation of published figures; judges an entry as published.json has them."""

    def run(entry: dict[str, Any]) -> Outcome:
        made = check_entry(entry)
        wrong = made.verdict == WRONG
        return Outcome(wrong, f"claimed {made.published}, computed {made.right}" if wrong else made.verdict)

    return Stop("published figures", "validation.budget.published.check_entry", run)
