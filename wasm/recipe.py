"""What is built: the modules, their flags, and the digest that decides whether to build again."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tq_core.errors import BackendError
from tq_core.kernels.table import KERNELS, Kernel

from .exports import command_table_source, exports_source
from .opcode_table import DENIED

ROOT = Path(__file__).resolve().parents[1]
COMMAND_SOURCE = Path(__file__).resolve().with_name("command.cpp")
GUEST_WASI = COMMAND_SOURCE.with_name("guest_wasi.h")

# Features are named one by one from the smallest CPU model up, so that a newer compiler's idea of a
# "generic" machine cannot add instructions that an older engine lacks.
_FEATURES = "-mcpu=mvp+mutable_globals+sign_ext+nontrapping_fptoint+bulk_memory"
_COMPILE = (
    "-target wasm32-freestanding -std=c++20 -O3 -DNDEBUG -g0 -ffreestanding -fno-exceptions -fno-rtti "
    "-fno-sanitize=all -fno-threadsafe-statics -fvisibility=hidden -Wall -Wextra -Werror "
    # Same bits on every engine: no fused multiply-add, and no vector code but what is spelled out.
    "-ffp-contract=off -fno-vectorize -fno-slp-vectorize "
    # Instructions in the order of the source: engines do not undo another one, and it costs them registers.
    "-mllvm -pre-RA-sched=source"
).split()
# The stack comes first in memory: running over its end is a trap, not a silent write into a table.
_LINK = "--strip-all --gc-sections --fatal-warnings --stack-first -z stack-size=262144".split()
_REACTOR = "--no-entry --export=__heap_base".split()
_COMMAND = ["--entry=_start"]


@dataclass(frozen=True)
class Target:
    """One build of the kernels: ``namespace`` is the C++ namespace whose functions are exported."""

    name: str
    namespace: str
    simd: bool

    @property
    def compile_flags(self) -> list[str]:
        return [*_COMPILE, _FEATURES + ("+simd128" if self.simd else "")]

    def file_name(self, command: bool) -> str:
        return f"tq_{self.name}{'_command' if command else ''}.wasm"

    @staticmethod
    def link_flags(command: bool) -> list[str]:
        return [*_LINK, *(_COMMAND if command else _REACTOR)]


TARGETS = (Target("scalar", "tq::scalar", False), Target("simd128", "tq::wasm128", True))


def ziglang_version() -> str:
    """Version of the compiler's package. Raises BackendError when it is not installed."""
    try:
        return importlib.metadata.version("ziglang")
    except importlib.metadata.PackageNotFoundError:
        raise BackendError(
            "ziglang: expected the wasm compiler to be installed, got none; run `make setup`"
        ) from None


def header_digests(include: Path) -> list[tuple[str, str]]:
    """(path below ``include``, SHA-256) of every C++ file there."""
    headers = sorted(p for p in include.rglob("*") if p.suffix in (".h", ".hpp", ".inc", ".cpp"))
    return [(str(p.relative_to(include)), hashlib.sha256(p.read_bytes()).hexdigest()) for p in headers]


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a module's bytes. The defaults build the project's own modules."""

    out: Path = ROOT / "build" / "wasm"
    kernels: Mapping[str, Kernel] = field(default_factory=lambda: KERNELS)
    include: Path = ROOT / "cpp"
    header: str = "tq/tq.h"

    def sources(self) -> dict[str, str]:
        """File name -> text of what is generated."""
        generated = {
            f"exports_{t.name}.cpp": exports_source(self.kernels, t.namespace, self.header) for t in TARGETS
        }
        return generated | {"command_table.h": command_table_source(self.kernels)}

    def digest(self) -> str:
        """SHA-256 over sources, flags, compiler version and what the opcode gate denies."""
        parts: list[object] = [
            ziglang_version(),
            [(t.name, t.compile_flags, t.link_flags(False), t.link_flags(True)) for t in TARGETS],
            sorted(self.sources().items()),
            header_digests(self.include),
            [path.read_text() for path in (COMMAND_SOURCE, GUEST_WASI)],
            sorted(DENIED),
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
