"""What must be the same on every machine that computes readings, or their last bits would differ."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
from functools import lru_cache

from tq_core.kernels.native import cpu_features
from validation.engine.arithmetic import arithmetic
from validation.engine.keys import code_digest
from validation.environment import machine

PACKAGES = ("numpy", "scipy", "cppyy", "cppyy-cling", "cppyy-backend", "dask", "distributed")


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


@lru_cache(maxsize=1)
def facts() -> dict[str, str]:
    """Of this process: interpreter, packages, sources, instruction set, and how its arithmetic rounds."""
    features = " ".join(sorted(cpu_features()))
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()} {platform.machine()}",
        **{name: _version(name) for name in PACKAGES},
        "blas": str(machine()["blas"]),
        "code": code_digest(),
        "cpu features": hashlib.sha256(features.encode()).hexdigest(),
        "arithmetic": arithmetic(),
    }


def differences(expected: dict[str, str], found: dict[str, str]) -> list[str]:
    """What differs, in words; digests are shortened."""
    names = sorted({*expected, *found})
    return [
        f"{n}: expected {expected.get(n, 'nothing')[:24]}, got {found.get(n, 'nothing')[:24]}"
        for n in names
        if expected.get(n) != found.get(n)
    ]
