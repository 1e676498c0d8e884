"""The command line of `tq museum`: run exhibits, print what the metrics and the gates say."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

from tq_core.show.html import text_table
from validation.museum.exhibit import Shown, show
from validation.museum.table import METRICS, MISSED, STOPPED, told

PASS, FAILED = 0, 1


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add `museum` to the sub-commands of a parser."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "museum", help="known faults, what the metrics say of them, and the gate that stops each"
    )
    parser.add_argument("ids", nargs="*", metavar="ID", help="exhibits such as B1; all when none is named")
    parser.add_argument("--json", action="store_true", help="JSON on standard output, nothing else there")
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")
    return parser


def _text(every: list[Shown], in_full: bool) -> str:
    if in_full:
        return "\n\n".join(told(s) for s in every)
    rows = []
    for s in every:
        blind = ", ".join(METRICS[name] for name in s.blind()) or "-"
        rows.append(
            [s.exhibit.id, s.exhibit.title, blind, s.exhibit.stop.name, STOPPED if s.works else MISSED]
        )
    table = text_table(["id", "fault", "metrics that are fooled", "gate", "verdict"], rows)
    from validation.museum.catalogue import NOT_EXERCISED

    left = [f"not exercised: {name}: {why}" for name, why in NOT_EXERCISED.items()]
    return "\n".join([table, *left])


def run(options: argparse.Namespace, progress: Callable[[str, int, int], None]) -> int:
    """Print the exhibits; 1 when the gate of one lets the fault pass or stops what is right. ValueRangeError for an unknown id."""
    from validation.museum.catalogue import NOT_EXERCISED, chosen

    exhibits, every = chosen(options.ids), []
    for n, exhibit in enumerate(exhibits):
        every.append(show(exhibit))
        progress("exhibits", n + 1, len(exhibits))
    missed = [s.exhibit.id for s in every if not s.works]
    data = {
        "status": "fail" if missed else "pass",
        "exhibits": [s.as_dict() for s in every],
        "not_stopped": missed,
        "not_exercised": {} if options.ids else NOT_EXERCISED,
    }
    last = f"{data['status']}: {len(every) - len(missed)} of {len(every)} faults are stopped"
    text = f"{_text(every, bool(options.ids))}\n{last}"
    print(json.dumps(data, indent=1, allow_nan=False) if options.json else text, flush=True)
    return FAILED if missed else PASS
