"""One arm against all others at no fewer bits: the difference in KL, text by text, with its interval.

Python: ``versus(result, "best-turbo")``; from the shell `python -m validation.compare.versus FILE.json best-turbo`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tq_core.errors import TqError, ValueRangeError, check
from validation.compare.result import paired_kl, text_table

LOWEST, HIGHEST = 2.25, 4.5  # all-in bits per channel that are looked at
ROUNDING = 0.02  # bits: rows whose rates differ by their page headers alone count as equal


def versus(result: dict[str, Any], codec: str) -> list[dict[str, Any]]:
    """For every other row from LOWEST to HIGHEST bits, the codec's best row at no more bits and KL minus the other's KL.

    ``better`` is True when the interval of the difference lies below zero, False when above, None when it does neither
    or there are too few texts for one. Raises ValueRangeError when the codec has no row.
    """
    own = sorted((r for r in result["rows"] if r["codec"] == codec), key=lambda r: r["kl_mean"])
    check(
        bool(own), "codec", f"one of {sorted({r['codec'] for r in result['rows']})}", codec, ValueRangeError
    )
    out = []
    for other in sorted(result["rows"], key=lambda r: r["bits_all_in"]):
        if other["codec"] == codec or not LOWEST <= other["bits_all_in"] <= HIGHEST + ROUNDING:
            continue
        mine = next((r for r in own if r["bits_all_in"] <= other["bits_all_in"] + ROUNDING), None)
        if mine is None:
            continue
        found = paired_kl(result, mine["label"], other["label"])
        better = None
        if found.low is not None and found.high is not None:
            better = True if found.high < 0 else False if found.low > 0 else None
        wins = sum(a < b for a, b in zip(mine["kl_documents"], other["kl_documents"], strict=True))
        out.append(
            {
                "other": other["label"], "bits": other["bits_all_in"], "kl": other["kl_mean"], "mine": mine["label"],
                "bits_mine": mine["bits_all_in"], "kl_mine": mine["kl_mean"], "low": found.low, "high": found.high,
                "better": better, "texts": len(mine["kl_documents"]), "texts_won": wins,
            }
        )  # fmt: skip
    return out


COLUMNS = ("arm", "bits", "KL", "against", "bits", "KL", "difference, 95 %", "texts won")


def versus_rows(rows: Sequence[dict[str, Any]]) -> list[list[str]]:
    """``versus`` as cells of COLUMNS."""
    return [
        [
            r["other"], f"{r['bits']:.2f}", f"{r['kl']:.4f}", r["mine"], f"{r['bits_mine']:.2f}", f"{r['kl_mine']:.4f}",
            "-" if r["low"] is None else f"{r['low']:.4f}..{r['high']:.4f}", f"{r['texts_won']} of {r['texts']}",
        ]
        for r in rows
    ]  # fmt: skip


def read_result(path: Path) -> dict[str, Any]:
    """A file that ``tq compare`` wrote. Raises ValueRangeError for one that cannot be read or is something else."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
        schema = result["schema"]["name"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueRangeError(f"file: expected the JSON of tq compare, got {path.name}: {error}") from error
    check(
        schema == "tq-compare",
        "file",
        "the JSON of tq compare",
        f"{schema!r} in {path.name}",
        ValueRangeError,
    )
    return dict(result)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table of a kept result; exit code 2 for bad input."""
    parser = argparse.ArgumentParser(prog="python -m validation.compare.versus", description=__doc__)
    parser.add_argument("file", type=Path, help="compare.json of tq compare")
    parser.add_argument("codec", help="the arm that is held against all others")
    options = parser.parse_args(arguments)
    try:
        rows = versus(read_result(options.file), options.codec)
    except TqError as error:
        print(f"versus: {error}", file=sys.stderr)
        return 2
    print(text_table(list(COLUMNS), versus_rows(rows)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
