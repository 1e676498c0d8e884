"""Kernels with one real fault: a copy of the headers in which something is changed, compiled as a backend of its own."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tq_core.kernels import cling
from tq_core.kernels.native import NativeBackend
from tq_core.kernels.table import KERNELS
from tq_core.paths import CPP

# A kernel -> what its planted version does; `sound` stands for a call of the good one with the same arguments.
BODIES = {
    "append_keys": """
  sound;
  if (n == 0) return;
  const Layout where = read_layout(layout);
  uint8_t* byte = pool + head_base(where, pages[first / where.page_tokens], 0) + where.key_codes;
  *byte = uint8_t(*byte << 4 | *byte >> 4);  // one swapped nibble
""",
    "score_keys": """
  n_tokens = n_tokens / kTileTokens * kTileTokens;  // the tail that is no whole tile is dropped
  sound;
""",
}


def wrapper(kernel: str, namespace: str) -> str:
    """C++ of the planted version, to stand after the good one was compiled under the name <kernel>_sound."""
    parameters = KERNELS[kernel].c_parameters()
    declared = ", ".join(f"{ctype} {name}" for ctype, name in parameters)
    call = f"{kernel}_sound({', '.join(name for _, name in parameters)})"
    return (
        f"#undef {kernel}\nnamespace {namespace} {{ namespace TQ_TARGET {{\n"
        f"TQ_KERNEL inline void {kernel}({declared}) {{{BODIES[kernel].replace('sound', call)}}}\n}} }}\n"
    )


def _replace(path: Path, good: str, bad: str) -> None:
    text, times = re.subn(good if "\\" in good else re.escape(good), bad, path.read_text())
    assert times == 1, f"{path.name}: expected {good} once, found it {times} times"
    path.write_text(text)


def planted_backend(fault: str, target: str, work: Path) -> NativeBackend:
    """The kernels of ``target`` with ``fault``: "none", "fused" (contraction in `linear`), or a kernel of BODIES."""
    namespace = f"tq_{fault}"
    root = work / namespace
    shutil.copytree(CPP / "tq", root)
    for header in root.rglob("*.h"):
        text = re.sub(r"\bnamespace tq\b", f"namespace {namespace}", header.read_text())
        header.write_text(re.sub(r"\btq::", f"{namespace}::", text))
    every, umbrella, dense = root / "kernels" / "all.h", root / "tq.h", root / "kernels" / "dense.h"
    if fault == "fused":
        _replace(dense, "TQ_KERNEL inline void linear(", "#pragma clang fp contract(fast)\n\\g<0>")
        _replace(every, '#include "dense.h"', "\\g<0>\n#pragma clang fp contract(off)")
        _replace(umbrella, r'target\("avx2,f16c"\)', 'target("avx2,fma,f16c")')
    elif fault != "none":
        every.write_text(f"#define {fault} {fault}_sound\n{every.read_text()}{wrapper(fault, namespace)}")
    cling.load_kernels()
    cppyy = cling.load_cppyy()
    cppyy.include(str(umbrella))
    backend = NativeBackend(target, getattr(cppyy.gbl, namespace))
    backend.name = f"native-{target}+{fault}"
    return backend
