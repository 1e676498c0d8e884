"""Files that are all written or not at all: complete beside their places first, and put back when a move fails."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tq_core.errors import TqError, ValueRangeError, check

SUMS, MARK = "SHA256SUMS", ".complete"
STAGING = ".report-"
_STAGED = re.compile(r"\.report-[a-z0-9_]{8}")
LEFT_SECONDS = (
    600.0  # a folder of staged files that old belongs to no run that still writes: writing takes seconds
)


class ReportError(TqError):
    """A report could not be written, or is damaged, unfinished, of another version, or no report."""


def sums_of(texts: Mapping[str, bytes]) -> bytes:
    """What `sha256sum` prints for these files."""
    return "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in texts.items()).encode()


def mark_of(sums: bytes) -> bytes:
    """Content of the mark: it belongs to one set of sums, so that an old mark never vouches for new files."""
    return f"{hashlib.sha256(sums).hexdigest()}  {SUMS}\n".encode()


def encoded(texts: Mapping[str, str]) -> dict[str, bytes]:
    """UTF-8; half of a surrogate pair, which a model's reply can hold, is written as its number."""
    return {name: text.encode("utf-8", "backslashreplace") for name, text in texts.items()}


def write_files(files: Mapping[str, bytes], out_dir: str | os.PathLike[str]) -> Path:
    """Write files into a folder (made when missing), the last one last; returns the folder.

    All are complete and on the disk before the first is moved into place. When that fails or is interrupted, the
    earlier files of these names are put back, the last one last. A process that is killed between two moves leaves
    no file of the last name; what it left staged is removed by the next write, see ``clear_left``. Raises ReportError when the folder cannot be written or is full, and ValueRangeError
    when ``out_dir`` is a file.
    """
    folder = Path(out_dir)
    check(not folder.exists() or folder.is_dir(), "out", "a folder", f"the file {folder}", ValueRangeError)
    made = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        clear_left(folder)
        staging = Path(tempfile.mkdtemp(prefix=STAGING, dir=folder))
    except OSError as error:
        raise ReportError(
            f"out: expected a folder that can be written, got {folder}: {error.strerror}"
        ) from error
    try:
        for name, data in files.items():
            with open(staging / name, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        _move(list(files), staging, folder)
    except OSError as error:
        raise ReportError(f"out: expected room for the report in {folder}, got {error.strerror}") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        if made and not any(folder.iterdir()):
            folder.rmdir()
    return folder


def clear_left(folder: Path) -> None:
    """Remove folders of staged files that runs left in ``folder`` when they were killed; younger ones may be at work."""
    for path in folder.glob(f"{STAGING}*"):
        try:
            old = time.time() - path.lstat().st_mtime > LEFT_SECONDS
        except OSError:
            continue  # another run has just removed it
        if old and _STAGED.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)


def check_own(path: Path, name: str, what: str, is_own: Callable[[bytes], bool]) -> None:
    """Refuse to write over a file of somebody else's: only what is absent, empty or ``is_own(its content)`` may go.

    name: the option that gave the path. what: what the file may be, in words. Raises ValueRangeError.
    """
    check(not path.is_dir(), name, "a file", f"the folder {path}", ValueRangeError)
    try:
        data = path.read_bytes() if path.is_file() else b""
        there = path.exists() and not path.is_file()
    except (OSError, ValueError) as error:
        raise ValueRangeError(f"{name}: expected a file that can be read, got {path}: {error}") from error
    mine = not there and (not data or is_own(data))
    expected = f"a new file, an empty one or {what}"
    check(mine, name, expected, f"{path}, which is something else and stays as it is", ValueRangeError)


def _move(names: Sequence[str], staging: Path, folder: Path) -> None:
    """Move files into place, the last one's predecessor away first; on any failure put the predecessors back."""
    kept = staging / "before"
    kept.mkdir()
    old = [name for name in names if (folder / name).exists()]
    for name in old:
        _second_copy(folder / name, kept / name)
    try:
        (folder / names[-1]).unlink(missing_ok=True)
        for name in names[:-1]:
            os.replace(staging / name, folder / name)
        _settle(folder)
        os.replace(staging / names[-1], folder / names[-1])
    except BaseException:
        for name in names:
            if name in old:
                (folder / name).unlink(missing_ok=True)
                _second_copy(kept / name, folder / name)
            else:
                (folder / name).unlink(missing_ok=True)
        raise
    _settle(folder)


def _second_copy(source: Path, target: Path) -> None:
    """A second name for a file, which takes no room; a copy where the file system has no hard links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _settle(folder: Path) -> None:
    """Put a folder's names on the disk, where a folder can be opened for that."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)
