"""C++ written in a notebook cell, compiled in this process and callable at once.

C++ has no redefinition, a notebook is edited and run again. So each text gets its own namespace,
``ex_`` and eight digits of its hash: the same text is compiled once, an edited one beside it.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any

from tq_core.errors import KernelError
from tq_core.kernels import cling


def _parts(source: str) -> tuple[str, str]:
    """(#include lines, everything else): a header must not end up inside the namespace."""
    lines = source.splitlines()
    includes = [line for line in lines if line.lstrip().startswith("#include")]
    rest = ["" if line.lstrip().startswith("#include") else line for line in lines]
    return "\n".join(includes), "\n".join(rest)


@cache
def compile_cell(source: str) -> Any:
    """The namespace with the functions of ``source``; headers of cpp/ are on the include path.

    Raises KernelError with the compiler's message when it does not compile, BackendError without cppyy.
    """
    cling.load_kernels()  # pins the flags, and contraction off: a * b + c is rounded twice, as in numpy
    cppyy = cling.load_cppyy()
    name = "ex_" + hashlib.sha256(source.encode()).hexdigest()[:8]
    includes, rest = _parts(source)
    try:
        cppyy.cppdef(f"{includes}\nnamespace {name} {{\n{rest}\n}}\n")
    except SyntaxError as error:
        raise KernelError(f"source: expected C++ that compiles, got: {str(error).strip()}") from None
    return getattr(cppyy.gbl, name)
