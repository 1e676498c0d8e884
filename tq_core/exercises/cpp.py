"""A learner's C++ text as a function of numpy arrays: compiled in this process, and compiled to wasm for a Wasmer host.

Both call it with arrays of the size that the kernel's entry states. In this process nothing stops C++ that writes
outside them; in wasm it stays inside the sandbox and is told.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from tq_core.errors import KernelError
from tq_core.kernels.arguments import Bound
from tq_core.kernels.hosts import preferred_wasmer
from tq_core.kernels.table import Kernel
from tq_core.kernels.wasm import WasmBackend
from tq_core.show.live_cpp import compile_cell
from wasm.build import WasmBuildError, build
from wasm.recipe import ROOT, Recipe

STUB = "#error NOT ATTEMPTED"
OUT = ROOT / "build" / "exercises"


def check_attempted(source: str) -> None:
    """Raise NotImplementedError for a text that still has the stub's line."""
    if STUB in source:
        raise NotImplementedError


def native(source: str, kernel: Kernel) -> Callable[..., None]:
    """The function of ``source`` in this process. Raises KernelError when it does not compile or is not there, BackendError without cppyy."""
    check_attempted(source)
    found = getattr(compile_cell(source), kernel.name, None)
    if found is None:
        raise KernelError(f"source: expected a function {kernel.name}, got none")

    def run(*arguments: Any) -> None:
        found(*arguments)

    return run


def _body(source: str) -> str:
    return "\n".join(line for line in source.splitlines() if not line.lstrip().startswith("#include"))


@cache
def _module(source: str, kernel: Kernel) -> Path:
    """Folder with the built modules; the same text is built once. Raises KernelError with what the compiler said."""
    folder = OUT / hashlib.sha256(source.encode()).hexdigest()[:16]
    include = folder / "source"
    include.mkdir(parents=True, exist_ok=True)
    # The build knows two targets, each a namespace. An exercise has one text for both.
    targets = "\n".join(f"namespace {name} {{\n{_body(source)}\n}}" for name in ("scalar", "wasm128"))
    (include / "cell.h").write_text(f"#pragma once\n#include <stdint.h>\nnamespace tq {{\n{targets}\n}}\n")
    try:
        build(Recipe(out=folder, kernels={kernel.name: kernel}, include=include, header="cell.h"))
    except WasmBuildError as error:
        said = [re.sub(r"^.*cell\.h", "cell.h", line) for line in str(error).splitlines()]
        raise KernelError("wasm: expected C++ that compiles, got:\n" + "\n".join(said[:6])) from None
    return folder


@cache
def _guest(source: str, kernel: Kernel) -> WasmBackend:
    return WasmBackend("scalar", preferred_wasmer(), _module(source, kernel), {kernel.name: kernel})


def in_wasm(source: str, kernel: Kernel) -> Callable[..., None]:
    """The function of ``source`` in the Wasmer host of this machine.

    Raises KernelError when it does not compile, BackendError when no Wasmer host runs here.
    """
    check_attempted(source)
    backend = _guest(source, kernel)

    def run(*arguments: Any) -> None:
        n = len(kernel.args)
        backend.run(Bound(kernel, tuple(arguments[:n]), tuple(arguments[n:]), ()))

    return run
