"""A report's page as PDF, printed by Chromium where it is installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from tq_core.browser.chromium import find_chromium
from validation.report.files import ReportError, check_own
from validation.report.folder import HTML, check_folder

SECONDS = 300
TITLE = ", validation report"  # how the title of every report's page ends


def is_report(data: bytes) -> bool:
    """Whether a file's content is a PDF that Chromium printed of a validation report: its title stands in plain text, or in
    UTF-16 where the model's name needs that."""
    utf16 = TITLE.encode("utf-16-be").hex().upper().encode()
    return data.startswith(b"%PDF-") and (TITLE.encode() in data[:4096] or utf16 in data[:4096].upper())


def unfolded(page: str) -> str:
    """The page with everything open that a reader would have to unfold: paper has no clicks."""
    return re.sub(r"<details(?: open)?>", "<details open>", page)


def write_pdf(folder: str | os.PathLike[str], out: str | os.PathLike[str] | None = None) -> Path:
    """Print a checked report to ``out``; returns the path. Default: report-DIGEST.pdf in its folder, with 8 digits of the
    result digest, so that it is never taken for a later report's.

    The PDF is no part of the sums: it carries the time of printing. Raises ReportError for a report that is
    not whole, a browser that fails, or a place that cannot be written; BrowserMissing; ValueRangeError for an ``out``
    that is a folder, or a file that is neither empty nor a printed report.
    """
    digest = check_folder(folder)["result_digest"]
    target = Path(out) if out is not None else Path(folder) / f"report-{digest[:8]}.pdf"
    check_own(target, "out", "a report that was printed before", is_report)
    browser = find_chromium()
    with tempfile.TemporaryDirectory(prefix="tq-pdf-") as work:
        page, made = Path(work) / HTML, Path(work) / "report.pdf"
        page.write_text(unfolded((Path(folder) / HTML).read_text(encoding="utf-8")), encoding="utf-8")
        command = [browser, "--headless", "--disable-gpu", "--no-first-run", "--no-pdf-header-footer"]
        command += [f"--user-data-dir={work}/profile", "--host-resolver-rules=MAP * ~NOTFOUND"]
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            command.append("--no-sandbox")  # Chromium starts for no superuser otherwise
        command += [f"--print-to-pdf={made}", page.as_uri()]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ReportError(f"pdf: expected {browser} to print the page, got {error}") from error
        if done.returncode != 0 or not made.is_file() or not made.read_bytes().startswith(b"%PDF-"):
            last = (done.stderr.strip().splitlines() or ["nothing"])[-1]
            raise ReportError(f"pdf: expected a PDF from {browser}, got exit code {done.returncode}: {last}")
        _place(made, target)
    return target


def _place(made: Path, target: Path) -> None:
    """Copy beside the target, then move, so that the target is never half a file."""
    beside = target.with_name(f".{target.name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(made, beside)
        os.replace(beside, target)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise ReportError(f"out: expected a place for {target}, got {error.strerror}") from error
