"""The one form in which a notebook is committed: outputs of a clean run, nothing of the machine.

Live parts of an output (a widget's view, a figure meant for the running page) are dropped and the
static picture that comes in the same output stays. A cell tagged ``machine`` prints what differs
from machine to machine, so its output is replaced by a sentence.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import nbformat

from tq_core.errors import ValueRangeError

MACHINE_TAG = "machine"
MACHINE_TEXT = "Run this cell to see the figures of your machine.\n"
LIVE = "tq_live"  # output metadata: this output's text/html is for the running page only
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def tags(cell: Any) -> list[str]:
    """The cell's tags, sorted."""
    return sorted(cell.get("metadata", {}).get("tags", []))


def _output(output: Any) -> Any | None:
    """One output in committed form; None when nothing of it is left."""
    if output.output_type == "stream":
        return nbformat.from_dict({"output_type": "stream", "name": output.name, "text": output.text})
    if output.output_type == "error":
        return output
    data, metadata = dict(output.data), output.get("metadata", {})
    widget = data.pop(WIDGET_VIEW, None) is not None
    if metadata.get(LIVE):
        data.pop("text/html", None)
    if widget and not any(kind.startswith("image/") or kind == "text/html" for kind in data):
        return None
    kept = {
        kind: {"alt": about["alt"]} for kind, about in metadata.items() if kind in data and "alt" in about
    }
    return nbformat.from_dict({"output_type": "display_data", "data": data, "metadata": kept})


def _merge_streams(outputs: list[Any]) -> list[Any]:
    merged: list[Any] = []
    for output in outputs:
        last = merged[-1] if merged else None
        if (
            last is not None
            and output.output_type == last.output_type == "stream"
            and output.name == last.name
        ):
            last.text += output.text
        else:
            merged.append(output)
    return merged


def strip_live(notebook: Any) -> Any:
    """Drop live views from the outputs, in place, and keep everything else of the run."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            kept = [_output(output) for output in cell.outputs]
            cell.outputs = _merge_streams([output for output in kept if output is not None])
    notebook.metadata.pop("widgets", None)
    return notebook


def _cell_id(cell: Any, taken: set[str]) -> str:
    if cell.get("id") and cell.id not in taken:
        return str(cell.id)
    digest, n = hashlib.sha256(cell.source.encode()).hexdigest(), 8
    while digest[:n] in taken and n < len(digest):
        n += 1
    return digest[:n]


def normalise(notebook: Any) -> Any:
    """Bring a notebook into its committed form, in place, and return it."""
    strip_live(notebook)
    notebook.metadata = nbformat.from_dict(METADATA)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    taken: set[str] = set()
    count = 0
    for cell in notebook.cells:
        cell.id = _cell_id(cell, taken)
        taken.add(cell.id)
        found = tags(cell)
        cell.metadata = nbformat.from_dict({"tags": found} if found else {})
        cell.source = cell.source.rstrip()
        if cell.cell_type != "code":
            cell.pop("attachments", None)
            continue
        count += 1
        cell.execution_count = count
        if MACHINE_TAG in found:
            text = {"output_type": "stream", "name": "stdout", "text": MACHINE_TEXT}
            cell.outputs = [nbformat.from_dict(text)]
    return notebook


def normal_text(text: str) -> str:
    """The committed form of a notebook's JSON text. Raises ValueRangeError when it is not a notebook of format 4."""
    try:
        # v4.reads does not repair anything: a doubled cell id must get the same new one in every run.
        notebook = normalise(nbformat.v4.reads(text))
        nbformat.validate(notebook)
    except (ValueError, KeyError, AttributeError, TypeError, nbformat.ValidationError) as error:
        raise ValueRangeError(
            f"notebook: expected JSON of format 4, got {type(error).__name__}: {error}"
        ) from error
    return to_text(notebook)


def to_text(notebook: Any) -> str:
    """JSON with indent 1, sorted keys and a final newline."""
    return nbformat.writes(notebook).rstrip("\n") + "\n"


def notebook_files(paths: list[Path]) -> list[Path]:
    """The .ipynb files that ``paths`` (files or folders) name, sorted by name."""
    found: list[Path] = []
    for path in paths:
        found += [path] if path.is_file() else path.glob("*.ipynb")
    return sorted(found, key=lambda path: path.name)
