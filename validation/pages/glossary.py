"""The glossary: every term with one to three sentences and the place where it is computed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tq_core.errors import ValueRangeError, check
from validation.pages.markdown import link, page

FILE = Path(__file__).with_name("glossary.json")
MAX_SENTENCES = 3


@dataclass(frozen=True)
class Entry:
    """A term (or several that explain each other), its text, and the file that computes it."""

    term: str
    text: str
    link: str


def sentences(text: str) -> int:
    """How many sentences a text has."""
    return text.count(". ") + text.rstrip().endswith(".")


@lru_cache(maxsize=1)
def entries() -> tuple[Entry, ...]:
    """The entries in alphabetical order. Raises ValueRangeError for one that is too long, or for a term that comes twice."""
    found = [Entry(**item) for item in json.loads(FILE.read_text(encoding="utf-8"))]
    for entry in found:
        n = sentences(entry.text)
        check(1 <= n <= MAX_SENTENCES, entry.term, f"1 to {MAX_SENTENCES} sentences", n, ValueRangeError)
    names = [entry.term for entry in found]
    check(len(set(names)) == len(names), "glossary", "each term once", sorted(names), ValueRangeError)
    return tuple(sorted(found, key=lambda entry: entry.term.lower()))


def _place(path: str) -> str:
    where = "Notebook" if path.startswith("notebooks/") else "Code"
    return f"{where}: {link(path)}."


def text() -> str:
    """The page."""
    parts = [f"### {entry.term}\n\n{entry.text} {_place(entry.link)}" for entry in entries()]
    subtitle = "The terms of the field as this project uses them, and where each is computed."
    return page("Glossary", subtitle, "## Terms", *parts)
