"""The command line of `tq report`: check a report's folder, print it as PDF."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

DONE, NO_BROWSER = 0, 3


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add `report` to the sub-commands of a parser."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "report", help="check a written report, or print it as PDF"
    )
    actions = parser.add_subparsers(dest="action", required=True, parser_class=type(parser))
    checked = actions.add_parser("check", help="mark, sums, schema, samples and digest of a report's folder")
    printed = actions.add_parser("pdf", help="the page as PDF, through Chromium (exit 3 without it)")
    for action in (checked, printed):
        action.add_argument("folder", type=Path, metavar="DIR", help="folder that `tq validate` wrote")
        action.add_argument("--json", action="store_true", help="JSON on standard output, nothing else there")
    printed.add_argument("--out", type=Path, metavar="FILE", help="default: DIR/report-DIGEST.pdf")
    return parser


def run(options: argparse.Namespace) -> int:
    """Do it and say so; 3 when there is no Chromium to print with. ReportError for a folder that is no whole report."""
    if options.action == "check":
        from validation.report import check_folder

        data = check_folder(options.folder)
        told = {
            "report": str(options.folder),
            "status": data["status"],
            "result_digest": data["result_digest"],
        }
        text = f"whole: mark, sums, schema and digest are right; its verdict is {data['status']}, digest {data['result_digest']}"  # fmt: skip
    else:
        from tq_core.browser.chromium import BrowserMissing
        from validation.report.pdf import write_pdf

        try:
            path = write_pdf(options.folder, options.out)
        except BrowserMissing as error:
            print(f"tq report: {error}, or print report.html from any browser", file=sys.stderr)
            return NO_BROWSER
        told, text = {"pdf": str(path)}, f"pdf: {path}"
    print(json.dumps(told, indent=1) if options.json else text, flush=True)
    return DONE
