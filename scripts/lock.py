"""Rewrite the pinned versions in requirements/ from pyproject.toml.

    make lock

One file per interpreter range. `uv pip compile --universal` resolves for every
platform at once; lines that cannot apply to the range, or to Linux and macOS, are
left out. The newest file also serves later interpreters when their lines agree.
"""

import itertools
import subprocess
import sys
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
RANGES = {"py310": ["3.10"], "py311": ["3.11"], "py312": ["3.12", "3.13"]}
PLATFORMS = [("linux", "Linux", "x86_64"), ("linux", "Linux", "aarch64"), ("darwin", "Darwin", "arm64")]
HEADER = """\
# Pinned versions for CPython {versions}: a constraints file for pip.
# Written by `make lock` from pyproject.toml; do not edit.
"""


def resolve(uv: str, version: str) -> list[str]:
    """Every package that any extra needs, as pinned requirement lines."""
    command = [uv, "pip", "compile", "--quiet", "--universal", "--python-version", version]
    command += ["--extra", "all", "--no-header", "--no-annotate", "--upgrade", str(ROOT / "pyproject.toml")]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def applies(line: str, version: str) -> bool:
    """Whether a line can apply to some patch release of ``version`` on some platform."""
    marker = Requirement(line).marker
    environments = itertools.product(PLATFORMS, (f"{version}.0", f"{version}.99"))
    return marker is None or any(
        marker.evaluate(
            {
                "python_version": version,
                "python_full_version": full,
                "sys_platform": platform,
                "platform_system": system,
                "platform_machine": machine,
                "implementation_name": "cpython",
                "platform_python_implementation": "CPython",
            }
        )
        for (platform, system, machine), full in environments
    )


def main() -> None:
    uv = sys.argv[1]
    for name, versions in RANGES.items():
        print(f"resolving for CPython {' and '.join(versions)}", flush=True)
        pinned = [[line for line in resolve(uv, version) if applies(line, version)] for version in versions]
        if any(lines != pinned[0] for lines in pinned):
            sys.exit(f"{name}: {' and '.join(versions)} need files of their own; split the entry in RANGES")
        header = HEADER.format(versions=" and ".join(versions))
        (ROOT / "requirements" / f"{name}.txt").write_text(header + "\n".join(pinned[0]) + "\n")


if __name__ == "__main__":
    main()
