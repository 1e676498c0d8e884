"""C++ source generated from the kernel table: the exported functions and the command's dispatch.

No signature is written by hand: `tq_core.kernels.table` describes a kernel once, and these two
sources follow. ``kernels`` is a parameter so that the generator can be tested on a toy table.
"""

from __future__ import annotations

from collections.abc import Mapping

from tq_core.errors import KernelError
from tq_core.kernels.hosts import frames
from tq_core.kernels.table import Kernel

_NOTICE = "// Generated from tq_core/kernels/table.py; do not edit.\n"


def _parameters(kernel: Kernel) -> str:
    return ", ".join(f"{ctype} {name}" for ctype, name in kernel.c_parameters())


def _declaration(kernel: Kernel) -> str:
    # The linkage name carries a prefix: a kernel may be called like a C library function.
    return f"void tq_export_{kernel.name}({_parameters(kernel)})"


def exports_source(kernels: Mapping[str, Kernel], namespace: str, header: str) -> str:
    """One exported wrapper per kernel of ``namespace`` (tq::scalar, tq::wasm128)."""
    wrappers = [
        f'extern "C" __attribute__((export_name("{k.name}"))) {_declaration(k)} {{\n'
        f"  {namespace}::{k.name}({', '.join(name for _, name in k.c_parameters())});\n}}\n"
        for k in kernels.values()
    ]
    return _NOTICE + f'#include "{header}"\n\n' + "\n".join(wrappers)


def _case(kernel: Kernel) -> str:
    arguments = [
        f"reinterpret_cast<{ctype}>(static_cast<uintptr_t>(words[{i}]))"
        if ctype.endswith("*")
        else f"__builtin_bit_cast(float, words[{i}])"
        if ctype == "float"
        else f"words[{i}]"
        for i, (ctype, _) in enumerate(kernel.c_parameters())
    ]
    return (
        f"    case {frames.kernel_id(kernel):#010x}u:  // {kernel.name}\n"
        f"      if (n_words != {len(arguments)}) return false;\n"
        f"      tq_export_{kernel.name}({', '.join(arguments)});\n"
        f"      return true;\n"
    )


def command_table_source(kernels: Mapping[str, Kernel]) -> str:
    """The header of the command loop: frame constants and the dispatch from kernel id to wrapper.

    Raises KernelError when two kernels share an id or one has too many parameters.
    """
    ids = {frames.kernel_id(k): k.name for k in kernels.values()}
    if len(ids) != len(kernels):
        raise KernelError(f"kernel table: expected {len(kernels)} different kernel ids, got {len(ids)}")
    longest = max((len(k.c_parameters()) for k in kernels.values()), default=0)
    if longest > frames.MAX_WORDS:
        raise KernelError(f"kernel table: expected at most {frames.MAX_WORDS} parameters, got {longest}")
    constants = {
        "kMagic": frames.MAGIC,
        "kMaxWords": frames.MAX_WORDS,
        "kMaxRanges": frames.MAX_RANGES,
        "kNoKernel": frames.NO_KERNEL,
    }
    return (
        _NOTICE
        + "#pragma once\n#include <stdint.h>\n\n"
        + "".join(f"constexpr uint32_t {name} = {value:#x}u;\n" for name, value in constants.items())
        + f"enum class Status : uint32_t {{ {', '.join(frames.STATUS)} }};\n\n"
        + "".join(f'extern "C" {_declaration(k)};\n' for k in kernels.values())
        + "\n// Calls the kernel; false when this build does not know the id with that many arguments.\n"
        + "inline bool dispatch(uint32_t kernel, const uint32_t* words, uint32_t n_words) {\n"
        + "  switch (kernel) {\n"
        + "".join(_case(k) for k in kernels.values())
        + "    default:\n      return false;\n  }\n}\n"
    )
