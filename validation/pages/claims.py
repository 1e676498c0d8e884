"""The claims page: who says what, what is measured here, and the command; put together from committed results alone.

Nothing is measured when the page is made: the claims' own numbers are in compare/claims.json, measured ones in the
committed comparisons, and published memory figures are computed again from their formulas.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from tq_core.errors import ValueRangeError, check
from tq_core.paths import ROOT
from validation.budget.published import AGREES, check_all
from validation.compare.claims import KINDS, read_claims
from validation.pages.markdown import folded, link, page, table

RESULTS = ROOT / "validation/compare/results"
MODELS = ("smollm2", "gemma")  # the committed comparisons of whole models, the larger set of arms first
WITHOUT_MODEL = "tq compare --claims"
SHOWN = {"kl_mean": ".4f", "top1_agreement": ".1%", "bits_all_in": ".2f"}


@lru_cache(maxsize=1)
def comparisons() -> dict[str, dict[str, Any]]:
    """The committed comparisons by model. Raises ValueRangeError when one was made with other claims than today's."""
    found = {name: json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8")) for name in MODELS}
    want = [(c.subject, c.quantity) for c in read_claims()]
    for name, result in found.items():
        have = [(c["subject"], c["quantity"]) for c in result["claims"]]
        check(
            have == want, f"{name}.json", "the claims of claims.json", f"{len(have)} others", ValueRangeError
        )
    return found


def _file(name: str) -> str:
    return f"validation/compare/results/{name}.json"


def _said(claim: dict[str, Any]) -> str:
    return "; ".join(f"{claim[kind]}: {kind}, {claim['sources'][kind]}" for kind in KINDS if claim[kind])


def _row(claim: dict[str, Any]) -> list[str]:
    measured = "not measured here" if claim["measured"] is None else f"{claim['measured']:.4g}"
    note = f" ({claim['note'].rstrip('.')})" if claim["note"] else ""
    return [f"{claim['subject']}: {claim['quantity']}", _said(claim), measured, claim["verdict"] + note]


COLUMNS = ("claim", "who says what", "measured here", "verdict")


def synthetic_rows() -> list[list[str]]:
    """Claims that need no model."""
    return [_row(c) for c in comparisons()[MODELS[0]]["claims"] if c["command"] == WITHOUT_MODEL]


def model_rows(name: str) -> list[list[str]]:
    """Claims about a model, as measured on ``name``; those that no run measures stand with the first."""
    return [
        _row(c)
        for c in comparisons()[name]["claims"]
        if c["command"] != WITHOUT_MODEL and (c["measured"] is not None or name == MODELS[0])
    ]


def arm_rows(name: str) -> list[list[str]]:
    """Every arm and rate of a comparison: bits all-in, KL and equal top tokens."""
    rows = sorted(comparisons()[name]["rows"], key=lambda row: (row["bits_all_in"], row["kl_mean"]))
    return [
        [
            row["label"],
            *(format(row[key], form) for key, form in SHOWN.items()),
            "yes" if row["pareto"] else "",
        ]
        for row in rows
    ]


def published_rows() -> tuple[list[list[str]], list[list[str]]]:
    """Published memory figures: agreement by table, and each that does not agree, with the right value and the reason."""
    made = check_all()
    tables, wrong = [], []
    for source, name in dict.fromkeys((c.source, c.table) for c in made):
        mine = [c for c in made if (c.source, c.table) == (source, name)]
        tables.append([source, name, f"{sum(c.verdict == AGREES for c in mine)} of {len(mine)}"])
    for c in made:
        if c.verdict != AGREES:
            wrong.append([f"{c.item} ({c.source}, {c.table})", c.published, c.right, c.verdict, c.why])
    return tables, wrong


def _model_part(name: str) -> list[str]:
    plan, run, rows = comparisons()[name]["plan"], comparisons()[name]["run"], model_rows(name)
    columns = ("arm and nominal bits", "KL, nats", "same top token", "bits all-in", "on the frontier")
    about = (
        f"Measured by `tq compare --model {name}` on {plan['documents']} texts of {plan['tokens']} tokens; {plan['mask']}. "
        f"Commit, machine and intervals are in {link(_file(name))}, finished on {run['finished'][:10]}."
    )
    whole = folded("The whole command", f"```sh\n.venv/bin/{run['command']}\n```")
    return [
        f"## Claims about models, on {name}", about, whole, table(COLUMNS, rows),
        f"## Every arm on {name}", "By the same command.", table(columns, arm_rows(name)),
    ]  # fmt: skip


def text() -> str:
    """The page."""
    tables, wrong = published_rows()
    agree = sum(c.verdict == AGREES for c in check_all())
    return page(
        "Public claims and what is measured here",
        "Who says what, the same measured by this repository, and the command that measures it again.",
        f"{len(read_claims())} claims stand in {link('validation/compare/claims.json')} with their sources. A verdict compares each "
        "stated number with the measured one; models, texts and machines differ from those of the sources, and where that matters "
        "the note says so. `python -m validation.pages` writes this page from committed results.",
        "## Claims that need no model",
        f"Measured by `{WITHOUT_MODEL}`, on seeded vectors and declared bytes.",
        table(COLUMNS, synthetic_rows()),
        *(part for name in MODELS for part in _model_part(name)),
        "## Published memory figures, computed again",
        f"{agree} of {len(check_all())} agree to the printed digit; `tq plan --published` computes them again from "
        f"{link('validation/budget/published.json')}.",
        table(("source", "table", "agree"), tables),
        table(("figure", "published", "computed", "verdict", "why"), wrong),
    )
