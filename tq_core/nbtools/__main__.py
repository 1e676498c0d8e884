"""Command line: ``python -m tq_core.nbtools execute notebooks/ --out DIR``, ``normalise [--check]`` and ``site``.

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
from tq_core.nbtools.lint import problems
from tq_core.nbtools.normalise import normal_text, notebook_files, strip_live, to_text
from tq_core.paths import BUILD, ROOT

DEFAULT = [ROOT / "notebooks"]
FAST_VARIABLE = "TQ_NOTEBOOK_FAST"


def _say(line: str) -> None:
    print(line, flush=True)


def _replace(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    temporary = path.with_name(f".{path.name}.part")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def run_execute(files: list[Path], out: Path | None, write: bool, timeout: int) -> int:
    """Run the notebooks one after the other; one that fails does not stop the others."""
    from tq_core.nbtools.execute import execute

    failures = []
    for path in files:
        outcome = execute(path, timeout, _say)
        word = "FAILED" if outcome.failure else "ok"
        _say(f"{path.stem}  {word}, {outcome.code_cells} code cells in {outcome.seconds:.0f} s")
        if outcome.failure:
            _say(f"  {outcome.failure}")
            failures.append(outcome.failure)
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            _replace(out / path.name, to_text(strip_live(outcome.notebook)))
        if write and not outcome.failure:
            _replace(path, normal_text(to_text(outcome.notebook)))
    _say(f"{len(files) - len(failures)} of {len(files)} notebooks ran top to bottom")
    for failure in failures:
        _say(f"  {failure}")
    return 1 if failures else 0


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
                _replace(path, normal)
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
    run.add_argument(
        "--write", action="store_true", help="also put the outputs, normalised, into the originals"
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
    try:
        return run_execute(files, options.out, options.write, options.timeout)
    except KeyboardInterrupt:
        _say("stopped; notebooks that had finished are as they should be")
        return 130


if __name__ == "__main__":
    sys.exit(main())
