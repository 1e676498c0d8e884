"""Does a backend give the reference's bits? The comparison behind the parity test and `tq parity`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tq_core.errors import TqError
from tq_core.kernels.backend import Backend, NumpyBackend
from tq_core.kernels.cases import Case
from tq_core.kernels.table import KERNELS


@dataclass(frozen=True)
class Difference:
    """How one output of one case differs; ``bits`` counts unequal bits over all its elements."""

    kernel: str
    case: str
    backend: str
    argument: str
    bits: int
    elements: int
    first_index: tuple[int, ...]
    expected: str
    got: str

    def as_dict(self) -> dict[str, Any]:
        """JSON-able form."""
        return asdict(self)


@dataclass(frozen=True)
class ParityResult:
    """Outcome of one case on one backend: bits compared, differences, or the error that stopped it."""

    bits_compared: int
    differences: tuple[Difference, ...]
    error: str = ""

    @property
    def differing_bits(self) -> int:
        """Unequal bits; a case that raised counts as at least one."""
        return sum(d.bits for d in self.differences) + bool(self.error)


def run_case(case: Case, backend: Backend) -> dict[str, np.ndarray]:
    """Run a case on a backend and return its outputs; also checks that inputs were left alone.

    Raises KernelError through the backend, and TqError when an input array was changed.
    """
    arguments = case.build()
    kernel = KERNELS[case.kernel]
    before = {a.name: arguments[a.name].tobytes() for a in kernel.args if a.role == "in"}
    backend.call(case.kernel, **arguments)
    for name, stored in before.items():
        if arguments[name].tobytes() != stored:
            raise TqError(f"{case.kernel}: {name}: expected an unchanged input, got a changed one")
    return {a.name: arguments[a.name] for a in kernel.args if a.role != "in"}


def compare(
    case: Case, backend: str, expected: dict[str, np.ndarray], got: dict[str, np.ndarray]
) -> ParityResult:
    """Compare outputs bit for bit."""
    compared, differences = 0, []
    for name, want in expected.items():
        a, b = want.view(f"u{want.itemsize}"), got[name].view(f"u{want.itemsize}")
        compared += 8 * want.nbytes
        unequal = a != b
        if unequal.any():
            index = tuple(int(i[0]) for i in np.nonzero(unequal))
            bits = int(np.unpackbits((a ^ b).reshape(-1).view(np.uint8)).sum())
            shown = (str(want[index]), str(got[name][index]))
            differences.append(
                Difference(case.kernel, case.name, backend, name, bits, int(unequal.sum()), index, *shown)
            )
    return ParityResult(compared, tuple(differences))


class ParityChecker:
    """Compares backends with the reference, which runs once per case."""

    def __init__(self) -> None:
        self._reference = NumpyBackend()
        self._expected: dict[tuple[str, str], dict[str, np.ndarray]] = {}

    def check(self, case: Case, backend: Backend) -> ParityResult:
        """Run one case on one backend; an exception becomes a result with ``error`` set."""
        key = (case.kernel, case.name)
        if key not in self._expected:
            self._expected[key] = run_case(case, self._reference)
        try:
            got = run_case(case, backend)
        except TqError as error:
            return ParityResult(0, (), f"{type(error).__name__}: {error}")
        return compare(case, backend.name, self._expected[key], got)
