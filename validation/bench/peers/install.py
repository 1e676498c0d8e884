"""Install the peers into an environment of their own: ``python -m validation.bench.peers.install [--venv DIR]``.

Wheels come from the package index. ggml has none of its own, so its source is taken out of the source distribution of
llama-cpp-python and built for this CPU with the C compiler and cmake. A peer that cannot be had is named and left
out; the benchmark then says that it was not measured.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
VENV = ROOT / ".venv-bench"
BUILD = ROOT / "build" / "bench-peers"
GGML_BUILD = BUILD / "ggml-build"
DRIVER = GGML_BUILD / f"libtq_bench_ggml.{'dylib' if sys.platform == 'darwin' else 'so'}"
NODE_MODULES = BUILD / "node" / "node_modules"
NODE_PACKAGES = ("node-llama-cpp@3.21.1", "@node-llama-cpp/linux-x64@3.21.1")
PACKAGES = ("numpy", "threadpoolctl", "torch==2.13.0", "faiss-cpu", "turbovec", "aither-kvcache")
SOURCE_PACKAGE = "llama-cpp-python"
SOURCE_VERSION = "0.3.36"
SOURCE = BUILD / f"ggml-of-{SOURCE_PACKAGE}-{SOURCE_VERSION}"
GGML = "vendor/llama.cpp/ggml/"


def python_of(folder: Path) -> Path:
    """The interpreter of a virtual environment."""
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def ggml_version() -> str:
    """Version in the CMake file of the ggml that was built, with the package it came in."""
    path = SOURCE / "CMakeLists.txt"
    if not path.exists():
        return "unknown"
    numbers = re.findall(r"set\(GGML_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)\)", path.read_text())
    return f"{'.'.join(numbers)} ({SOURCE_PACKAGE} {SOURCE_VERSION})"


def _run(*command: str | Path) -> None:
    subprocess.run([str(part) for part in command], check=True)


def unpack(archive: Path, into: Path) -> None:
    """Take the ggml folder out of the source distribution."""
    with tarfile.open(archive) as tar:
        for member in tar:
            _, _, name = member.name.partition("/")
            if member.isfile() and name.startswith(GGML) and ".." not in name.split("/"):
                target, content = into / name, tar.extractfile(member)
                if content is not None:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(content.read())


def build_ggml(python: Path, jobs: int) -> None:
    """Fetch, unpack and build; does nothing where the driver is newer than its source."""
    source = Path(__file__).resolve().parent / "ggml"
    if DRIVER.exists() and DRIVER.stat().st_mtime > max(p.stat().st_mtime for p in source.iterdir()):
        return
    for tool in ("cmake", "cc"):
        if shutil.which(tool) is None:
            raise FileNotFoundError(f"{tool} is needed to build ggml")
    BUILD.mkdir(parents=True, exist_ok=True)
    archive = BUILD / f"{SOURCE_PACKAGE.replace('-', '_')}-{SOURCE_VERSION}.tar.gz"
    if not archive.exists():
        wanted = f"{SOURCE_PACKAGE}=={SOURCE_VERSION}"
        download = ("download", "-q", "--no-deps", "--no-binary", SOURCE_PACKAGE, "-d", BUILD, wanted)
        _run(python, "-m", "pip", *download)
    if not SOURCE.exists():
        with tempfile.TemporaryDirectory(dir=BUILD) as work:  # a source that is there is there whole
            unpack(archive, Path(work))
            (Path(work) / GGML).rename(SOURCE)
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    _run("cmake", "-S", source, "-B", GGML_BUILD, *generator, f"-DGGML_SOURCE={SOURCE}")
    _run("cmake", "--build", GGML_BUILD, "-j", str(jobs))


def install_llama() -> None:
    """llama.cpp as node-llama-cpp packs it: compiled for many x86 processors, the right one chosen when it is loaded."""
    npm = shutil.which("npm")
    if npm is None:
        raise FileNotFoundError("npm is needed")
    NODE_MODULES.parent.mkdir(parents=True, exist_ok=True)
    flags = ("--omit=optional", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
    _run(npm, "install", "--prefix", NODE_MODULES.parent, "--save-exact", *flags, *NODE_PACKAGES)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m validation.bench.peers.install", description=__doc__)
    parser.add_argument("--venv", type=Path, default=VENV, metavar="DIR")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="parallel compilations")
    options = parser.parse_args(arguments)
    python = python_of(options.venv)
    if not python.exists():
        venv.create(options.venv, with_pip=True)
    missing = []
    for package in PACKAGES:  # one by one, so that one that cannot be had does not stop the others
        print(f"bench-peers: {package}", flush=True)
        try:
            _run(python, "-m", "pip", "install", "-q", package)
        except subprocess.CalledProcessError:
            missing.append(package)
    print("bench-peers: llama.cpp for whole models (node-llama-cpp)", flush=True)
    try:
        install_llama()
    except (OSError, subprocess.CalledProcessError) as error:
        missing.append(f"node-llama-cpp ({error})")
    print("bench-peers: ggml, built here; takes minutes the first time", flush=True)
    try:
        build_ggml(python, options.jobs)
    except (OSError, subprocess.CalledProcessError, tarfile.TarError) as error:
        missing.append(f"ggml ({error})")
    for name in missing:
        print(f"bench-peers: not installed, will not be measured: {name}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
