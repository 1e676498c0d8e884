"""What must hold for every committed notebook besides its byte form: size, noise, shape of the text."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from typing import Any

from tq_core.nbtools.normalise import MACHINE_TAG, tags
from tq_core.paths import ROOT

MAX_CODE_LINES = 12
MAX_OUTPUT_BYTES = 150_000
MAX_CELLS = 45
EXERCISE_ID = "ex-"  # ids of an exercise's cells begin so; a reader may pass them by, so they do not count
SETUP = "from tq_core.show import nb\n\nnb.setup()"
# Homes and temporary folders; a path below them names somebody's machine.
_PATHS = re.compile(r"(?:/home/|/root/|/Users/|/tmp/|[A-Z]:\\\\)[\w.-]")
_ADDRESS = re.compile(r"\bat 0x[0-9a-f]{6,}")
# A number with a unit of time or of speed.
_TIMING = re.compile(
    r"(?<![\w.])\d+(?:[.,]\d+)*(?: s| ?(?:ns|[uµμ]s|ms|sec|seconds?|minutes?|[kMG]i?B/s|[GT]FLOP/?s|tok(?:en)?s?/s))(?!\w)"
)


def _words(output: Any) -> str:
    """What an output says in text, tags of HTML left out."""
    if output.output_type == "stream":
        return str(output.text)
    kinds = (text for kind, text in output.get("data", {}).items() if kind.startswith("text/"))
    return re.sub(r"<[^>]*>", " ", "\n".join(map(str, kinds)))


def _timings(cell: Any, sources: str) -> Iterator[str]:
    """Times and speeds in a cell's text that no source of the notebook states: measured ones differ with every run."""
    if MACHINE_TAG in tags(cell):
        return
    found = {m[0] for output in cell.outputs for m in _TIMING.finditer(_words(output))}
    for figure in sorted(figure for figure in found if figure not in sources):
        yield f"an output holds a time or a speed: {figure!r}; tag the cell {MACHINE_TAG!r}, or leave the figure out"


def _cell_problems(cell: Any) -> Iterator[str]:
    if not cell.source.strip():
        yield "the cell is empty"
    if cell.cell_type != "code":
        return
    lines = cell.source.strip().splitlines()
    if len(lines) > MAX_CODE_LINES and "exercise" not in tags(cell):
        yield f"{len(lines)} lines of code, at most {MAX_CODE_LINES}; machinery belongs into tq_core"
    for output in cell.outputs:
        text = json.dumps(output)
        if output.output_type == "error":
            yield f"the committed output is an error: {output.ename}"
        if output.output_type == "stream" and output.name == "stderr":
            yield f"the cell wrote to stderr: {output.text[:80]!r}"
        if len(text) > MAX_OUTPUT_BYTES:
            yield f"an output of {len(text)} bytes, at most {MAX_OUTPUT_BYTES}"
        shown = json.dumps(
            {k: v for k, v in output.get("data", output).items() if not k.startswith("image/")}
        )
        in_tree = str(ROOT) in shown
        if in_tree:
            yield "an output holds the path of this source tree"
        for pattern, what in ((_PATHS, "an absolute path"), (_ADDRESS, "a memory address")):
            if in_tree and pattern is _PATHS:  # said already, and more exactly
                continue
            if match := pattern.search(shown):
                yield f"an output holds {what}: {shown[match.start() : match.start() + 40]!r}"
        host = socket.gethostname()
        if len(host) > 4 and host in shown and MACHINE_TAG not in tags(cell):
            yield "an output holds this machine's name"


def problems(notebook: Any) -> list[str]:
    """Everything that is wrong, each with the number of its cell; an empty list when nothing is."""
    found: list[str] = []
    cells = notebook.cells
    first = cells[0].source.splitlines() if cells else []
    if not first or not first[0].startswith("# ") or not any(line.startswith("> ") for line in first):
        found.append("cell 1: expected a title (# ...) and a subtitle in a block quote (> ...)")
    code = [cell for cell in cells if cell.cell_type == "code"]
    if not code or code[0].source.strip() != SETUP:
        found.append(f"the first code cell: expected exactly {SETUP!r}")
    story = [cell for cell in cells if not str(cell.get("id", "")).startswith(EXERCISE_ID)]
    if len(story) > MAX_CELLS:
        found.append(f"{len(story)} cells beside exercises, at most {MAX_CELLS}")
    prose = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    for heading in ("You will be able to decide", "## Summary", "## What this does not show"):
        if heading not in prose:
            found.append(f"expected the words {heading!r} in a text cell")
    sources = "\n".join(cell.source for cell in cells)
    for number, cell in enumerate(cells, 1):
        found += [f"cell {number}: {problem}" for problem in _cell_problems(cell)]
        if cell.cell_type == "code":
            found += [f"cell {number}: {problem}" for problem in _timings(cell, sources)]
    return found
