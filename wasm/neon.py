"""Cross-build the NEON program: ``python -m wasm.neon [--force]``.

The kernels of tq::neon with the command loop (command.cpp), linked as a static Linux program for
aarch64, which tq_core.kernels.qemu runs. It is built when sources, flags or compiler changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tq_core.errors import TqError
from tq_core.kernels.qemu import PROGRAM
from tq_core.kernels.table import KERNELS, Kernel

from .build import MANIFEST, read_manifest, run_zig
from .exports import command_table_source, exports_source
from .recipe import COMMAND_SOURCE, ROOT, header_digests, ziglang_version

# No feature beyond the ARMv8-A baseline, and no vector code but what is spelled out.
FLAGS = (
    "-target aarch64-linux-musl -mcpu=generic -static -nostdlib++ -std=c++20 -O2 -DNDEBUG -g0 -s -fno-exceptions -fno-rtti "
    "-fno-sanitize=all -ffp-contract=off -fno-vectorize -fno-slp-vectorize "
    # The exported wrappers carry an attribute that only wasm knows.
    "-Wall -Wextra -Werror -Wno-unknown-attributes"
).split()
GUEST_LINUX = COMMAND_SOURCE.with_name("guest_linux.h")


@dataclass(frozen=True)
class NeonRecipe:
    """Everything that decides the program's bytes. The defaults build the project's own."""

    program: Path = PROGRAM
    kernels: Mapping[str, Kernel] = field(default_factory=lambda: KERNELS)
    include: Path = ROOT / "cpp"
    header: str = "tq/tq.h"
    namespace: str = "tq::neon"
    cache: Path = PROGRAM.parent / "zig-cache"

    def sources(self) -> dict[str, str]:
        """File name -> text of what is generated."""
        return {
            "exports_neon.cpp": exports_source(self.kernels, self.namespace, self.header),
            "command_table.h": command_table_source(self.kernels),
        }

    def digest(self) -> str:
        """SHA-256 over sources, flags and compiler version."""
        loop = [path.read_text() for path in (COMMAND_SOURCE, GUEST_LINUX)]
        parts = [ziglang_version(), FLAGS, sorted(self.sources().items()), header_digests(self.include), loop]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def is_current(recipe: NeonRecipe) -> bool:
    """Whether the program is the one that this recipe would build, byte for byte."""
    manifest = read_manifest(recipe.program.parent)
    if manifest.get("inputs") != recipe.digest() or not recipe.program.is_file():
        return False
    return manifest.get("sha256") == hashlib.sha256(recipe.program.read_bytes()).hexdigest()


def build(recipe: NeonRecipe, force: bool = False) -> bool:
    """Build the program; False when there was nothing to do. Raises WasmBuildError, with nothing changed."""
    if not force and is_current(recipe):
        return False
    out = recipe.program.parent
    out.mkdir(parents=True, exist_ok=True)
    inputs = recipe.digest()
    with tempfile.TemporaryDirectory(dir=out, prefix="building-") as folder:
        work = Path(folder)
        for name, text in recipe.sources().items():
            (work / name).write_text(text)
        made = work / recipe.program.name
        sources = [str(work / "exports_neon.cpp"), str(COMMAND_SOURCE)]
        includes = [f"-I{recipe.include}", f"-I{work}"]
        run_zig(["c++", *FLAGS, *includes, "-o", str(made), *sources], recipe.cache)
        digest = hashlib.sha256(made.read_bytes()).hexdigest()
        manifest = {"inputs": inputs, "sha256": digest, "ziglang": ziglang_version(), "flags": FLAGS}
        (work / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
        os.replace(made, recipe.program)
        os.replace(work / MANIFEST, out / MANIFEST)
    return True


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m wasm.neon", description=__doc__.splitlines()[0])
    parser.add_argument("--force", action="store_true", help="build even if nothing changed")
    options = parser.parse_args(arguments)
    recipe = NeonRecipe()
    try:
        built = build(recipe, options.force)
    except TqError as error:
        print(f"neon: {error}", file=sys.stderr)
        return 1
    size = recipe.program.stat().st_size
    print(f"neon: {recipe.program.relative_to(ROOT)}  {size} bytes  {'built' if built else 'up to date'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
