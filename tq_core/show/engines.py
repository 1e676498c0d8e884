"""What is installed and what runs here: the lines of the first notebook."""

from __future__ import annotations

import importlib.metadata
import platform

from tq_core.kernels.backend import backend_statuses
from tq_core.kernels.hosts import host_statuses
from tq_core.kernels.wasm import module_dir
from tq_core.model.sources import SOURCES, model_path

PACKAGES = (
    "numpy",
    "scipy",
    "matplotlib",
    "ipywidgets",
    "jupyterlab",
    "cppyy",
    "ziglang",
    "wasmtime",
    "wasmer-sdk",
    "gguf",
    "tokenizers",
)
OPTIONAL = {"wasmer": "in-process Wasmer, wheels for CPython 3.10 only"}


def mark(ok: bool) -> str:
    """[OK] or [--]."""
    return "[OK]" if ok else "[--]"


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def check_lines() -> list[str]:
    """One line per requirement: interpreter, packages, built modules, the real models' files."""
    lines = [f"{mark(True)} Python {platform.python_version()} on {platform.machine()}"]
    for package in PACKAGES:
        version = _version(package)
        lines.append(
            f"{mark(version is not None)} {package} {version or 'not installed; `make setup` installs it'}"
        )
    for package, note in OPTIONAL.items():
        lines.append(
            f"{mark(_version(package) is not None)} {package} {_version(package) or 'not installed'} ({note})"
        )
    built = (module_dir() / "manifest.json").exists()
    lines.append(f"{mark(built)} wasm modules {'built' if built else 'not built; `make wasm` builds them'}")
    for source in SOURCES.values():
        there = model_path(source).exists()
        how = f"not fetched; `make model MODEL={source.name}` fetches it"
        lines.append(f"{mark(there)} {source.name} {'in the cache directory' if there else how}")
    return lines


def backend_rows() -> list[list[object]]:
    """(mark, backend, remark) of every backend that this project knows."""
    return [[mark(s.available), s.name, s.reason] for s in backend_statuses()]


def host_rows() -> list[list[object]]:
    """(mark, wasm host, version, remark)."""
    return [[mark(s.available), s.name, s.version, s.reason] for s in host_statuses()]
