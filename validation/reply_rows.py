"""Free greedy replies, scored per arm beside the reference's: shown, and deciding nothing.

A reply is free, so two caches that are equally good may say different things; what is counted here tells a reader where
to look. No gate and no budget reads these rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from tq_core.model.interface import LanguageModel
from validation.engine.cell import REFERENCE
from validation.engine.reading import Reading
from validation.findings import Findings
from validation.tables_workloads import words
from validation.workloads.prompt import Prompt
from validation.workloads.replies import (
    distinct_ngrams,
    invented_numbers,
    loop_rate,
    numbers,
    string_match_all,
    verdict,
)

VERDICTS = ("right", "wrong", "both", "neither")


def reply_rows(f: Findings, model: LanguageModel) -> list[dict[str, Any]]:
    """One row per workload and cache that replied, the reference first. Rates are shares in 0..1."""
    rows = []
    for w in f.workloads.values():
        for label in (n for n in (REFERENCE, *f.arms, *f.controls) if n in w.readings):
            replied = [(p, r) for p, r in zip(w.prompts, w.readings[label]) if r.generated is not None]
            if replied:
                rows.append({"workload": w.name, "arm": label, **_scores(model, replied)})
    return rows


def _scores(model: LanguageModel, replied: Sequence[tuple[Prompt, Reading]]) -> dict[str, Any]:
    """``verdicts`` and ``recalled`` are None where no prompt says what a right reply contains."""
    told: Counter[str] = Counter()
    recalled, invented, lengths, distinct, loops = [], [], [], [], []
    for prompt, reading in replied:
        ids = reading.generated or []
        text = words(model, ids) or ""
        if prompt.accept:
            told[verdict(text, prompt.accept, prompt.distractors)] += 1
            recalled.append(string_match_all(text, prompt.accept))
        known = numbers(words(model, prompt.tokens.tolist()) or "")
        invented.append(len(invented_numbers(text, known)))
        lengths.append(len(ids))
        distinct.append(distinct_ngrams(ids))
        loops.append(loop_rate(ids))
    return {
        "prompts": len(replied),
        "tokens_mean": float(np.mean(lengths)),
        "empty": lengths.count(0),
        "judged": len(recalled),
        "verdicts": {v: told[v] for v in VERDICTS} if recalled else None,
        "recalled": float(np.mean(recalled)) if recalled else None,
        "invented_numbers": int(np.sum(invented)),
        "replies_with_invented": int(np.count_nonzero(invented)),
        "distinct_ngrams": float(np.mean(distinct)),
        "loops": int(np.count_nonzero(loops)),
        "loop_rate": float(np.mean(loops)),
    }
