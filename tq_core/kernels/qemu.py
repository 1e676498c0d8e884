"""The NEON backend on machines without NEON: a cross-built aarch64 program under ``qemu-aarch64``.

The program is built from the same header as every other target (wasm/neon.py) and takes the frames of
the wasm command loop, so a call is what it is for a wasm guest. It is slow, and an emulator says
nothing about speed: it exists to compare bits. ``available_backends`` lists it on request only, and
``get_backend`` gives it only by name.
"""

from __future__ import annotations

import functools
import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tq_core.errors import BackendError
from tq_core.kernels.backend import Backend, BackendStatus
from tq_core.kernels.hosts.qemu_guest import QemuInstance
from tq_core.kernels.table import KERNELS
from tq_core.kernels.wasm import GuestBackend
from tq_core.paths import BUILD, ROOT

NAME = "native-neon@qemu"
EMULATOR = "qemu-aarch64"
PROGRAM = BUILD / "neon" / "tq_neon"
BUILDER = "wasm.neon"


def missing() -> str:
    """What keeps the backend from running here, with the command that helps; empty when nothing does."""
    if shutil.which(EMULATOR) is None:
        return f"not exercised: no {EMULATOR} (Debian: apt-get install -y qemu-user)"
    if importlib.util.find_spec("ziglang") is None:
        return "not exercised: no ziglang to cross-build with; run `make setup`"
    return ""


def built_program() -> Path:
    """The program, built now if it is not current. Raises BackendError with the compiler's words.

    The builder is a command of the layer above, so it is started as one.
    """
    done = subprocess.run([sys.executable, "-m", BUILDER], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise BackendError(f"{NAME}: `python -m {BUILDER}` failed: {done.stderr.strip()[-2000:]}")
    return PROGRAM


@functools.cache
def _made() -> GuestBackend:
    """The backend, made once. Raises BackendError.

    There is no self-test as for the wasm hosts: nobody computes with this backend, and a wrong bit
    belongs in the comparison that it is made for.
    """
    command = [EMULATOR, str(built_program())]
    return GuestBackend(NAME, lambda: QemuInstance(command, KERNELS, NAME))


def candidates() -> list[tuple[BackendStatus, Callable[[], Backend]]]:
    """The one backend of this module; nothing is built before it is made."""
    reason = missing()
    note = reason or f"{_emulator_version()}, cross-built on first use; slow, for comparing bits only"
    return [(BackendStatus(NAME, not reason, note, slow=True), _made)]


def _emulator_version() -> str:
    done = subprocess.run([EMULATOR, "--version"], capture_output=True, text=True)
    return done.stdout.split(" (")[0].strip() or EMULATOR
