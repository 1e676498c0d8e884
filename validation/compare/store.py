"""What was computed is kept by the digest of what it depends on: rows as JSON, arrays as .npz, written whole or not at all.

Whatever cannot be read, or was altered, counts as absent and is computed again.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tq_core.cache.atomic import replace_file
from tq_core.cache.canonical import array_digest, canonical_json, plain
from tq_core.paths import BUILD, ROOT, cache_dir


def key_of(**facts: Any) -> str:
    """SHA-256 of facts in canonical JSON."""
    return hashlib.sha256(canonical_json(plain(facts))).hexdigest()


def source_digest(*files: str) -> str:
    """SHA-256 of source files, given relative to the checkout: a change of them makes kept results stale."""
    digest = hashlib.sha256()
    for name in files:
        digest.update(name.encode() + b"\0" + (ROOT / name).read_bytes() + b"\0")
    return digest.hexdigest()


def _digest(arrays: Mapping[str, np.ndarray]) -> str:
    return key_of(**{name: array_digest(arrays[name]) for name in sorted(arrays)})


class Store:
    """Rows in ``rows`` and arrays in ``arrays``, two folders that are made when something is kept.

    The rows of a long run are a few megabytes; the reference logits of a document at a large vocabulary are a hundred,
    so they lie in the checkout's build folder, which may be deleted at any time.
    """

    def __init__(self, rows: Path | None = None, arrays: Path | None = None) -> None:
        self.rows = rows or cache_dir() / "compare"
        self.arrays = arrays or BUILD / "compare" / "reference"

    def row(self, key: str) -> dict[str, Any] | None:
        """The row kept under this key, or None."""
        try:
            kept = json.loads((self.rows / f"{key}.json").read_bytes())
            row = kept["row"]
            return row if isinstance(row, dict) and kept["sha256"] == _text_digest(row) else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep_row(self, key: str, row: dict[str, Any]) -> None:
        """Keep a row. Raises OSError when it cannot be written."""
        self.rows.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"row": row, "sha256": _text_digest(row)}, allow_nan=False)
        replace_file(self.rows / f"{key}.json", [text.encode()])

    def load(self, key: str) -> dict[str, np.ndarray] | None:
        """The arrays kept under this key, or None."""
        try:
            data = io.BytesIO((self.arrays / f"{key}.npz").read_bytes())
            with np.load(data, allow_pickle=False) as file:
                found = {name: file[name] for name in file.files}
        except (OSError, ValueError, KeyError, zipfile.BadZipFile):
            return None
        kept = str(found.pop("sha256", ""))
        return found if found and kept == _digest(found) else None

    def keep(self, key: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Keep arrays. Raises OSError when they cannot be written."""
        self.arrays.mkdir(parents=True, exist_ok=True)
        out = io.BytesIO()
        np.savez(out, **{"sha256": np.array(_digest(arrays)), **arrays})  # type: ignore[arg-type]
        replace_file(self.arrays / f"{key}.npz", [out.getbuffer()])


def _text_digest(row: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(row, sort_keys=True, allow_nan=False).encode()).hexdigest()
