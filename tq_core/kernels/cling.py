"""cppyy, set up so that every target is what its name says. The only module that imports cppyy.

Cling compiles with ``-march=native`` by default, from flags baked into its precompiled header; then
an "AVX2" kernel may be given AVX-512 instructions. So the flags are pinned to the x86-64 baseline
and the header is built once, under the user's cache directory, before cppyy is first imported.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
import zlib
from functools import lru_cache
from typing import Any

from tq_core.errors import BackendError
from tq_core.paths import CPP, cache_dir

BASELINE = {"x86_64": "x86-64", "AMD64": "x86-64"}
CLING_FLAGS = "-O2"


def _pin_flags() -> None:
    march = BASELINE.get(platform.machine())
    flags = f"{CLING_FLAGS} -march={march}" if march else CLING_FLAGS
    version = importlib.metadata.version("cppyy")
    # One file per environment: installing cppyy in another one may change the headers under a shared file.
    place = f"{zlib.crc32(sys.prefix.encode()):08x}"
    name = f"cling-{version}-{place}-{march or platform.machine()}.pch"
    os.environ["EXTRA_CLING_ARGS"] = flags
    os.environ["CLING_STANDARD_PCH"] = str(cache_dir() / name)


@lru_cache(maxsize=1)
def load_cppyy() -> Any:
    """The cppyy module, imported with the pinned flags. Raises BackendError when it cannot be."""
    if "cppyy" not in sys.modules:
        try:
            _pin_flags()
        except importlib.metadata.PackageNotFoundError:
            raise BackendError(
                "cppyy: expected an installed package, got none; `make setup` installs it"
            ) from None
    try:
        import cppyy
    except Exception as error:
        raise BackendError(
            f"cppyy: expected an import that works, got {type(error).__name__}: {error}"
        ) from error
    return cppyy


@lru_cache(maxsize=1)
def load_kernels() -> Any:
    """The C++ namespace ``tq`` with one inner namespace per target, compiled from cpp/tq/tq.h."""
    cppyy = load_cppyy()
    cppyy.add_include_path(str(CPP))
    try:
        cppyy.include("tq/tq.h")
        cppyy.cppdef(
            """
            #ifndef TQ_HOST_PROBE
            #define TQ_HOST_PROBE
            namespace tq_host {
            #ifdef __AVX__
            constexpr bool baseline = false;
            #else
            constexpr bool baseline = true;
            #endif
            inline const char* compiler() { return __clang_version__; }
            }
            #endif
            """
        )
    except Exception as error:
        raise BackendError(f"cpp/tq/tq.h: expected to compile under Cling, got: {error}") from error
    return cppyy.gbl.tq


def cling_facts() -> dict[str, Any]:
    """What the kernels were compiled with: versions, flags, and whether the baseline pin took effect."""
    load_kernels()
    cppyy = load_cppyy()
    return {
        "cppyy": importlib.metadata.version("cppyy"),
        "compiler": f"Cling, clang {cppyy.gbl.tq_host.compiler()}".strip(),
        "flags": os.environ.get("EXTRA_CLING_ARGS", ""),
        "baseline": bool(cppyy.gbl.tq_host.baseline),
    }
