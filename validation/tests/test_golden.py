"""The frozen bytes: a change that moves every backend together shows only here."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tq_core.cache.page import PageFlags, read_header
from tq_core.cache.saved_read import parse
from tq_core.cache.saved_write import chunks
from validation.golden import refreeze
from validation.golden.cases import golden_cases

CASES = golden_cases()


@pytest.mark.parametrize("case", sorted(CASES))
def test_frozen(case: str) -> None:
    lines = refreeze.changes(case, CASES[case])
    assert not lines, f"{lines}; if the change is meant: python -m validation.golden.refreeze"


def test_the_frozen_saved_cache_is_read_by_this_reader() -> None:
    """A file of the present version stays readable, whatever happens to the writer."""
    frozen = refreeze.read("saved_cache")
    image = parse(frozen["file"])
    assert np.array_equal(image.tokens, np.arange(170))
    assert bytes.fromhex(image.identity.digest) == frozen["identity"].tobytes()
    seals = [
        bool(read_header(page).flags & PageFlags.SEALED) for store in image.stores for page in store.pages
    ]
    assert seals == [True] * 4
    assert b"".join(chunks(image)) == frozen["file"].tobytes()


def test_no_stale_files() -> None:
    frozen = {path.stem for path in refreeze.FOLDER.glob("*.json")}
    assert frozen == set(CASES)


def test_changes_are_named(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(refreeze, "FOLDER", tmp_path)
    a = {"x": np.arange(6, dtype=np.float32), "y": np.zeros(2, np.uint8)}
    refreeze.write("case", a)
    assert refreeze.changes("case", a) == []
    moved = {"x": a["x"].copy(), "z": a["y"]}
    moved["x"][3] = np.nextafter(moved["x"][3], np.float32(9))
    assert refreeze.changes("case", moved) == [
        "case: x differs in 1 bytes",
        "case: y removed",
        "case: z added",
    ]


def test_a_tampered_file_is_refused(tmp_path) -> None:
    text, data = refreeze.encode({"x": np.arange(6, dtype=np.float32)})
    (tmp_path / "case.json").write_text(text)
    (tmp_path / "case.bin").write_bytes(data[:-1] + b"\x01")
    with pytest.raises(ValueError, match="case.bin"):
        refreeze.read("case", tmp_path)
    assert json.loads(text)["bytes"] == 24
