"""Whatever call fails, and wherever the power goes, the name leads to the whole old file or to the whole new one."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tq_core.cache.atomic import RealDisk, replace_file
from tq_core.cache.saved import image_of, load_cache, save_cache
from tq_core.cache.saved_write import chunks
from tq_core.errors import CacheFileError
from tq_core.kernels.backend import NumpyBackend
from tq_core.tests.cache.savings import filled

CALLS = ("create", "write", "sync", "close", "rename", "sync_folder")


class CountingDisk(RealDisk):
    """Notes every call and, at call ``stop``, raises before it (``late``: after it has done its work)."""

    def __init__(self, stop: int = -1, late: bool = False, error: BaseException | None = None) -> None:
        self.calls: list[str] = []
        self.stop, self.late = stop, late
        self.error = error or OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _step(self, name: str, *arguments: Any) -> Any:
        self.calls.append(name)
        now = len(self.calls) - 1 == self.stop
        if now and not self.late:
            if name == "close":
                super().close(*arguments)  # a failing close still frees the handle
            raise self.error
        result = getattr(super(), name)(*arguments)
        if now:
            raise self.error
        return result

    def create(self, *a: Any) -> Any:
        return self._step("create", *a)

    def write(self, handle: int, data: Any) -> Any:
        return self._step("write", handle, data[: max(1, len(data) // 2)] if len(data) > 5000 else data)

    def sync(self, *a: Any) -> Any:
        return self._step("sync", *a)

    def close(self, *a: Any) -> Any:
        return self._step("close", *a)

    def rename(self, *a: Any) -> Any:
        return self._step("rename", *a)

    def sync_folder(self, *a: Any) -> Any:
        return self._step("sync_folder", *a)


def saves() -> tuple[Any, Any, Any, Any]:
    old, identity, ids = filled("structured-turbo", 20)
    new, _, more = filled("structured-turbo", 60)
    return old, new, identity, (ids, more)


def test_a_failure_at_any_call_leaves_a_whole_file(tmp_path: Path) -> None:
    old, new, identity, (ids, more) = saves()
    path = tmp_path / "cache"
    plain = CountingDisk()
    save_cache(tmp_path / "other", new, identity, more, plain)
    wanted = (tmp_path / "other").read_bytes()
    (tmp_path / "other").unlink()
    assert set(plain.calls) == set(CALLS)
    assert plain.calls.count("write") > len(
        list(chunks(image_of(new, identity, more)))
    )  # some are cut in two
    save_cache(path, old, identity, ids)
    before = path.read_bytes()
    for stop, call in enumerate(plain.calls):
        for late in (False, True):
            for error in (None, KeyboardInterrupt()):
                if call == "create" and late:
                    continue  # nobody knows the name of a file whose creation was interrupted
                disk = CountingDisk(stop, late, error)
                with pytest.raises(KeyboardInterrupt if error else CacheFileError):
                    save_cache(path, new, identity, more, disk)
                renamed = call == "sync_folder" or (call == "rename" and late)
                assert path.read_bytes() == (wanted if renamed else before), (stop, call, late)
                assert os.listdir(tmp_path) == ["cache"], (stop, call, late)
                load_cache(path, identity, new.arm, NumpyBackend())
                if renamed:
                    save_cache(path, old, identity, ids)
    save_cache(path, new, identity, more)
    assert path.read_bytes() == wanted


def test_an_error_while_the_pages_are_made_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def broken() -> Iterator[bytes]:
        yield b"new"
        raise RuntimeError("lost")

    with pytest.raises(RuntimeError, match="lost"):
        replace_file(path, broken())
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


class PowerDisk:
    """A disk that forgets: data and names are safe after their sync, and only perhaps before it."""

    def __init__(self, old: bytes) -> None:
        self.files = {0: (old, True)}  # inode: data, and whether they were synced
        self.names = {"cache": 0}  # what the running system sees
        self.safe_names: list[dict[str, int]] = [dict(self.names)]  # what a power cut may leave
        self.states: list[tuple[str, set[bytes]]] = []

    def _after(self, call: str) -> None:
        """Everything that the name can lead to when the power goes now."""
        seen = set()
        for names in self.safe_names:
            data, synced = self.files[names["cache"]]
            seen |= {data} if synced else {data, b"", data[: len(data) // 2]}
        self.states.append((call, seen))

    def create(self, folder: Path, name: str) -> tuple[int, Path]:
        inode = len(self.files)
        self.files[inode] = (b"", False)
        self.names["part"] = inode
        self._after("create")
        return inode, Path("part")

    def write(self, handle: int, data: Any) -> int:
        self.files[handle] = (self.files[handle][0] + bytes(data), False)
        self._after("write")
        return len(data)

    def sync(self, handle: int) -> None:
        self.files[handle] = (self.files[handle][0], True)
        self._after("sync")

    def close(self, handle: int) -> None:
        self._after("close")

    def rename(self, source: Path, target: Path) -> None:
        self.names[target.name] = self.names.pop(source.name)
        self.safe_names.append(dict(self.names))
        self._after("rename")

    def sync_folder(self, folder: Path) -> None:
        self.safe_names = [dict(self.names)]
        self._after("sync_folder")

    def remove(self, path: Path) -> None:
        self.names.pop(path.name)


def power_cuts(disk: PowerDisk) -> list[tuple[str, set[bytes]]]:
    replace_file(Path("cache"), [b"new " * 5, b"content"], disk)
    return disk.states


OLD, NEW = b"old content", b"new " * 5 + b"content"


def test_a_power_cut_after_any_call_leaves_a_whole_file() -> None:
    states = power_cuts(PowerDisk(OLD))
    assert [call for call, _ in states] == [
        "create",
        "write",
        "write",
        "sync",
        "close",
        "rename",
        "sync_folder",
    ]
    assert all(seen <= {OLD, NEW} for _, seen in states)
    assert states[-1][1] == {NEW}  # once the call returns, the new file is there to stay


@pytest.mark.parametrize("skipped, torn, lost", [("sync", True, True), ("sync_folder", False, True)])
def test_without_a_sync_a_power_cut_would_be_seen(
    skipped: str, torn: bool, lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PowerDisk, skipped, lambda self, _: None)
    states = power_cuts(PowerDisk(OLD))
    assert any(not seen <= {OLD, NEW} for _, seen in states) == torn
    assert (states[-1][1] != {NEW}) == lost


def test_leftovers_are_not_read(tmp_path: Path) -> None:
    cache, identity, ids = filled("fp16", 5)
    (tmp_path / ".cache.abc.part").write_bytes(b"half")
    save_cache(tmp_path / "cache", cache, identity, ids)
    _, read = load_cache(tmp_path / "cache", identity, cache.arm, NumpyBackend())
    assert np.array_equal(read, ids)
