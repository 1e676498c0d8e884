"""A study or a sweep by name or path: found the same way, and what is no file is refused in one line."""

import os

import pytest

from validation import cli, study_file
from validation.study_file import StudyError, find_study
from validation.sweep import file as sweep_file
from validation.sweep.file import SweepError, find_sweep

KINDS = {
    "study": (find_study, StudyError, study_file, "tiny-episodes"),
    "sweep": (find_sweep, SweepError, sweep_file, "tiny"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_by_name_and_by_path_it_is_the_same(kind, tmp_path):
    find, _, module, name = KINDS[kind]
    copy = tmp_path / "mine.yaml"
    copy.write_bytes(module.shipped()[name].read_bytes())
    assert find(str(copy)).sha256 == find(name).sha256


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", ["folder", "absent", "near", "too long", "zero byte", "bytes", "content", "empty"])  # fmt: skip
def test_what_is_no_such_file_is_refused(kind, case, tmp_path, capsys):
    find, error, module, name = KINDS[kind]
    bad = {
        "folder": str(tmp_path),
        "absent": str(tmp_path / "none.yaml"),
        "near": name[:-1],
        "too long": "x" * 5000,
        "zero byte": "a\0b",
        "bytes": os.fsdecode(os.fsencode(tmp_path) + b"/\xff.yaml"),
        "content": str(tmp_path / "latin.yaml"),
        "empty": "",
    }[case]
    if case in ("bytes", "content"):  # the name of a sound file, and the content of a soundly named one
        text = module.shipped()[name].read_bytes()
        with open(os.fsencode(bad), "wb") as file:
            file.write(text if case == "bytes" else text + b"# \xff\n")
    with pytest.raises(error, match="expected .*, got") as caught:
        find(bad)
    said = str(caught.value)
    said.encode("utf-8")
    assert len(said) < 1000
    assert ("the folder" in said) == (case == "folder") or case == "empty"
    assert (f"did you mean {name}?" in said) == (case == "near")
    arguments = ["validate", "--study", bad] if kind == "study" else ["sweep", bad, "--list"]
    assert cli.main(arguments) == cli.BAD_INPUT and "expected" in capsys.readouterr().err
