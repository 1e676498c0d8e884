"""The report's folder: whole or not there, checked by its mark, sums, schema and digest."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from tq_core.errors import ValueRangeError
from validation import report
from validation.report import files, folder
from validation.tests.records import make_record, make_samples

NAMES = {"report.html", "report.json", "samples.jsonl", "SHA256SUMS", ".complete"}


@pytest.fixture
def plain(monkeypatch):
    """No figures, so that a write takes no time."""
    monkeypatch.setattr(folder, "all_figures", lambda data: [])


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def contents(place):
    return {p.name: p.read_bytes() for p in place.iterdir()}


def test_all_files_are_there_and_sha256sum_accepts_them(study_report):
    assert {p.name for p in study_report.iterdir()} == NAMES
    done = subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=study_report, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.count(": OK") == 3
    done = subprocess.run(["sha256sum", "-c", ".complete"], cwd=study_report, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.count(": OK") == 1
    lines = (study_report / "samples.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == make_samples()
    assert report.check_folder(study_report) == json.loads((study_report / "report.json").read_text())


def test_same_record_same_digest_and_only_what_measures_the_machine_stays_out(plain):
    digest = make_record().as_dict()["result_digest"]
    changed = make_record(performance=[], measurements=[], run={"command": "other"})
    changed.study["file"] = "elsewhere.yaml"
    changed.gates[0]["command"] = "other"
    changed.gates[3].update(value=0.5, evidence="other")  # the volatile one
    assert changed.as_dict()["result_digest"] == digest
    for edit in (
        lambda r: r.gates[0].update(value=0.005),
        lambda r: r.gates[3].update(status="fail"),
        lambda r: r.study.update(sha256="0" * 64),
        lambda r: r.decisions[0].update(bound=0.0049),
        lambda r: r.trajectories[0].update(identical=3),
    ):
        record = make_record()
        edit(record)
        assert record.as_dict()["result_digest"] != digest


def test_writing_again_replaces_the_files_and_leaves_others(plain, out):
    report.write(make_record(), out)
    (out / "notes.txt").write_text("mine")
    paths = report.write(make_record(status="fail"), out, make_samples())
    assert report.check_folder(out)["status"] == "fail"
    assert set(contents(out)) == NAMES | {"notes.txt"} and list(paths) == [
        "html",
        "json",
        "samples",
        "sums",
        "mark",
    ]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, OSError(28, "No space left on device")])
@pytest.mark.parametrize(
    "place", [("fsync", 0), ("fsync", 3), ("replace", 0), ("replace", 2), ("replace", 4)]
)
def test_a_write_that_fails_anywhere_leaves_nothing_or_the_old_report(plain, out, monkeypatch, stop, place):
    name, allowed = place
    real, calls = getattr(os, name), []

    def broken(*given):
        calls.append(given)
        if len(calls) > allowed:
            raise stop
        return real(*given)

    expected = KeyboardInterrupt if stop is KeyboardInterrupt else report.ReportError
    with monkeypatch.context() as patched:
        patched.setattr(files.os, name, broken)
        with pytest.raises(expected):
            report.write(make_record(), out)
    assert calls and not out.exists()
    report.write(make_record(), out)
    before = contents(out)
    calls.clear()
    with monkeypatch.context() as patched:
        patched.setattr(files.os, name, broken)
        with pytest.raises(expected):
            report.write(make_record(status="fail"), out)
    assert contents(out) == before and report.check_folder(out)["status"] == "incomplete"


def test_a_file_that_may_not_grow_is_a_full_disk(plain, out):
    resource = pytest.importorskip("resource")
    report.write(make_record(), out)
    before = contents(out)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))  # less than report.json
    try:
        with pytest.raises(report.ReportError, match="expected room for the report"):
            report.write(make_record(status="fail"), out)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert contents(out) == before


def test_a_process_killed_between_two_files_leaves_no_mark(plain, out):
    report.write(make_record(), out)
    code = (
        "import os; from validation.report import files; real, calls = os.replace, []\n"
        "def killed(*given):\n    calls.append(given)\n    real(*given) if len(calls) < 3 else os.kill(os.getpid(), 9)\n"
        f"files.os.replace = killed; files.write_files({{n: b'new' for n in {sorted(NAMES)[::-1]!r}}}, {str(out)!r})"
    )
    done = subprocess.run([sys.executable, "-c", code])
    assert done.returncode == -9 and not (out / ".complete").exists()
    with pytest.raises(report.ReportError, match="not completely written"):
        report.check_folder(out)


def test_a_record_or_sample_that_breaks_the_schema_writes_nothing(plain, out):
    for record in (make_record(status="good"), make_record(workloads=[{"name": "x"}]), make_record(performance=[{"value": float("nan")}])):  # fmt: skip
        with pytest.raises(report.ReportError, match="record: expected"):
            report.write(record, out)
    sample = make_samples()[0]
    for bad in (
        [{**sample, "kl_mean": float("inf")}],
        [{**sample, "more": 1}],
        [{"prompt": "x"}],
        [sample, sample],
    ):
        with pytest.raises(report.ReportError, match=r"samples\[\d\]"):
            report.write(make_record(), out, bad)
    assert not out.exists()


@pytest.mark.parametrize("status", ["pass", "incomplete", "fail"])
def test_a_run_that_ended_early_is_incomplete_and_says_why(plain, out, status):
    record = make_record(status=status, verdict=[f"{status.upper()}: so.", "More."])
    paths = report.write(record, out, incomplete="the disk was full after 5 of 9 cells")
    data = report.check_folder(out)
    assert data["status"] == "incomplete" and data["incomplete"] == "the disk was full after 5 of 9 cells"
    kept = ["FAIL: so.", "More."] if status == "fail" else ["More."]
    assert data["verdict"] == [
        "INCOMPLETE: the run ended early: the disk was full after 5 of 9 cells.",
        *kept,
    ]
    assert "5 of 9 cells" in data["not_exercised"][0] and "The rest of the run" in paths["html"].read_text()


@pytest.mark.parametrize("name", sorted(NAMES))
@pytest.mark.parametrize("change", ["gone", "one byte more", "a folder"])
def test_a_changed_folder_is_refused(study_report, out, name, change):
    shutil.copytree(study_report, out)
    path = out / name
    if change == "one byte more":
        path.write_bytes(path.read_bytes() + b"\n")
    else:
        path.unlink()
    if change == "a folder":
        path.mkdir()
    with pytest.raises(report.ReportError):
        report.check_folder(out)


def reseal(place):
    """Sums and mark made anew after an edit, as one would who knows the format."""
    found = {n: (place / n).read_bytes() for n in (folder.HTML, folder.JSON, folder.SAMPLES)}
    (place / "SHA256SUMS").write_bytes(files.sums_of(found))
    (place / ".complete").write_bytes(files.mark_of(files.sums_of(found)))


@pytest.mark.parametrize(
    ("name", "old", "new", "why"),
    [
        ("report.json", '"bound": 0.0048', '"bound": 0.0001', "result digest"),
        ("report.json", '"version": 2', '"version": 1', "unknown version"),
        ("report.json", '"status": "incomplete"', '"status": "good"', "schema"),
        ("samples.jsonl", '"arm"', '"leg"', "line 1: expected what the schema allows"),
        ("samples.jsonl", "{", "", "line 1: expected JSON"),
    ],
)
def test_an_edit_with_new_sums_is_still_refused(study_report, out, name, old, new, why):
    shutil.copytree(study_report, out)
    text = (out / name).read_text()
    assert old in text
    (out / name).write_text(text.replace(old, new, 1))
    reseal(out)
    with pytest.raises(report.ReportError, match=why):
        report.check_folder(out)


def test_a_file_in_the_place_of_the_folder_is_refused(plain, tmp_path):
    (tmp_path / "out").write_text("mine")
    with pytest.raises(ValueRangeError, match="out: expected a folder"):
        report.write(make_record(), tmp_path / "out")
    with pytest.raises(report.ReportError, match="expected a folder"):
        report.check_folder(tmp_path / "out")
    assert (tmp_path / "out").read_text() == "mine"
