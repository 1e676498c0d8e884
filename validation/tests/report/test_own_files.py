"""What is written never takes the place of somebody's own file, and killed runs leave no heaps behind."""

import os
import time

import pytest

from validation import cli
from validation.report import files, pdf
from validation.tests.report.test_command import nowhere, script

__all__ = ["nowhere"]
PRINTED = (
    b"%PDF-1.4\n1 0 obj\n<</Title (PASS: an arm on tiny, validation report)\n/Producer (Skia/PDF m1)>>\n"
)
WIDE = b"%PDF-1.4\n<</Title <FEFF" + "PASS: é, validation report".encode("utf-16-be").hex().encode() + b">\n"
MINE = {
    "notes": b"my notes\n",
    "page": b"<!doctype html><title>My page</title>",
    "pdf": b"%PDF-1.7\n<</Title (Taxes)>>\n",
    "bytes": bytes(range(256)),
}


@pytest.mark.parametrize("content", MINE)
def test_a_difference_replaces_no_file_of_the_users(content, study_report, tmp_path, capsys):
    place = tmp_path / "mine.html"
    place.write_bytes(MINE[content])
    assert cli.main(["diff", str(study_report), str(study_report), "--html", str(place)]) == cli.BAD_INPUT
    said = capsys.readouterr()
    assert said.out == "" and "html: expected a new file" in said.err and said.err.count("\n") == 1
    assert place.read_bytes() == MINE[content] and os.listdir(tmp_path) == ["mine.html"]


def test_a_difference_replaces_its_own_page_and_an_empty_file_but_no_report(study_report, tmp_path, capsys):
    place = tmp_path / "d.html"
    place.touch()
    for _ in range(2):  # the second time it is its own page
        assert cli.main(["diff", str(study_report), str(study_report), "--html", str(place)]) == cli.PASS
    assert b"two validation reports" in place.read_bytes()
    place.write_bytes((study_report / "report.html").read_bytes())
    assert cli.main(["diff", str(study_report), str(study_report), "--html", str(place)]) == cli.BAD_INPUT


@pytest.mark.parametrize("content", MINE)
def test_a_printed_report_replaces_no_file_of_the_users(content, study_report, nowhere, tmp_path, capsys):
    script(nowhere / "chromium", "exit 1")
    place = tmp_path / "mine.pdf"
    place.write_bytes(MINE[content])
    assert cli.main(["report", "pdf", str(study_report), "--out", str(place)]) == cli.BAD_INPUT
    assert "out: expected a new file" in capsys.readouterr().err
    assert place.read_bytes() == MINE[content]


@pytest.mark.parametrize("content", [b"", PRINTED, WIDE])
def test_what_was_printed_before_may_go(content, study_report, nowhere, tmp_path):
    made = nowhere / "made"
    made.write_bytes(PRINTED)
    words = f'for a in "$@"; do case "$a" in --print-to-pdf=*) /bin/cp {made} "${{a#*=}}";; esac; done'
    script(nowhere / "chromium", words)
    place = tmp_path / "old.pdf"
    place.write_bytes(content)
    assert pdf.write_pdf(study_report, place).read_bytes() == PRINTED


def test_what_killed_runs_left_is_cleared_and_nothing_else(tmp_path):
    names = {".report-abcd1234": True, ".report-efgh5678": False, ".report-drafts of mine": True, "report-abcd1234": True}  # fmt: skip
    for name, old in names.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "report.json").write_text("{}")
        then = time.time() - (2 * files.LEFT_SECONDS if old else 0)
        os.utime(tmp_path / name, (then, then))
    (tmp_path / ".report-file0000").write_text("a file")
    os.utime(tmp_path / ".report-file0000", (0, 0))
    (tmp_path / ".report-link0000").symlink_to(tmp_path / "report-abcd1234")
    files.write_files({"a.txt": b"a"}, tmp_path)
    left = set(os.listdir(tmp_path))
    assert left == {*names, ".report-file0000", ".report-link0000", "a.txt"} - {".report-abcd1234"}
    assert (tmp_path / "report-abcd1234" / "report.json").exists()


def test_titles_end_as_the_check_of_a_pdf_expects(study_report):
    assert f"{pdf.TITLE}</title>" in (study_report / "report.html").read_text(encoding="utf-8")
