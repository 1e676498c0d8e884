"""The only writer of the golden files: ``python -m validation.golden.refreeze`` shows what changed and writes it.

Each case is ``<case>.json`` (name, dtype, shape, offset of every array, SHA-256 of the data) and ``<case>.bin`` (raw
little-endian arrays one after the other), so that numpy, C++ and a browser page can all read it.
``--check`` compares and writes nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
from pathlib import Path

import numpy as np

from validation.golden.cases import Arrays, golden_cases

FOLDER = Path(__file__).parent
LIMIT = 50_000  # bytes of one case's data


def encode(arrays: Arrays) -> tuple[str, bytes]:
    """A case's JSON text and its data."""
    entries, data = [], b""
    for name, array in arrays.items():
        raw = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes()
        entries.append(
            {
                "name": name,
                "dtype": array.dtype.str.replace(">", "<"),
                "shape": list(array.shape),
                "offset": len(data),
            }
        )
        data += raw
    digest = hashlib.sha256(data).hexdigest()
    return json.dumps({"arrays": entries, "bytes": len(data), "sha256": digest}, indent=1) + "\n", data


def read(case: str, folder: Path | None = None) -> Arrays:
    """The frozen arrays of a case. Raises ValueError when its data does not match its digest."""
    folder = folder or FOLDER
    facts = json.loads((folder / f"{case}.json").read_text())
    data = (folder / f"{case}.bin").read_bytes()
    if len(data) != facts["bytes"] or hashlib.sha256(data).hexdigest() != facts["sha256"]:
        raise ValueError(
            f"{case}.bin: expected {facts['bytes']} bytes with SHA-256 {facts['sha256']}, got other data"
        )
    out = {}
    for entry in facts["arrays"]:
        dtype, shape = np.dtype(entry["dtype"]), tuple(entry["shape"])
        count = int(np.prod(shape, dtype=np.int64))
        out[entry["name"]] = np.frombuffer(data, dtype, count, entry["offset"]).reshape(shape)
    return out


def changes(case: str, arrays: Arrays) -> list[str]:
    """What differs between a case and its frozen form, one line per array."""
    if not (FOLDER / f"{case}.json").exists():
        return [f"{case}: new"]
    frozen, lines = read(case), []
    for name in sorted({*frozen, *arrays}):
        if name not in frozen or name not in arrays:
            lines.append(f"{case}: {name} {'added' if name in arrays else 'removed'}")
            continue
        a, b = frozen[name], arrays[name]
        if a.dtype != b.dtype or a.shape != b.shape:
            lines.append(f"{case}: {name} is now {b.dtype}{b.shape}, was {a.dtype}{a.shape}")
        elif a.tobytes() != b.tobytes():
            count = int(
                (a.reshape(-1).view(np.uint8) != np.ascontiguousarray(b).reshape(-1).view(np.uint8)).sum()
            )
            lines.append(f"{case}: {name} differs in {count} bytes")
    return lines


def write(case: str, arrays: Arrays) -> None:
    """Replace a case's two files, data first, each atomically."""
    text, data = encode(arrays)
    if len(data) > LIMIT:
        raise ValueError(f"{case}: expected at most {LIMIT} bytes, got {len(data)}")
    for path, content in ((FOLDER / f"{case}.bin", data), (FOLDER / f"{case}.json", text.encode())):
        temporary = path.with_suffix(path.suffix + ".new")
        temporary.write_bytes(content)
        os.replace(temporary, path)


def main() -> int:
    """Refreeze, or compare with --check; exit status 1 when --check finds a difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare only")
    check = parser.parse_args().check
    differ = False
    for case, arrays in golden_cases().items():
        lines = changes(case, arrays)
        differ = differ or bool(lines)
        print("\n".join(lines) or f"{case}: unchanged")
        if lines and not check:
            write(case, arrays)
    return int(check and differ)


if __name__ == "__main__":
    raise SystemExit(main())
