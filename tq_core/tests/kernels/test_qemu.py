"""The NEON backend under an emulator: asked for by name only, honest when absent, and its guest's failures."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from tq_core.errors import BackendError
from tq_core.kernels import backend, qemu
from tq_core.kernels.backend import NumpyBackend, get_backend
from tq_core.kernels.cases import cases
from tq_core.kernels.hosts.qemu_guest import QemuInstance
from tq_core.kernels.parity import ParityChecker, run_case
from tq_core.kernels.table import KERNELS
from tq_core.kernels.wasm import GuestBackend
from tq_core.paths import CPP

pytestmark = pytest.mark.kernels
needs_neon = [pytest.mark.slow, pytest.mark.skipif(bool(qemu.missing()), reason=qemu.missing())]


def _only_numpy_and_qemu(monkeypatch: pytest.MonkeyPatch) -> backend.BackendStatus:
    [(status, make)] = qemu.candidates()
    known = [
        backend._Candidate(backend.BackendStatus("numpy", True, ""), NumpyBackend),
        backend._Candidate(status, make),
    ]
    monkeypatch.setattr(backend, "_candidates", lambda: {c.status.name: c for c in known})
    monkeypatch.delenv("TQ_BACKEND", raising=False)
    return status


def test_it_is_never_chosen_unasked(monkeypatch) -> None:
    monkeypatch.setattr(qemu, "missing", lambda: "")
    monkeypatch.setattr(qemu, "_emulator_version", lambda: "an emulator")
    status = _only_numpy_and_qemu(monkeypatch)
    assert status.available and status.slow
    assert get_backend().name == "numpy"
    assert backend.available_backends() == ["numpy"]
    assert backend.available_backends(slow=True) == ["numpy", qemu.NAME]


@pytest.mark.parametrize(
    "module, name, help_words",
    [(shutil, "which", "apt-get install -y qemu-user"), (qemu.importlib.util, "find_spec", "make setup")],
)
def test_what_is_missing_is_said_with_the_command_that_helps(monkeypatch, module, name, help_words) -> None:
    monkeypatch.setattr(shutil, "which", lambda command: command)
    monkeypatch.setattr(module, name, lambda _: None)
    status = _only_numpy_and_qemu(monkeypatch)
    assert not status.available and status.reason.startswith("not exercised") and help_words in status.reason
    with pytest.raises(BackendError, match="not exercised"):
        get_backend(qemu.NAME)


@pytest.mark.parametrize(
    "program, message",
    [
        ("import time; time.sleep(60)", "within 0.5 s"),
        ("import sys; sys.exit(3)", "exit code 3"),
        ("import os; os.kill(os.getpid(), 11)", "SIGSEGV"),
        ("print('no frame at all', flush=True)", "expected a response frame"),
    ],
)
def test_a_guest_that_fails_is_an_error_and_ends(program: str, message: str) -> None:
    with pytest.raises(BackendError, match=message):
        QemuInstance(
            [sys.executable, "-c", program], KERNELS, "stub", call_seconds=0.5 if "0.5" in message else 30
        )


def test_a_program_that_cannot_be_started_is_an_error() -> None:
    with pytest.raises(BackendError, match="cannot load stub"):
        QemuInstance(["no-such-emulator"], KERNELS, "stub")


def _neon_guest() -> QemuInstance:
    return QemuInstance([qemu.EMULATOR, str(qemu.built_program())], KERNELS, qemu.NAME)


class TestTheGuest:
    pytestmark = needs_neon

    def test_memory_grows_and_keeps_its_bytes(self) -> None:
        guest = _neon_guest()
        guest.grow(guest.heap_base + 100)
        data = np.arange(100, dtype=np.uint8)
        guest.write(guest.heap_base, data)
        guest.grow(guest.heap_base + 5_000_000)
        assert guest.memory_bytes >= guest.heap_base + 5_000_000
        assert guest.read(guest.heap_base, np.uint8, 100).tobytes() == data.tobytes()
        guest.close()

    @pytest.mark.parametrize("offset", [-64, 1 << 30])
    def test_an_address_outside_its_memory_is_refused(self, offset: int) -> None:
        guest = _neon_guest()
        with pytest.raises(BackendError, match="BAD_ADDRESS"):
            guest.write(guest.heap_base + offset, np.zeros(8, np.uint8))
        with pytest.raises(BackendError, match="closed"):
            guest.write(guest.heap_base, np.zeros(8, np.uint8))
        guest.close()

    def test_two_threads_have_two_guests_and_the_same_bits(self) -> None:
        case = next(c for c in cases() if c.kernel == "attend_packed" and c.name.endswith("x161x0"))
        neon = get_backend(qemu.NAME)

        def work(_: int) -> tuple[int, bytes]:
            try:
                return id(neon.instance()), run_case(case, neon)["out"].tobytes()
            finally:
                neon.discard()

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            found = list(pool.map(work, range(2)))
        assert {out for _, out in found} == {run_case(case, NumpyBackend())["out"].tobytes()}

    def test_nothing_is_built_twice(self) -> None:
        from wasm.neon import NeonRecipe, build, is_current

        qemu.built_program()
        assert is_current(NeonRecipe()) and build(NeonRecipe()) is False

    @pytest.mark.parametrize(
        "file, good, bad, kernel",
        [
            ("base.h", "fp contract(off)", "fp contract(fast)", "linear"),
            ("simd/neon.h", "vmull_high_s16(x, y)", "vmull_high_s16(x, x)", "score_keys"),
            ("kernels/tails.h", "smaller(n, kLanes)", "smaller(n, kLanes - 1)", "softmax"),
        ],
    )
    def test_a_planted_fault_is_seen(
        self, tmp_path: Path, file: str, good: str, bad: str, kernel: str
    ) -> None:
        from wasm.neon import NeonRecipe, build

        shutil.copytree(CPP, tmp_path / "cpp")
        header = tmp_path / "cpp" / "tq" / file
        assert good in header.read_text()
        header.write_text(header.read_text().replace(good, bad))
        faulty = dataclasses.replace(
            NeonRecipe(),
            program=tmp_path / "out" / "tq_neon",
            include=tmp_path / "cpp",
            kernels={kernel: KERNELS[kernel]},
        )
        build(faulty)
        neon = GuestBackend(
            "faulty", lambda: QemuInstance([qemu.EMULATOR, str(faulty.program)], faulty.kernels, "faulty")
        )
        results = [ParityChecker().check(c, neon) for c in cases() if c.kernel == kernel]
        neon.discard()
        assert any(r.differing_bits for r in results)
