"""Small pieces of Markdown, and links from these pages to the files of the repository."""

from __future__ import annotations

import os.path
from collections.abc import Sequence

from tq_core.errors import ValueRangeError, check
from tq_core.paths import ROOT

FOLDER = "validation/pages"


def link(path: str, label: str = "") -> str:
    """A link to a file of the repository. Raises ValueRangeError when there is none."""
    check((ROOT / path).exists(), "link", "a file of the repository", path, ValueRangeError)
    return f"[{label or path}]({os.path.relpath(path, FOLDER)})"


def cell(text: str) -> str:
    """Text that cannot end its cell nor begin a tag."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;") or "-"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as GitHub reads it."""
    lines = [columns, ["---"] * len(columns), *[[cell(c) for c in row] for row in rows]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def folded(summary: str, body: str) -> str:
    """A section that opens on a click, on GitHub as in the site."""
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def page(title: str, subtitle: str, *parts: str) -> str:
    """A page: title, subtitle as a block quote, and its parts with a blank line between them."""
    return "\n\n".join([f"# {title}", f"> {subtitle}", *parts]) + "\n"
