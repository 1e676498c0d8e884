"""Command line: ``python -m tq_core.nbtools execute [--check|--write] [--out DIR]``, ``normalise [--check]``, ``site``.

Exit 0 when all is well, 1 when a notebook failed or a check found something, 2 for bad input,
130 when stopped.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import nbformat

from tq_core.errors import ValueRangeError
from tq_core.nbtools.depends import FAST
from tq_core.nbtools.lint import problems
from tq_core.nbtools.normalise import normal_text, notebook_files
from tq_core.nbtools.runs import FAST_VARIABLE, absent, replace_file, run_execute
from tq_core.paths import BUILD, ROOT

DEFAULT = [ROOT / "notebooks"]


def _say(line: str) -> None:
    print(line, flush=True)


def run_site(out: Path, notebooks: Path, report: Path) -> int:
    """Make the site and say where it begins."""
    from tq_core.nbtools.site import build

    try:
        pages = build(out, notebooks, report=report)
    except (ValueRangeError, OSError) as error:
        _say(str(error))
        return 1
    _say(f"{len(pages)} pages; begin with {out / 'index.html'}")
    return 0


def run_normalise(files: list[Path], check: bool) -> int:
    """Rewrite notebooks in committed form, or say what is wrong with them."""
    wrong = 0
    for path in files:
        text = path.read_text(encoding="utf-8")
        try:
            normal = normal_text(text)
        except ValueRangeError as error:
            _say(f"{path.name}: {error}")
            wrong += 1
            continue
        found = problems(nbformat.reads(normal, as_version=4))
        if normal != text:
            if check:
                found.insert(0, "not in its committed form; run `python -m tq_core.nbtools normalise`")
            else:
                replace_file(path, normal)
                _say(f"{path.name}: rewritten")
        for problem in found:
            _say(f"{path.name}: {problem}")
        wrong += bool(found)
    _say(f"{len(files) - wrong} of {len(files)} notebooks are in order")
    return 1 if wrong else 0


def main(arguments: list[str] | None = None) -> int:
    """Parse and run; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tq_core.nbtools", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("execute", help="run notebooks top to bottom, each in a fresh kernel")
    run.add_argument("paths", nargs="*", type=Path, default=DEFAULT)
    run.add_argument("--out", type=Path, help="folder for the executed copies")
    what = run.add_mutually_exclusive_group()
    what.add_argument("--write", action="store_true", help="put the outputs, normalised, into the originals")
    what.add_argument(
        "--check", action="store_true", help="compare the outputs with the committed ones, exit 1 on drift"
    )
    run.add_argument("--timeout", type=int, default=1800, help="seconds that a cell may take")
    run.add_argument("--fast", action="store_true", help=f"reduced sizes (sets {FAST_VARIABLE}=1)")
    normal = commands.add_parser("normalise", help="bring notebooks into their committed form")
    normal.add_argument("paths", nargs="*", type=Path, default=DEFAULT)
    normal.add_argument(
        "--check", action="store_true", help="change nothing, exit 1 when something would change"
    )
    site = commands.add_parser("site", help="all notebooks and pages as HTML that needs no network")
    site.add_argument("--out", type=Path, default=BUILD / "site")
    site.add_argument("--notebooks", type=Path, default=DEFAULT[0], help="such as build/notebooks")
    site.add_argument("--report", type=Path, default=BUILD / "report" / "report.html")
    options = parser.parse_args(arguments)
    if options.command == "site":
        if not options.notebooks.is_dir():
            parser.error(f"notebooks: expected a folder of notebooks, got {options.notebooks}")
        return run_site(options.out, options.notebooks, options.report)
    for path in options.paths:
        if not path.exists():
            parser.error(f"paths: expected a notebook or a folder of notebooks, got {path}")
    files = notebook_files(options.paths)
    if not files:
        parser.error("paths: expected at least one .ipynb file, got none")
    if options.command == "normalise":
        return run_normalise(files, options.check)
    if options.fast:
        os.environ[FAST_VARIABLE] = "1"
    if options.write and FAST in absent():
        parser.error(
            f"--write: committed outputs are of full sizes, expected no --fast and no ${FAST_VARIABLE}"
        )
    try:
        return run_execute(files, options.out, options.timeout, _say, options.write, options.check)
    except KeyboardInterrupt:
        _say("stopped; notebooks that had finished are as they should be")
        return 130


if __name__ == "__main__":
    sys.exit(main())
