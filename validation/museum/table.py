"""Exhibits that were run, as rows: for the command, the notebook and its panel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from validation.museum.exhibit import BETTER_WHEN_HIGHER, Readings, Shown

COLUMNS = ("exhibit", "kind", "fault", "MSE", "cosine", "PPL ratio", "KL", "top-1", "rank", "overlap", "gate", "verdict")  # fmt: skip
METRICS = {
    "mse": "MSE",
    "cosine": "cosine",
    "ppl_ratio": "PPL ratio",
    "kl": "KL",
    "top1": "top-1",
    "rank": "rank",
    "overlap": "overlap",
}
STOPPED, MISSED = "stopped", "NOT STOPPED"


def number(value: float | None) -> str:
    """Three digits, or a dash where there is no such number."""
    if value is None:
        return "-"
    return "0" if abs(value) < 5e-10 else f"{value:.3g}"


def pair(shown: Shown, metric: str) -> str:
    """right to faulty; ``+`` where the faulty one looks as good or better."""
    right, faulty = getattr(shown.right, metric), getattr(shown.faulty, metric)
    if right is None:
        return "-"
    mark = " +" if metric in shown.blind() else ""
    return f"{number(right)} > {number(faulty)}{mark}"


def row(shown: Shown) -> list[str]:
    """One exhibit under COLUMNS."""
    e = shown.exhibit
    verdict = STOPPED if shown.works else MISSED
    return [e.id, e.kind, e.title, *(pair(shown, name) for name in METRICS), e.stop.name, verdict]


def fooled(every: Sequence[Shown]) -> list[list[str]]:
    """Per metric: exhibits that it has a number for, and those among them where the faulty result looks as good or better."""
    rows = []
    for f in fields(Readings):
        asked = [s for s in every if getattr(s.right, f.name) is not None]
        missed = [s.exhibit.id for s in asked if f.name in s.blind()]
        better = "higher" if BETTER_WHEN_HIGHER[f.name] else "lower"
        rows.append([METRICS[f.name], better, f"{len(missed)} of {len(asked)}", ", ".join(missed)])
    return rows


def told(shown: Shown) -> str:
    """One exhibit in full, as text."""
    e = shown.exhibit
    lines = [
        f"{e.id}  {e.title} ({e.kind})",
        f"  seen     {e.seen}",
        f"  fault    {e.fault}",
        f"  right    {e.value}",
    ]
    measured = [
        f"{METRICS[n]} {number(getattr(shown.right, n))} > {number(getattr(shown.faulty, n))}"
        for n in METRICS
        if getattr(shown.right, n) is not None
    ]
    lines.append(f"  metrics  {', '.join(measured) if measured else 'none has anything to say'}")
    if shown.blind():
        lines.append(f"  fooled   {', '.join(METRICS[n] for n in shown.blind())}")
    lines += [f"  gate     {e.stop.name} ({e.stop.where})"]
    lines += [f"  right:   {_short(shown.passed.said)}", f"  faulty:  {_short(shown.caught.said)}"]
    if e.note:
        lines.append(f"  note     {e.note}")
    return "\n".join([*lines, f"  {STOPPED if shown.works else MISSED}"])


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 160 else f"{flat[:157]}..."
