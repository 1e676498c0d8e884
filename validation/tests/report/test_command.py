"""`tq report`: check and pdf."""

import json
import shutil

import pytest

from tq_core.browser.chromium import BrowserMissing, find_chromium
from tq_core.errors import ValueRangeError
from validation import cli, report
from validation.report import pdf


def test_check_says_what_it_found(study_report, capsys):
    assert cli.main(["report", "check", str(study_report), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["status"] == "incomplete" and len(told["result_digest"]) == 64


def test_a_damaged_report_is_bad_input_in_one_line(study_report, tmp_path, capsys):
    shutil.copytree(study_report, tmp_path / "r")
    (tmp_path / "r" / ".complete").unlink()
    for arguments in (["check"], ["pdf"]):
        assert cli.main(["report", *arguments, str(tmp_path / "r")]) == cli.BAD_INPUT
        said = capsys.readouterr()
        assert said.out == "" and said.err.count("\n") == 1 and "not completely written" in said.err


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    return tmp_path


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_without_chromium_it_says_what_to_install(study_report, nowhere, capsys):
    assert cli.main(["report", "pdf", str(study_report)]) == 3
    said = capsys.readouterr()
    assert said.out == "" and "apt-get install chromium" in said.err and said.err.count("\n") == 1


def test_playwrights_chromium_is_found(nowhere):
    browser = nowhere / "chromium-1234" / "chrome-linux" / "chrome"
    script(browser, "exit 0")
    assert find_chromium() == str(browser)


@pytest.mark.parametrize("text", ["exit 1", "exit 0", "echo no >&2"])
def test_a_browser_that_prints_nothing_leaves_nothing(study_report, nowhere, text):
    script(nowhere / "chromium", text)
    with pytest.raises(report.ReportError, match="pdf: expected a PDF"):
        pdf.write_pdf(study_report, nowhere / "out.pdf")
    assert not (nowhere / "out.pdf").exists()
    with pytest.raises(ValueRangeError, match="out: expected a file"):
        pdf.write_pdf(study_report, nowhere)


def test_everything_is_unfolded_on_paper():
    assert pdf.unfolded("<details><summary>a</summary></details><details open>") == "<details open><summary>a</summary></details><details open>"  # fmt: skip


@pytest.mark.slow
def test_chromium_prints_the_report(study_report, tmp_path):
    try:
        find_chromium()
    except BrowserMissing as error:
        pytest.skip(str(error))
    made = pdf.write_pdf(study_report, tmp_path / "out.pdf").read_bytes()
    assert (
        made.startswith(b"%PDF-") and made.rstrip().endswith(b"%%EOF") and made.count(b"/Type /Page\n") >= 5
    )
