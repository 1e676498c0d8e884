"""Replace a file as a whole: whatever happens, its name leads to the old content or to the new one, never to a part.

The order is what makes it safe: write beside it, fsync the data, rename over the name, fsync the folder. A rename
that reaches the disk before the data would leave an empty or torn file behind a power cut.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

PART = ".part"


class Disk(Protocol):
    """The calls that change a disk, in the order in which ``replace_file`` makes them."""

    def create(self, folder: Path, name: str) -> tuple[int, Path]:
        """A new file beside the others, opened for writing."""

    def write(self, handle: int, data: bytes | memoryview) -> int:
        """Write some of ``data``; returns how many bytes."""

    def sync(self, handle: int) -> None:
        """Wait until the file's data are on the disk."""

    def close(self, handle: int) -> None:
        """Close a file."""

    def rename(self, source: Path, target: Path) -> None:
        """Give ``source`` the name ``target`` in one step."""

    def sync_folder(self, folder: Path) -> None:
        """Wait until the folder's names are on the disk."""

    def remove(self, path: Path) -> None:
        """Delete a file."""


class RealDisk:
    """The operating system's own calls. New files are readable by their owner alone: a cache holds a conversation."""

    def create(self, folder: Path, name: str) -> tuple[int, Path]:
        handle, path = tempfile.mkstemp(dir=folder, prefix=f".{name}.", suffix=PART)
        return handle, Path(path)

    def write(self, handle: int, data: bytes | memoryview) -> int:
        return os.write(handle, data)

    def sync(self, handle: int) -> None:
        os.fsync(handle)

    def close(self, handle: int) -> None:
        os.close(handle)

    def rename(self, source: Path, target: Path) -> None:
        os.replace(source, target)

    def sync_folder(self, folder: Path) -> None:
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def remove(self, path: Path) -> None:
        path.unlink()


def replace_file(path: Path, chunks: Iterable[bytes | memoryview], disk: Disk | None = None) -> None:
    """Write ``chunks`` as the new content of ``path``.

    On any error the name keeps its old content and the unfinished file is removed. A power cut can leave an
    unfinished ``.<name>.*.part`` file behind, which nothing reads. Raises OSError.
    """
    disk = disk or RealDisk()
    handle, part = disk.create(path.parent, path.name)
    try:
        try:
            for chunk in chunks:
                view = memoryview(chunk)
                while view:
                    view = view[disk.write(handle, view) :]
            disk.sync(handle)
        finally:
            disk.close(handle)
        disk.rename(part, path)
    except BaseException:
        with contextlib.suppress(OSError):
            disk.remove(part)
        raise
    disk.sync_folder(path.parent)
