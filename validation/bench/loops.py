"""Kernels repeated inside C++, so that what is timed is the kernel and not the Python call around it.

For every kernel of the table and every native target one function is generated,
``tq_bench::TARGET::repeat_NAME(calls, first_layer, n_layers, <the kernel's parameters>)``. A paged kernel's block table then has
one row per layer, and call i reads layer (first_layer + i) % n_layers; other kernels ignore both.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from tq_core.errors import BackendError
from tq_core.kernels import cling, native
from tq_core.kernels.arguments import bind
from tq_core.kernels.table import KERNELS, Kernel
from tq_core.paths import CPP

FLOAT_TARGETS = ("avx2", "avx512")  # targets with a float16 kernel of the benchmark's own

Burst = Callable[[int], None]


def native_targets() -> list[str]:
    """Targets that this CPU has, narrowest first. Raises BackendError when the kernels cannot be compiled."""
    cling.load_kernels()
    return [name for name, needs in native.TARGETS.items() if needs <= native.cpu_features()]


def repeat_source(kernel: Kernel, target: str) -> str:
    """C++ of one repeating function."""
    parameters = kernel.c_parameters()
    names = [
        "pages + size_t((first_layer + call) % n_layers) * p" if name == "pages" else name
        for _, name in parameters
    ]
    declared = ", ".join(f"{ctype} {name}" for ctype, name in parameters)
    return (
        f"namespace tq_bench {{ namespace {target} {{\n"
        f"inline void repeat_{kernel.name}(uint32_t calls, uint32_t first_layer, uint32_t n_layers, {declared}) {{\n"
        f"  for (uint32_t call = 0; call < calls; ++call) {{\n"
        f"    tq::{target}::{kernel.name}({', '.join(names)});\n"
        f'    asm volatile("" : : "r"(first_layer), "r"(n_layers) : "memory");\n'
        "  }\n}\n}}\n"
    )


@lru_cache(maxsize=1)
def load_bench() -> Any:
    """The C++ namespace ``tq_bench``. Raises BackendError when it does not compile."""
    cling.load_kernels()
    cppyy = cling.load_cppyy()
    source = "".join(
        repeat_source(kernel, target) for target in native_targets() for kernel in KERNELS.values()
    )
    try:
        cppyy.include(str(CPP / "bench" / "bench.h"))
        cppyy.cppdef(source)
    except Exception as error:
        raise BackendError(f"cpp/bench: expected to compile under Cling, got: {error}") from error
    return cppyy.gbl.tq_bench


def _arrays(arrays: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    return [a.reshape(-1) if a.size else np.zeros(1, a.dtype) for a in arrays]


def repeated(kernel: str, target: str, tables: np.ndarray | None = None, **arguments: Any) -> Burst:
    """A burst of one kernel: checked once against layer 0, then repeated over the rows of ``tables``.

    ``tables`` is (layers, pages) uint32, the block table of every layer. Raises as ``arguments.bind`` does.
    """
    layers = 1 if tables is None else len(tables)
    for row in tables if tables is not None else ():
        bound = bind(kernel, {**arguments, "pages": row})
    if tables is None:
        bound = bind(kernel, arguments)
    names = [a.name for a in bound.kernel.args]
    arrays = [tables if name == "pages" and tables is not None else a for name, a in zip(names, bound.arrays)]
    fixed = (*_arrays(tuple(arrays)), *bound.sizes, *bound.scalars)
    function = getattr(getattr(load_bench(), target), f"repeat_{kernel}")
    return rotating(lambda calls, first: function(calls, first, layers, *fixed), layers)


def rotating(run: Callable[[int, int], None], layers: int) -> Burst:
    """A burst that goes on with the layer after the last one it read."""
    position = 0

    def burst(calls: int) -> None:
        nonlocal position
        run(calls, position)
        position = (position + calls) % layers

    return burst
