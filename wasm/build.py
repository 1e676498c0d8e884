"""Build the wasm modules: ``python -m wasm.build [--check] [--force]``.

Four files go to ``build/wasm``: for each target (scalar, simd128) a module whose functions a host
calls in its own process, and the same object code linked as a WASI command (see command.cpp). They
are built when sources, flags or compiler changed, pass the opcode gate before they are installed,
and are replaced one by one with the manifest last, so that an interrupted build is seen as one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tq_core.errors import TqError
from tq_core.kernels.hosts.frames import table_digest

from .binary import parse
from .opcodes import gate
from .recipe import COMMAND_SOURCE, ROOT, TARGETS, Recipe, Target, ziglang_version

MANIFEST = "manifest.json"
COMMAND_IMPORTS = {
    ("wasi_snapshot_preview1", "fd_read", "func"),
    ("wasi_snapshot_preview1", "fd_write", "func"),
}


class WasmBuildError(TqError):
    """The compiler or linker failed, or a built module is not what it must be."""


def run_zig(arguments: list[str], cache: Path) -> None:
    """Run the packaged compiler; its caches stay inside the build folder."""
    environment = os.environ | {"ZIG_GLOBAL_CACHE_DIR": str(cache), "ZIG_LOCAL_CACHE_DIR": str(cache)}
    command = [sys.executable, "-m", "ziglang", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise WasmBuildError(f"zig {arguments[0]} failed ({done.returncode}):\n{done.stderr.strip()}")


def _check_module(data: bytes, target: Target, command: bool, recipe: Recipe) -> int:
    """Opcode gate, imports and exports of a linked module; returns its number of instructions."""
    label = target.file_name(command)
    counts = gate(data, target.simd, label)
    module = parse(data)
    unexpected = set(module.imports) - (COMMAND_IMPORTS if command else set())
    if unexpected:
        raise WasmBuildError(
            f"{label}: expected no imports beyond the command's two, got {sorted(unexpected)}"
        )
    wanted = {"memory", "_start"} if command else {"memory", "__heap_base", *recipe.kernels}
    if not wanted <= module.exports.keys():
        raise WasmBuildError(f"{label}: expected exports {sorted(wanted)}, got {sorted(module.exports)}")
    return sum(counts.values())


def _link_all(recipe: Recipe, work: Path, cache: Path) -> dict[str, dict[str, object]]:
    """Compile and link into ``work``; returns file name -> what the manifest says of it."""
    for name, text in recipe.sources().items():
        (work / name).write_text(text)
    includes = [f"-I{recipe.include}", f"-I{work}"]
    entries: dict[str, dict[str, object]] = {}
    for target in TARGETS:
        kernels, loop = work / f"exports_{target.name}.o", work / f"command_{target.name}.o"
        for source, built in ((work / f"exports_{target.name}.cpp", kernels), (COMMAND_SOURCE, loop)):
            run_zig(["c++", *target.compile_flags, *includes, "-c", "-o", str(built), str(source)], cache)
        for command in (False, True):
            name = target.file_name(command)
            objects = [str(kernels), str(loop)] if command else [str(kernels)]
            run_zig(["wasm-ld", *target.link_flags(command), "-o", str(work / name), *objects], cache)
            data = (work / name).read_bytes()
            n_instructions = _check_module(data, target, command, recipe)
            entries[name] = {
                "sha256": hashlib.sha256(data).hexdigest(),
                "bytes": len(data),
                "instructions": n_instructions,
            }
    return entries


def read_manifest(out: Path) -> dict[str, object]:
    """The manifest in ``out``, or an empty one when it is absent or unreadable."""
    try:
        manifest = json.loads((out / MANIFEST).read_text())
    except (OSError, ValueError):
        return {}
    return manifest if isinstance(manifest, dict) else {}


def is_current(recipe: Recipe) -> bool:
    """Whether the installed modules are the ones this recipe would build, byte for byte."""
    manifest = read_manifest(recipe.out)
    modules = manifest.get("modules")
    if manifest.get("inputs") != recipe.digest() or not isinstance(modules, dict):
        return False
    files = [target.file_name(command) for target in TARGETS for command in (False, True)]
    paths = [recipe.out / name for name in files]
    return all(
        path.is_file()
        and modules.get(path.name, {}).get("sha256") == hashlib.sha256(path.read_bytes()).hexdigest()
        for path in paths
    )


def build(recipe: Recipe, force: bool = False) -> bool:
    """Build and install the modules; False when there was nothing to do.

    Raises WasmBuildError, OpcodeDenied or WasmFormatError; installed modules are then as before.
    """
    if not force and is_current(recipe):
        return False
    recipe.out.mkdir(parents=True, exist_ok=True)
    inputs = recipe.digest()
    with tempfile.TemporaryDirectory(dir=recipe.out, prefix="building-") as folder:
        work = Path(folder)
        modules = _link_all(recipe, work, recipe.out / "zig-cache")
        manifest = {
            "inputs": inputs,
            "table": table_digest(recipe.kernels.values()),
            "ziglang": ziglang_version(),
            "modules": modules,
        }
        (work / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
        for name in [*modules, MANIFEST]:
            os.replace(work / name, recipe.out / name)
    return True


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m wasm.build", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--check", action="store_true", help="only say whether a build is needed; exit 1 if so"
    )
    parser.add_argument("--force", action="store_true", help="build even if nothing changed")
    options = parser.parse_args(arguments)
    recipe, start = Recipe(), time.perf_counter()
    shown = recipe.out.relative_to(ROOT)
    try:
        if options.check:
            current = is_current(recipe)
            print(f"wasm: {shown} is {'up to date' if current else 'out of date; run `make wasm`'}")
            return 0 if current else 1
        built = build(recipe, options.force)
    except TqError as error:
        print(f"wasm: {error}", file=sys.stderr)
        return 1
    for name, entry in read_manifest(recipe.out).get("modules", {}).items():  # type: ignore[attr-defined]
        print(
            f"wasm: {shown / name}  {entry['bytes']} bytes  {entry['instructions']} instructions, gate passed"
        )
    print(
        f"wasm: {'built in %.1f s' % (time.perf_counter() - start) if built else 'up to date, nothing to do'}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
