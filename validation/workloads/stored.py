"""Files that workloads are made of: each is named in ``data/manifest.json`` with its licence, and read only unaltered."""

from __future__ import annotations

from pathlib import Path

from tq_core.errors import ModelFileError, check
from validation.scenarios import read_text, text_entries

DATA = Path(__file__).with_name("data")


def stored(file: str, folder: Path = DATA) -> tuple[str, dict[str, str]]:
    """(text, entry of the manifest: file, style, source, licence, sha256).

    Raises ModelFileError when the manifest or the file is missing, or the file is not what its SHA-256 says.
    """
    entries = {e["file"]: e for e in text_entries(folder)}
    check(file in entries, f"{folder.name}/manifest.json", f"an entry for {file}", "none", ModelFileError)
    return read_text(entries[file], folder), entries[file]
