"""Create the environment and build what the workbook needs; do nothing when it is there.

Standard library only: it runs on the system's python3.

    python3 scripts/setup.py [--venv .venv] [--this-python] [--phases 3] [--without-wasm]

The stamp inside the environment is written last and holds a digest of what was
installed from; a mark beside it is there while pip works. So a run that was
interrupted is noticed by the next one, which starts the environment afresh.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from stream import run, tell

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ROOT / "requirements"
STAMP, MARK, LOG = "tq-stamp.json", "tq-installing", "tq-setup.log"


def lock_file(version):
    """The pinned versions for an interpreter, e.g. (3, 11); the newest file serves later ones too."""
    exact = LOCKS / "py{}{}.txt".format(*version)
    if exact.exists():
        return exact
    files = sorted(LOCKS.glob("py3*.txt"), key=lambda path: int(path.stem[3:]))
    return [path for path in files if int(path.stem[3:]) <= version[1]][-1]


def recipe(venv, version, extras):
    """What the environment must have been made from; any difference means installing again."""
    digest = hashlib.sha256()
    for path in (ROOT / "pyproject.toml", lock_file(version), LOCKS / "build.txt"):
        digest.update(path.read_bytes() + b"\0")
    return {
        "digest": digest.hexdigest(),
        "python": "{}.{}".format(*version),
        "extras": extras,
        "folder": str(venv),
    }


def read_stamp(venv):
    try:
        return json.loads((venv / STAMP).read_text())
    except (OSError, ValueError):
        return None


def python_of(venv):
    return venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def working_version(venv):
    """(major, minor) of an environment whose interpreter and pip run, else None."""
    probe = "import sys, pip; print(*sys.version_info[:2])"
    try:
        done = subprocess.run([python_of(venv), "-c", probe], capture_output=True, text=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return tuple(map(int, done.stdout.split())) if done.returncode == 0 else None


def reason_to_rebuild(venv, version, this_python):
    """Why an existing environment cannot be kept, or None."""
    stamp = read_stamp(venv)
    if version is None:
        return "its interpreter does not run"
    if (venv / MARK).exists():
        return "an installation into it was interrupted"
    if stamp and stamp.get("folder") != str(venv):
        return "it was made in another folder"
    if this_python and version != sys.version_info[:2]:
        return "it has CPython {}.{}".format(*version)
    return None


def remove(venv):
    """Delete an environment, and only that: a folder of another kind is left alone."""
    if any(venv.iterdir()) and not (venv / "pyvenv.cfg").exists() and not (venv / MARK).exists():
        sys.exit(f"{venv} exists and is no Python environment: move it away, or name another with VENV=")
    # Moved away first: a half-deleted environment must not be taken for a whole one.
    rest = venv.with_name(venv.name + ".old")
    shutil.rmtree(rest, ignore_errors=True)
    venv.rename(rest)
    shutil.rmtree(rest, ignore_errors=True)


def install(venv, version, extras):
    """pip, in two steps: the pinned installer, then the project with everything it needs."""
    python, log, lock = python_of(venv), venv / LOG, lock_file(version)
    pip = [python, "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off"]
    build = LOCKS / "build.txt"
    run([*pip, "-q", "-r", build], log, cwd=ROOT)
    tell(
        f"versions from {lock.relative_to(ROOT)}; cppyy's bridge is compiled here, which takes a minute or two"
    )
    run(
        [*pip, "-c", lock, "--build-constraint", build, "-e", f".[{extras}]"],
        log,
        cwd=ROOT,
        show=PipProgress(lock),
    )
    run([python, "-m", "pip", "check"], log, cwd=ROOT)


def prepare_cling(venv):
    """Build cppyy's precompiled header now: test workers that start together must not each do it.

    Without cppyy everything else still works, so a failure is told and does not end the set-up.
    """
    tell("preparing the C++ interpreter (once)")
    code = "from tq_core.kernels.cling import load_cppyy; load_cppyy()"
    done = subprocess.run([python_of(venv), "-c", code], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        tell(f"cppyy does not load: {done.stderr.strip().splitlines()[-1]}")
        tell("native kernels will not be available; `tq doctor` lists what is")


class PipProgress:
    """Turns pip's hundreds of lines into a few: one for every ten packages, and every slow step."""

    def __init__(self, lock):
        self.total = sum(1 for line in lock.read_text().splitlines() if line and line[0] != "#")
        self.seen = 0

    def __call__(self, line):
        if line.startswith("Collecting"):
            self.seen += 1
            if self.seen % 10 == 0:
                return f"{self.seen} of about {self.total} packages found"
        elif line.startswith("Building wheel") and "started" in line:
            return line.replace(": started", "")
        elif line.startswith("Installing collected"):
            return f"installing {line.count(',') + 1} packages"
        return None


def make_environment(venv, extras, this_python, header):
    """Bring the environment up to date; returns False when there was nothing to do."""
    version = working_version(venv) if venv.exists() else None
    why = reason_to_rebuild(venv, version, this_python) if venv.exists() else None
    if venv.exists() and not why and read_stamp(venv) == recipe(venv, version, extras):
        return False
    keep = venv.exists() and not why
    header("checking this machine")
    interpreter = python_of(venv) if keep else sys.executable
    if subprocess.run([interpreter, ROOT / "scripts/preflight.py", "--venv", venv]).returncode:
        sys.exit(1)
    header(f"installing into {os.path.relpath(venv)}")
    if why:
        tell(f"starting {venv.name} afresh: {why}")
        remove(venv)
    if not keep:
        version = sys.version_info[:2]
        venv.mkdir(parents=True, exist_ok=True)
        (venv / MARK).touch()
        run([sys.executable, "-m", "venv", venv], venv / LOG, cwd=ROOT)
    (venv / STAMP).unlink() if (venv / STAMP).exists() else None
    (venv / MARK).touch()
    install(venv, version, extras)
    prepare_cling(venv)
    (venv / MARK).unlink()
    # Renamed into place, so that a half-written stamp cannot exist.
    fresh = venv / (STAMP + ".new")
    fresh.write_text(json.dumps(recipe(venv, version, extras), indent=1) + "\n")
    fresh.replace(venv / STAMP)
    return True


def main():
    parser = argparse.ArgumentParser(description="create the environment and build what it needs")
    parser.add_argument("--venv", default=str(ROOT / ".venv"))
    parser.add_argument("--extras", default="all")
    parser.add_argument(
        "--this-python", action="store_true", help="rebuild an environment of another version"
    )
    parser.add_argument("--phases", type=int, default=3, help="how many phases the caller's headers count")
    parser.add_argument("--without-wasm", action="store_true", help="do not build the wasm modules")
    options = parser.parse_args()
    venv = Path(os.path.abspath(options.venv))
    started = time.monotonic()
    phases = iter(range(1, 4))

    def header(text):
        print(f"[{next(phases)}/{options.phases}] {text}", flush=True)

    if not make_environment(venv, options.extras, options.this_python, header):
        next(phases), next(phases)
        tell(f"{os.path.relpath(venv)} is up to date")
    if not options.without_wasm:
        header("wasm modules from cpp/")
        run([python_of(venv), "-m", "wasm.build"], venv / LOG, cwd=ROOT, show=str)
    tell(f"set-up finished in {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\ninterrupted; running the same target again is safe")
