"""``python -m tq_core.exercises [--check]``: write the text of every exercise into its notebook.

An exercise that is there already is rewritten where it stands. Outputs of cells whose text changed are dropped; run
the notebook to have them again. Exit 1 when ``--check`` finds a notebook that would change.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import nbformat

from tq_core.exercises import EXERCISES
from tq_core.exercises.insert import place
from tq_core.nbtools.normalise import normal_text, to_text
from tq_core.paths import ROOT

# Notebook: the id of the cell that follows its exercises.
BEFORE = {"01": "c32", "02": "c22", "03": "c17", "04": "c30", "05": "c15", "06": "c43", "07": "c25"}


def placed(path: Path) -> str:
    """The notebook's text with its exercises as the package has them."""
    notebook = nbformat.read(path, as_version=4)
    number = path.name[:2]
    place(notebook, [e for e in EXERCISES.values() if e.notebook == number], BEFORE[number])
    return normal_text(to_text(notebook))


def notebooks() -> list[Path]:
    """The notebooks that have exercises."""
    return [path for number in BEFORE for path in (ROOT / "notebooks").glob(f"{number}_*.ipynb")]


def main(arguments: list[str] | None = None) -> int:
    """Parse and run; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tq_core.exercises", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="change nothing, exit 1 when something would change"
    )
    check = parser.parse_args(arguments).check
    changed = 0
    for path in notebooks():
        text = placed(path)
        if text == path.read_text(encoding="utf-8"):
            continue
        changed += 1
        print(f"{path.name}: {'its exercises differ from the package' if check else 'rewritten'}")
        if not check:
            temporary = path.with_name(f".{path.name}.part")
            temporary.write_text(text, encoding="utf-8")
            os.replace(temporary, path)
    print(f"{len(BEFORE) - changed} of {len(BEFORE)} notebooks had the exercises of the package")
    return 1 if check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
