"""Name everything this machine lacks, with the command that installs it.

Runs on the system's own python3 before anything is installed, so it uses the
standard library only and stays readable by old interpreters: its most useful
moment is the one where the interpreter is the problem.

    python3 scripts/preflight.py [--venv DIR]

Exit 0 when the set-up can start, 1 when something is missing. All problems are
listed at once. What is optional is told too and changes nothing.
"""

import argparse
import os
import platform
import shutil
import struct
import subprocess
import sys
import sysconfig
from typing import Dict, List, NamedTuple, Optional, Tuple  # noqa: UP035

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OLDEST, NEWEST = (3, 10), (3, 13)
FREE_GB = 3.0

# Package names per package manager; {v} is the interpreter's "3.11".
PACKAGES = {
    "apt-get": {
        "git": "git",
        "make": "make",
        "c++": "g++",
        "headers": "python{v}-dev",
        "venv": "python{v}-venv",
    },
    "dnf": {"git": "git", "make": "make", "c++": "gcc-c++", "headers": "python3-devel", "venv": "python3"},
    "zypper": {"git": "git", "make": "make", "c++": "gcc-c++", "headers": "python3-devel", "venv": "python3"},
    "pacman": {"git": "git", "make": "make", "c++": "gcc", "headers": "python", "venv": "python"},
    "brew": {"git": "git", "make": "make", "c++": "gcc", "headers": "python@{v}", "venv": "python@{v}"},
}
QEMU = {"apt-get": "qemu-user", "dnf": "qemu-user", "zypper": "qemu-linux-user"}
CHROMIUM = {"apt-get": "chromium", "dnf": "chromium", "zypper": "chromium"}
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
INSTALL = {
    "apt-get": "apt-get update && {sudo}apt-get install -y {packages}",
    "dnf": "dnf install -y {packages}",
    "zypper": "zypper install -y {packages}",
    "pacman": "pacman -S --needed {packages}",
    "brew": "brew install {packages}",
}


class Problem(NamedTuple):
    """One missing thing: what, why it is needed, and how to get it.

    ``part`` is a key of ``PACKAGES`` when a system package brings it; otherwise
    ``remedy`` says what to do.
    """

    what: str
    why: str
    part: Optional[str] = None  # noqa: UP045
    remedy: str = ""


def python_problems(version: Tuple[int, int], implementation: str, found: List[str]) -> List[Problem]:  # noqa: UP006
    """Interpreter version and kind; ``found`` lists usable interpreters elsewhere on the machine."""
    if implementation == "CPython" and OLDEST <= version <= NEWEST:
        return []
    what = "CPython 3.10 to 3.13 (this one is {} {}.{})".format(implementation, *version)
    remedy = (
        f"make setup PYTHON={found[0]}" if found else "install one and name it: make setup PYTHON=python3.12"
    )
    return [Problem(what, "the locked packages exist for these versions", None, remedy)]


def tool_problems(which=shutil.which, system: str = sys.platform) -> List[Problem]:  # noqa: UP006
    """Programs that must be on the PATH."""
    compiler = os.environ.get("CXX", "").split(" ")[0] or ("c++" if system == "darwin" else "g++")
    wanted = [
        ("git", "git", "the report records the commit it was made from"),
        ("make", "make", "it runs the set-up"),
        (compiler, "c++", "cppyy builds its Python bridge and reads the C++ standard headers"),
    ]
    return [Problem(program, why, part) for program, part, why in wanted if not which(program)]


def optional_notes(which=shutil.which, machine: str = platform.machine()) -> List[str]:  # noqa: UP006
    """What the workbook does without, and what is then not exercised."""
    missing = []
    if machine.lower() not in ("aarch64", "arm64") and not which("qemu-aarch64"):
        missing.append(("qemu-user, to compare the NEON kernels", "which are not exercised without it", QEMU))
    if not any(which(name) for name in BROWSERS):
        missing.append(
            ("Chromium, to try the notebooks and print the report", "not done without it", CHROMIUM)
        )
    notes = []
    for what, without, packages in missing:
        manager = next((name for name in packages if which(name)), None)
        remedy = f"; {manager} install {packages[manager]}" if manager else ""
        notes.append(f"optional: {what}, {without}{remedy}")
    return notes


def header_problems(include: str) -> List[Problem]:  # noqa: UP006
    """The interpreter's C headers."""
    if os.path.isfile(os.path.join(include, "Python.h")):
        return []
    return [Problem("Python.h", "cppyy builds its Python bridge", "headers")]


def venv_problems(can_import) -> List[Problem]:  # noqa: UP006
    """Debian ships python3 without what a virtual environment needs."""
    if can_import("venv") and can_import("ensurepip"):
        return []
    return [
        Problem("the modules venv and ensurepip", "everything is installed into a folder of its own", "venv")
    ]


