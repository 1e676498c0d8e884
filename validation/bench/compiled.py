"""The decode step compiled ahead of time by g++ -O3, beside the one that Cling compiles in the process."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from tq_core.errors import BackendError
from tq_core.paths import CPP

FLAGS = ("-O3", "-march=native", "-ffp-contract=off", "-std=c++20", "-w", "-shared", "-fPIC", "-pthread")
_N_WORDS = 4  # uint32 arguments in front of the arrays: calls, first, layers, threads


@lru_cache(maxsize=1)
def library() -> tuple[Any, str, str]:
    """(loaded library, target that it was compiled for, compiler version). Raises BackendError."""
    compiler = shutil.which("g++")
    if compiler is None:
        raise BackendError("g++: not installed")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "step.so"
        done = subprocess.run(
            [compiler, *FLAGS, "-o", str(out), str(CPP / "bench" / "one_target.cpp")],
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise BackendError(f"g++: expected cpp/bench to compile, got: {done.stderr.strip()[-400:]}")
        loaded = ctypes.CDLL(str(out))
    loaded.tq_target.restype = ctypes.c_char_p
    version = subprocess.run([compiler, "-dumpfullversion"], capture_output=True, text=True).stdout.strip()
    return loaded, loaded.tq_target().decode(), f"g++ {version} {' '.join(FLAGS[:3])}"


def step_call(
    arrays: list[np.ndarray], sizes: tuple[int, ...], numbers: tuple[int, ...], floats: tuple[float, ...]
) -> Any:
    """``call(calls, first, layers, threads)`` with everything else fixed: arguments of cpp/bench/step.h's decode, in its order.

    sizes ends with the pool's bytes, the only 64-bit number. The function holds on to the arrays.
    """
    decode = library()[0].tq_decode
    fixed: list[Any] = [ctypes.c_void_p(a.ctypes.data) for a in arrays]
    fixed += [ctypes.c_uint32(n) for n in sizes[:-1]]
    fixed.append(ctypes.c_uint64(sizes[-1]))
    fixed += [ctypes.c_uint32(n) for n in numbers]
    fixed += [ctypes.c_float(x) for x in floats]

    def call(*words: int, _held: list[np.ndarray] = arrays) -> None:
        decode(*(ctypes.c_uint32(w) for w in words[:_N_WORDS]), *fixed)

    return call
