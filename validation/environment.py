"""Where and how a run happened: machine, packages, commit, command."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from tq_core.errors import BackendError
from tq_core.kernels.native import TARGETS, cpu_features
from tq_core.paths import ROOT

PACKAGES = (
    "numpy", "scipy", "matplotlib", "cppyy", "cppyy-cling", "wasmer", "wasmer-sdk", "wasmtime", "ziglang",
    "gguf", "tokenizers", "jinja2", "jsonschema", "jupyterlab", "ipywidgets",
)  # fmt: skip


def packages() -> dict[str, str]:
    """Version of each package that the workbook uses, "not installed" where there is none."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def git_state() -> dict[str, Any]:
    """Commit of the checkout and whether it has changes; "unknown" outside a checkout or without git."""

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, timeout=20
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    commit, changes = git("rev-parse", "HEAD"), git("status", "--porcelain")
    return {"commit": commit or "unknown", "dirty": None if changes is None else bool(changes)}


def machine() -> dict[str, Any]:
    """CPU, system, interpreter and the library that numpy multiplies matrices with."""
    import numpy as np

    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        model = platform.processor() or "unknown"
    blas = np.show_config(mode="dicts").get("Build Dependencies", {}).get("blas", {})  # type: ignore[union-attr]
    used = {flag for needs in TARGETS.values() for flag in needs}
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "cpu_features": sorted(used & cpu_features()),
        "machine": platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "blas": f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip(),
        "blas_threads": {
            k: v for k, v in os.environ.items() if k in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
        },
    }


def peak_memory() -> int | None:
    """Largest resident size of this process so far, in bytes; None where the system does not tell."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def command_line(arguments: Sequence[str]) -> str:
    """A command as one would type it."""
    return " ".join(["tq", *(shlex.quote(a) for a in arguments)])


def now() -> str:
    """UTC time, to the second."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def run_facts(command: str, started: str, seconds: float) -> dict[str, Any]:
    """The record's `run` entry."""
    try:
        from tq_core.kernels.cling import cling_facts

        compiler: dict[str, Any] = cling_facts()
    except BackendError as error:
        compiler = {"error": str(error)}
    return {
        "command": command,
        "started": started,
        "finished": now(),
        "seconds": round(seconds, 1),
        "git": git_state(),
        "machine": machine(),
        "compiler": compiler,
        "packages": packages(),
    }
