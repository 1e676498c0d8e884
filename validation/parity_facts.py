"""What stands behind a parity certificate: compilers and flags, hosts, CPU features, instructions, known answers."""

from __future__ import annotations

import hashlib
import json
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from tq_core.errors import BackendError, TqError
from tq_core.kernels import qemu
from tq_core.kernels.backend import Backend, NumpyBackend
from tq_core.kernels.hosts import host_statuses
from tq_core.kernels.native import TARGETS, cpu_features
from tq_core.kernels.wasm import TARGETS as WASM_TARGETS
from tq_core.kernels.wasm import module_dir
from tq_core.kernels.wasm_selftest import self_test
from tq_core.paths import CPP
from wasm import neon
from wasm.build import is_current
from wasm.opcodes import gate, histogram
from wasm.recipe import TARGETS as WASM_BUILDS
from wasm.recipe import Recipe, header_digests

_REGION = re.compile(r'target\("([^"]+)"\)\)\), apply_to = function\)\s+#define TQ_TARGET (\w+)')


def build_facts() -> dict[str, Any]:
    """Compiler and flags, CPU features in use, host versions and digests of the wasm modules."""
    from tq_core.kernels.cling import cling_facts

    try:
        compiler: dict[str, Any] = cling_facts()
    except BackendError as error:
        compiler = {"error": str(error)}
    manifest = _manifest(module_dir())
    try:
        modules = {name: str(entry["sha256"]) for name, entry in manifest["modules"].items()}
        modules_by = f"zig {manifest.get('ziglang', 'unknown')}"
    except (KeyError, TypeError, AttributeError):
        modules, modules_by = {}, "not built"
    used = sorted({flag for needs in TARGETS.values() for flag in needs} & cpu_features())
    return {
        "compiler": compiler,
        "cpu_features": used,
        "hosts": {s.name: s.version if s.available else "not available" for s in host_statuses()},
        "wasm_modules": modules,
        "wasm_compiler": modules_by,
        "wasm_modules_current": _modules_current(),
        "sources": sources_digest(),
    }


def _modules_current() -> bool | None:
    """Whether the modules are what the present sources give; None where there is no compiler to tell."""
    try:
        return is_current(Recipe())
    except BackendError:
        return None


def _manifest(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / "manifest.json").read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def sources_digest(include: Path = CPP / "tq") -> str:
    """SHA-256 over the kernels' C++ files, names and contents."""
    return hashlib.sha256(json.dumps(header_digests(include)).encode()).hexdigest()


@lru_cache(maxsize=1)
def target_attributes() -> dict[str, str]:
    """Native target -> the instruction sets that the header allows it; "baseline" where it names none."""
    named = {target: features for features, target in _REGION.findall((CPP / "tq" / "tq.h").read_text())}
    return {target: named.get(target, "baseline") for target in TARGETS}


def engine_facts(name: str) -> dict[str, Any]:
    """What made and runs the backend called ``name``: compiler, flags, engine, all as found here."""
    facts = build_facts()
    if name.startswith("wasm-"):
        target, _, host = name.removeprefix("wasm-").partition("@")
        build = next(t for t in WASM_BUILDS if t.name == target)
        flags = f"{' '.join(build.compile_flags)}; link: {' '.join(build.link_flags(False))}"
        runs = f"{host} {facts['hosts'].get(host, 'unknown')}"
        return {"compiler": facts["wasm_compiler"], "flags": flags, "runs_on": runs}
    if name == qemu.NAME:
        compiler = f"zig {_manifest(qemu.PROGRAM.parent).get('ziglang', 'unknown')}"
        return {"compiler": compiler, "flags": " ".join(neon.FLAGS), "runs_on": qemu._emulator_version()}
    if name.startswith("native-"):
        target = name.removeprefix("native-")
        flags = f"{facts['compiler'].get('flags', '')} target({target_attributes().get(target, 'baseline')})"
        compiler = str(facts["compiler"].get("compiler", facts["compiler"].get("error")))
        return {"compiler": compiler, "flags": flags.strip(), "runs_on": "this CPU"}
    return {"compiler": f"numpy {np.__version__}", "flags": "none", "runs_on": "this CPU"}


def known_answers(backend: Backend) -> dict[str, Any]:
    """Outcome of the known-answer test: how many answers were right, or which kernel was wrong first."""
    if isinstance(backend, NumpyBackend):
        return {"status": "not exercised", "answers": 0, "note": "the answers are its own"}
    try:
        return {"status": "pass", "answers": self_test(backend), "note": ""}
    except TqError as error:
        return {"status": "fail", "answers": 0, "note": str(error)}


def wasm_opcodes(folder: Path | None = None) -> list[dict[str, Any]]:
    """Every instruction in every built module, with how often it occurs, and what the gate says of the module."""
    found = []
    for target in WASM_TARGETS:
        path = (folder or module_dir()) / f"tq_{target}.wasm"
        try:
            data = path.read_bytes()
        except OSError as error:
            found.append(
                {"module": path.name, "gate": f"not exercised: {error.strerror}", "instructions": {}}
            )
            continue
        entry = {"module": path.name, "sha256": hashlib.sha256(data).hexdigest(), "gate": "pass"}
        try:
            gate(data, target == "simd128", path.name)
            counts = dict(sorted(histogram(data).items()))
        except TqError as error:
            entry["gate"], counts = f"fail: {error}", {}
        found.append({**entry, "instructions": counts})
    return found
