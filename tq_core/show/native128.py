"""The kernels in 128-bit registers of this machine: what a WebAssembly engine with SIMD128 is fairly compared with."""

from __future__ import annotations

import platform
from functools import cache
from typing import Any

from tq_core.errors import BackendError
from tq_core.kernels import cling
from tq_core.kernels.native import cpu_features
from tq_core.show.step_parts import region

TARGET = "show128"
_BODY = "".join(
    f'#include "{name}.h"\n'
    for name in ("tq/simd/wide", "bench/native128", "tq/simd/registers", "tq/simd/madd", "tq/kernels/all")
)


@cache
def load() -> Any:
    """The C++ namespace with the kernels in 128-bit registers. Raises BackendError off x86-64, without AVX or without cppyy."""
    if platform.machine() not in cling.BASELINE or "avx" not in cpu_features():
        raise BackendError(f"128-bit registers: expected x86-64 with AVX, got {platform.machine()}")
    space = cling.load_kernels()
    try:
        cling.load_cppyy().cppdef(region(TARGET, _BODY, "avx"))
    except SyntaxError as error:
        raise BackendError(f"cpp/bench/native128.h: expected to compile under Cling, got: {error}") from error
    return getattr(space, TARGET)
