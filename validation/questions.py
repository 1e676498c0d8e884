"""The six questions that the course is for, each with the answer that this repository's results give.

Numbers come from ``studies/scale.json`` (losses on SmolLM2 by bits and window), the one-layer fixture, the plan of a
cache, the committed benchmark, and the run that is at hand. They hold for what was measured; another model gets its own by its own run.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from tq_core.codecs.arms import get_arm
from tq_core.model.fixture import make_fixture, rotation_and_rope
from tq_core.model.outline import KNOWN
from tq_core.model.outline_bytes import plain_bytes, planned_bytes
from tq_core.paths import ROOT
from validation.budget.costs import bench_costs

BENCH = ROOT / "validation" / "bench" / "results" / "8k-with-peers.json"
SCALE = ROOT / "validation" / "studies" / "scale.json"
COLUMNS = ("question", "answer of this repository's runs", "worked out in")
ROUNDING = 1e-12  # of logits below 100 in float64
CONTEXTS = (256, 1024, 4096, 32768)


def losses(workload: str = "chat") -> dict[str, float]:
    """{arm: mean next-token KL in nats} of scale.json."""
    arms = json.loads(SCALE.read_text(encoding="utf-8"))["workloads"][workload]["arms"]
    return {name: arm["kl_mean"]["mean"] for name, arm in arms.items()}


def _told(kl: dict[str, float], named: dict[str, str]) -> str:
    return ", ".join(f"{what} {kl[arm]:.3f}" for what, arm in named.items())


def bits_rows() -> list[list[str]]:
    """Answers on bits of keys, bits of values and the window."""
    kl = losses()
    keys = {f"{k} bits": f"structured-turbo {k}/3" for k in (2, 3, 4)}
    values = {f"{v} bits": f"structured-turbo 3/{v}" for v in (2, 3, 4)}
    names = ("no window", "window 32", None, "window 256")
    windows = {n or "window 128": "structured-turbo" + (f", {n}" if n else "") for n in names}
    return [
        [
            "How many bits for keys?",
            f"mean KL on chat, values at 3 bits: keys {_told(kl, keys)} nats",
            "03, 08",
        ],
        ["How many bits for values?", f"keys at 3 bits: values {_told(kl, values)} nats", "03, 08"],
        ["Which window?", f"keys 3.5, values 3 bits: {_told(kl, windows)} nats", "03, 08"],
    ]


def rope_row() -> list[str]:
    """The answer on the side of RoPE, from the fixture."""
    exact, after, before = (scores[0, -1] for scores in rotation_and_rope(make_fixture()))
    kept, changed = (float(np.abs(scores - exact).max()) for scores in (after, before))
    rounding = "rounding" if kept < ROUNDING else f"{kept:.1g}"
    told = (
        f"after RoPE it changes the fixture's logits by {rounding} alone, before RoPE by up to {changed:.1f}"
    )
    return ["Why does the rotation go after RoPE?", told, "03"]


def pays_row(model: str = "llama-8b", prompt: int = 8192) -> list[str]:
    """The answer on memory and time: the plan's share of plain fp16 by context, and the break-even of the committed bench."""
    outline, arm = KNOWN[model], get_arm("structured-turbo")
    shares = [planned_bytes(outline, arm, n).total / plain_bytes(outline, n)["fp16"] for n in CONTEXTS]
    memory = ", ".join(f"{share:.0%} at {n:,} tokens" for n, share in zip(CONTEXTS, shares))
    generated = bench_costs(BENCH, outline.shape, prompt).break_even(outline.shape, prompt)
    told = f"{model}, of fp16's memory: {memory}; in time, after {generated} generated tokens behind a prompt of {prompt:,}"
    return ["When does compression pay?", told, "01, 06"]


def verdict_row(record: Any) -> list[str]:
    """The answer on the model, from a report's record: the verdict and the gates that are against it."""
    failed = [gate["name"] for gate in record.gates if gate["status"] == "fail"]
    skipped = [gate["name"] for gate in record.gates if gate["status"] == "not exercised"]
    told = f"{record.profile['model']['name']} under {record.profile['plan']['arm']} in the run above: {record.status}"
    told += f"; failed: {', '.join(failed) or 'nothing'}"
    told += f"; not exercised: {', '.join(skipped)}" if skipped else ""
    return ["Does my model pass?", told, "12"]


def rows(record: Any) -> list[list[str]]:
    """All six, as rows for a table with COLUMNS."""
    return [*bits_rows(), rope_row(), pays_row(), verdict_row(record)]
