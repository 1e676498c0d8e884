"""``python -m validation.fuzz``: mutated files against the saved-cache reader and the page parser, guided by coverage.

An input that reaches a line of the readers that no other reached joins the corpus. The lines come from the interpreter
itself, so that this runs wherever the project does; Atheris, a fuzzing engine, has wheels for Linux on x86-64 alone.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path

from tq_core.paths import BUILD
from validation.fuzz.loop import Report, run


def main() -> int:
    """Run; exit status 1 when there is a finding, whose inputs are then in ``--out``."""
    parser = argparse.ArgumentParser(prog="python -m validation.fuzz", description=__doc__.split("\n")[0])
    parser.add_argument("--inputs", type=int, default=200_000, help="inputs to try")
    parser.add_argument(
        "--seed", type=int, default=1, help="seed of the run; the same seed gives the same inputs"
    )
    parser.add_argument(
        "--out", type=Path, default=BUILD / "fuzz", help="folder of the report and of findings"
    )
    options = parser.parse_args()
    report = run(options.inputs, options.seed, progress=_progress if sys.stderr.isatty() else None)
    options.out.mkdir(parents=True, exist_ok=True)
    for raw, message in report.findings:
        path = options.out / f"{hashlib.sha256(raw).hexdigest()[:16]}.bin"
        path.write_bytes(raw)
        print(f"finding: {message}\n  input: {path}")
    (options.out / "report.json").write_text(json.dumps(report.as_dict(), indent=1) + "\n")
    print(report.text())
    return int(bool(report.findings))


def _progress(report: Report) -> None:
    print(f"\r{report.inputs} inputs, {report.lines} lines, corpus {report.corpus}", end="", file=sys.stderr)


if __name__ == "__main__":
    raise SystemExit(main())