def disk_problems(free_bytes: int, folder: str) -> List[Problem]:  # noqa: UP006
    """Room for the environment, the package cache and the model."""
    free = free_bytes / 1e9
    if free >= FREE_GB:
        return []
    what = f"{FREE_GB:.0f} GB of free disk in {folder} ({free:.1f} GB are free)"
    return [Problem(what, "packages, their cache and the model", None, "free some space")]


def machine_problems(machine: str, pointer_bits: int, libc: str, system: str) -> List[Problem]:  # noqa: UP006
    """Processor and C library for which compiled packages exist."""
    problems = []
    if machine.lower() not in ("x86_64", "amd64", "aarch64", "arm64") or pointer_bits != 64:
        what = f"a 64-bit x86 or ARM machine (this is {machine}, {pointer_bits}-bit Python)"
        problems.append(Problem(what, "no compiled packages exist for others", None, "use another machine"))
    if system.startswith("linux") and libc != "glibc":
        remedy = "use a distribution with glibc, for instance Debian"
        problems.append(Problem("glibc", "cppyy's compiled C++ interpreter needs it", None, remedy))
    if system == "win32":
        problems.append(Problem("Linux or macOS", "Makefile and kernels are tested there", None, "use WSL"))
    return problems


def can_import(name: str) -> bool:
    try:
        __import__(name)
    except ImportError:
        return False
    return True


def runs(python: str) -> bool:
    """Whether an interpreter starts; pyenv's shims exist for versions that are not switched on."""
    try:
        return subprocess.call([python, "-c", ""], stderr=subprocess.DEVNULL) == 0
    except OSError:
        return False


def other_interpreters(home: str = os.path.expanduser("~"), runs=runs) -> List[str]:  # noqa: UP006
    """Interpreters of a supported version, newest first: on the PATH, else pyenv's."""
    versions = os.path.join(home, ".pyenv", "versions")
    installed = sorted(os.listdir(versions)) if os.path.isdir(versions) else []
    found = []
    for minor in range(NEWEST[1], OLDEST[1] - 1, -1):
        name = f"python3.{minor}"
        candidates = [name] + [os.path.join(versions, folder, "bin", name) for folder in installed]
        found += [python for python in candidates if runs(python)][:1]
    return found


def find_problems(venv: str) -> List[Problem]:  # noqa: UP006
    """Everything this machine lacks; empty when the set-up can start."""
    include = sysconfig.get_paths()["include"]
    folder = os.path.dirname(os.path.abspath(venv))
    # An existing environment already occupies the space that it needs.
    free = shutil.disk_usage(folder).free if not os.path.isdir(venv) else FREE_GB * 1e9
    implementation = platform.python_implementation()
    libc = platform.libc_ver()[0]
    problems = python_problems(sys.version_info[:2], implementation, other_interpreters())
    python_is_right = not problems
    problems += tool_problems()
    if python_is_right:
        problems += header_problems(include) + venv_problems(can_import)
    problems += disk_problems(int(free), folder)
    problems += machine_problems(platform.machine(), struct.calcsize("P") * 8, libc, sys.platform)
    return problems


def install_command(problems: List[Problem], manager: str, version: str, root: bool) -> str:  # noqa: UP006
    """One command for every system package that is missing, or an empty string."""
    names: Dict[str, None] = {}  # noqa: UP006
    for problem in problems:
        if problem.part:
            names[PACKAGES[manager][problem.part].format(v=version)] = None
    if not names:
        return ""
    sudo = "" if root or manager == "brew" else "sudo "
    return sudo + INSTALL[manager].format(sudo=sudo, packages=" ".join(names))


def render(problems: List[Problem], manager: Optional[str], version: str, root: bool) -> str:  # noqa: UP006, UP045
    """The message for a person: what is missing, why, and the commands."""
    lines = ["Missing before anything can be installed:"]
    for problem in problems:
        lines.append(f"  - {problem.what}: {problem.why}")
        if problem.remedy:
            lines.append(f"      {problem.remedy}")
    if any(problem.part for problem in problems):
        if manager:
            lines += ["", "Install with:", "  " + install_command(problems, manager, version, root)]
        else:
            lines += ["", "Install these with the system's package manager."]
    return "\n".join(lines)


def main(arguments: Optional[List[str]] = None) -> int:  # noqa: UP006, UP045
    parser = argparse.ArgumentParser(description="name what this machine lacks")
    parser.add_argument("--venv", default=os.path.join(ROOT, ".venv"), help="where the environment will be")
    options = parser.parse_args(arguments)
    problems = find_problems(options.venv)
    version = "{}.{}".format(*sys.version_info[:2])
    if not problems:
        print(f"nothing is missing (CPython {platform.python_version()}, {platform.machine()})")
        for note in optional_notes():
            print(note)
        return 0
    manager = next((name for name in PACKAGES if shutil.which(name)), None)
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    print(render(problems, manager, version, root), file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
