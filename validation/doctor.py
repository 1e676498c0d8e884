"""What runs here: backends, hosts, models, packages, and what this machine should have and lacks."""

from __future__ import annotations

from typing import Any

from tq_core.kernels.backend import backend_statuses
from tq_core.kernels.hosts import host_statuses
from validation.environment import git_state, machine, packages
from validation.parity_facts import build_facts
from validation.parity_report import expected_backends, missing_backends


def model_statuses() -> list[dict[str, Any]]:
    """Every model by name: whether its file is here, and where it would come from."""
    from tq_core.model.sources import SOURCES, model_path
    from tq_core.model.tiny import WEIGHTS_FILE

    rows = [{"name": "tiny", "available": WEIGHTS_FILE.exists(), "reason": "part of the repository"}]
    for source in SOURCES.values():
        there = model_path(source).exists()
        reason = "in the cache directory" if there else source.advice()
        rows.append({"name": source.name, "available": there, "reason": reason})
    return rows


def diagnose() -> dict[str, Any]:
    """Everything `tq doctor` reports, as plain data."""
    missing = list(missing_backends())
    return {
        "status": "incomplete" if missing else "pass",
        "backends": [
            {"name": s.name, "available": s.available, "reason": s.reason} for s in backend_statuses()
        ],
        "hosts": [
            {"name": s.name, "available": s.available, "version": s.version, "reason": s.reason}
            for s in host_statuses()
        ],
        "expected": expected_backends(),
        "missing": missing,
        "models": model_statuses(),
        "machine": machine(),
        "built_with": build_facts(),
        "packages": packages(),
        "git": git_state(),
    }


def as_text(found: dict[str, Any]) -> str:
    """The same for a reader at a terminal."""
    lines = [f"{found['machine']['python']}, {found['machine']['system']}, {found['machine']['cpu']}"]
    for title in ("backends", "hosts", "models"):
        lines.append(f"\n{title}")
        for row in found[title]:
            lines.append(f"  {'yes' if row['available'] else 'no ':3}  {row['name']:26} {row['reason']}")
    lines.append("")
    if found["missing"]:
        lines += [
            f"MISSING: {m['name']}, which this machine should have: {m['reason']}" for m in found["missing"]
        ]
    else:
        lines.append("Every backend that this machine should have runs.")
    return "\n".join(lines)
