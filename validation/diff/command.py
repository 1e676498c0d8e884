"""The command line of `tq diff`: two reports in, a verdict and an exit code out.

Exit codes: 0 same or improved, 1 regressed or missing, 2 bad input, 3 not comparable.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add `diff` to the sub-commands of a parser."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "diff", help="a report against an earlier one: exit 0 same or improved, 1 regressed, 3 not comparable"
    )
    parser.add_argument(
        "first", type=Path, metavar="A", help="the earlier report: its folder, .json or .html"
    )
    parser.add_argument("second", type=Path, metavar="B", help="the later one")
    parser.add_argument(
        "--force", action="store_true", help="compare reports that are not about the same thing"
    )
    parser.add_argument("--json", action="store_true", help="JSON on standard output, nothing else there")
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write it as a page")
    return parser


def run(options: argparse.Namespace) -> int:
    """Print the difference and return the exit code. ReportError for a report that is damaged or of another version."""
    from validation.diff.compare import compare
    from validation.diff.load import load
    from validation.diff.page import check_place, write_page
    from validation.diff.text import as_text

    if options.html is not None:
        check_place(options.html)
    found = compare(load(options.first), load(options.second), options.force)
    if options.html is not None:
        write_page(found, options.html, str(options.first), str(options.second))
    print(json.dumps(found.as_dict(), indent=1, allow_nan=False) if options.json else as_text(found), flush=True)  # fmt: skip
    return found.code
