"""Reading a report's JSON that came from anywhere: bounded, typed errors, and its digest computed again."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, NoReturn

from validation.report.files import ReportError
from validation.schema import SCHEMA, problem, result_digest

MOST_BYTES = 64 << 20
MOST_DEPTH = 64


def read_bounded(path: Path) -> bytes:
    """Content of a regular file. Raises ReportError for one that is absent, no file, or above MOST_BYTES."""
    try:
        if not path.is_file():
            raise ReportError(f"{path.name}: expected a file, got {'something else' if path.exists() else 'none'}: {path}")  # fmt: skip
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise ReportError(f"{path}: expected a file that can be read, got {error}") from error
    if len(data) > MOST_BYTES:
        raise ReportError(f"{path.name}: expected at most {MOST_BYTES:,} bytes, got more")
    return data


def parse_json(data: bytes, name: str) -> Any:
    """JSON in UTF-8 without NaN, infinities, doubled keys or deep nesting. Raises ReportError, which names ``name``."""

    def refuse(text: str) -> NoReturn:
        raise ValueError(f"the number {text[:40]}")

    def finite(text: str) -> float:
        value = float(text)
        return value if math.isfinite(value) else refuse(text)

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("a key that stands twice")
        return found

    try:
        found = json.loads(
            data.decode("utf-8"), parse_constant=refuse, parse_float=finite, object_pairs_hook=once
        )
    except (ValueError, RecursionError) as error:
        what = "deep nesting" if isinstance(error, RecursionError) else str(error)
        raise ReportError(f"{name}: expected JSON, got {what}") from error
    level, depth = [found], 0
    while level:
        depth += 1
        if depth > MOST_DEPTH:
            raise ReportError(f"{name}: expected at most {MOST_DEPTH} levels, got deep nesting")
        level = [v for x in level if isinstance(x, (dict, list)) for v in (x.values() if isinstance(x, dict) else x)]  # fmt: skip
    return found


def accept(data: Any, name: str) -> dict[str, Any]:
    """A report's parsed JSON once its name, version, schema and digest are right. Raises ReportError."""
    schema = data.get("schema") if isinstance(data, dict) else None
    if not isinstance(schema, dict) or schema.get("name") != SCHEMA["name"]:
        raise ReportError(f"{name}: expected a validation report, got other JSON")
    if schema.get("version") != SCHEMA["version"]:
        raise ReportError(f"{name}: expected version {SCHEMA['version']} of the report, got an unknown version, {str(schema.get('version'))[:40]}")  # fmt: skip
    wrong = problem(data)
    if wrong is not None:
        raise ReportError(f"{name}: expected what the schema allows, got {wrong}")
    try:
        found = result_digest(data)
    except (ValueError, RecursionError) as error:
        raise ReportError(f"{name}: expected plain finite data, got {error}") from error
    if found != data["result_digest"]:
        raise ReportError(f"{name}: expected result digest {found}, got {data['result_digest']}: it was changed after it was written")  # fmt: skip
    return data
