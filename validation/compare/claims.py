"""Public claims beside what is measured here: paper, project, calculated, measured, in one table.

claims.json holds what others say, word for word in number and with the place where they say it. The measured column is
computed by ``claim_measures`` each time.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from tq_core.errors import ValueRangeError, check
from validation.compare.claim_measures import FROM_ROWS, measure_claim

FILE = Path(__file__).with_name("claims.json")
AGREE = 0.05  # a share; sources round to two digits
KINDS = ("paper", "project", "calculated")


@dataclass(frozen=True)
class Said:
    """One statement: the number as printed, the same as a number where it is one, and where it stands."""

    text: str
    source: str
    value: float | None = None


@dataclass(frozen=True)
class Claim:
    """One line of the table. ``note`` says what a reader must know to compare the columns."""

    subject: str
    quantity: str
    said: dict[str, Said]
    measure: str
    arguments: dict[str, Any]
    note: str = ""


@dataclass(frozen=True)
class Checked:
    """A claim with its measured value; ``verdict`` compares every stated number with it."""

    subject: str
    quantity: str
    paper: str
    project: str
    calculated: str
    measured: float | None
    verdict: str
    command: str
    sources: dict[str, str]
    note: str

    def as_dict(self) -> dict[str, Any]:
        """JSON-able form."""
        return asdict(self)


@lru_cache(maxsize=1)
def read_claims(path: Path = FILE) -> tuple[Claim, ...]:
    """The claims of the data file. Raises ValueRangeError for one that says nothing or nowhere."""
    claims = []
    for entry in json.loads(path.read_text(encoding="utf-8")):
        said = {kind: Said(**entry[kind]) for kind in KINDS if kind in entry}
        subject = entry["subject"]
        check(bool(said), subject, f"one of {', '.join(KINDS)}", "none", ValueRangeError)
        check(all(s.source.strip() for s in said.values()), subject, "a source", "none", ValueRangeError)
        claims.append(
            Claim(
                subject, entry["quantity"], said, entry["measure"], entry["arguments"], entry.get("note", "")
            )
        )
    return tuple(claims)


def _verdict(claim: Claim, measured: float | None) -> str:
    if measured is None:
        return "not measured in this run"
    words = []
    for kind, said in claim.said.items():
        if said.value is None:
            continue
        ratio = measured / said.value
        words.append(
            f"{kind}: agrees" if abs(ratio - 1) <= AGREE else f"{kind}: measured is {ratio:.2f} times that"
        )
    return "; ".join(words) or "no number to divide by: read side by side"


def check_claims(
    rows: list[dict[str, Any]], command: str, claims: tuple[Claim, ...] | None = None
) -> list[Checked]:
    """Every claim with its measured value; ``rows`` are a comparison's, ``command`` is what made them."""
    out = []
    for claim in claims or read_claims():
        measured = measure_claim(claim.measure, claim.arguments, rows)
        texts = {kind: claim.said[kind].text if kind in claim.said else "" for kind in KINDS}
        out.append(
            Checked(
                subject=claim.subject,
                quantity=claim.quantity,
                **texts,
                measured=measured,
                verdict=_verdict(claim, measured),
                command=command if claim.measure in FROM_ROWS else "tq compare --claims",
                sources={kind: said.source for kind, said in claim.said.items()},
                note=claim.note,
            )
        )
    return out


def claim_lines(checked: list[Checked]) -> tuple[list[str], list[list[str]]]:
    """Columns and rows for a table."""
    columns = ["claim", "quantity", "paper", "project", "calculated", "measured here", "verdict"]
    rows = [
        [
            c.subject,
            c.quantity,
            c.paper or "-",
            c.project or "-",
            c.calculated or "-",
            "not run" if c.measured is None else f"{c.measured:.4g}",
            c.verdict,
        ]
        for c in checked
    ]
    return columns, rows
