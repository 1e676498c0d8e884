"""A whole record and its samples, made by hand: what a study of two arms on three workloads gives.

The numbers are invented; they only have to hang together as a real run's do.
"""

from __future__ import annotations

import hashlib
from typing import Any

from validation.schema import Record

ARMS = ("structured-turbo", "planted-bad")
LOSS = {"structured-turbo": 0.004, "planted-bad": 1.9}
WORKLOADS = {"chat": "Ordinary chat", "retrieval": "Long retrieval with distractors", "code": "Source code"}
PROMPTS = 12
PLAIN = ("name", "title", "formula", "unit")


def sha(*what: Any) -> str:
    return hashlib.sha256(repr(what).encode()).hexdigest()


def interval(value: float, width: float = 0.25) -> dict[str, Any]:
    low, high = sorted((value * (1 - width), value * (1 + width)))
    return {
        "low": low, "high": high, "level": 0.95, "n": PROMPTS, "method": "BCa bootstrap over prompts",
        "covers": "other prompts of this workload", "note": "", "seed": 1,
    }  # fmt: skip


def metric(name: str, title: str, unit: str, higher: bool, level: str = "next token") -> dict[str, Any]:
    told = dict(zip(PLAIN, (name, title, f"formula of {title}", unit)))
    return {**told, "higher_is_better": higher, "level": level, "decides": name == "kl_mean"}


def gate(
    name: str, claim: str, value: float | None, op: str, limit: float, unit: str, **more: Any
) -> dict[str, Any]:
    return {
        "name": name, "claim": claim, "status": "pass", "value": value, "op": op, "limit": limit, "unit": unit,
        "why": f"why {name} has this limit", "evidence": f"evidence of {name}",
        "command": f"tq validate --model smollm2 --arm structured-turbo --gate {name}", **more,
    }  # fmt: skip


def _study() -> dict[str, Any]:
    budgets = [
        {"workload": "chat", "metric": "kl_mean", "budget": 0.02, "unit": "nats", "why": "a reader does not notice it"},
        {"workload": "retrieval", "metric": "accuracy", "budget": 0.05, "unit": "share", "why": "one answer in twenty"},
    ]  # fmt: skip
    return {
        "name": "ordinary-chat", "version": 1, "sha256": sha("study"), "question": "Does the arm answer as fp16 does?",
        "exploratory": [], "budgets": budgets, "seeds": {"resampling": 1, "sampler": [7, 8]}, "confidence": 0.95,
        "file": "validation/studies/ordinary-chat.yaml",
    }  # fmt: skip


def _workload(name: str, title: str) -> dict[str, Any]:
    status = {"code": "ceiling"}.get(name, "informative")
    arms = []
    for arm in ARMS:
        rows = [{"metric": "kl_mean", "value": LOSS[arm], "interval": interval(LOSS[arm])}]
        rows.append({"metric": "top1_agreement", "value": 1 - LOSS[arm] / 3, "interval": interval(1 - LOSS[arm] / 3, 0.001)})  # fmt: skip
        if name == "retrieval":
            rows.append({"metric": "accuracy", "value": 0.75 if arm == ARMS[0] else 0.0, "interval": None})
        arms.append({"arm": arm, "prompts": PROMPTS, "metrics": rows})
    return {
        "name": name, "version": 2, "title": title, "digest": sha(name), "prompts": PROMPTS, "tokens_scored": 1440,
        "shows": f"what {name} shows", "cannot_show": f"what {name} cannot show",
        "information": {"status": status, "evidence": f"evidence for {status}", "accuracy": 0.75, "guessed": 0.25}, "arms": arms,
    }  # fmt: skip


def _decisions() -> list[dict[str, Any]]:
    told = {"n": PROMPTS, "least_n": 8, "method": "BCa bootstrap, one-sided", "note": ""}
    rows = []
    for arm in ARMS:
        loss = LOSS[arm]
        status = "pass" if loss < 0.01 else "fail"
        row = {"workload": "chat", "metric": "kl_mean", "arm": arm, "loss": loss, "bound": loss * 1.2}
        rows.append({**row, "budget": 0.02, "unit": "nats", "status": status, "power": 0.93, **told})
    row = {
        "workload": "code",
        "metric": "kl_mean",
        "arm": ARMS[0],
        "loss": None,
        "bound": None,
        "budget": 0.02,
    }
    rows.append(
        {**row, "unit": "nats", "status": "not exercised", "power": None, **told, "note": "at the ceiling"}
    )
    row = {"workload": "retrieval", "metric": "accuracy", "arm": ARMS[0], "loss": -0.01, "bound": 0.03}
    rows.append({**row, "budget": 0.05, "unit": "share", "status": "pass", "power": 0.81, **told})
    return rows


def _trajectories() -> list[dict[str, Any]]:
    rows = []
    for arm, leave in zip(ARMS, (20, 1)):
        for sampler in ("greedy", "seed 7"):
            shares = [[t, round(max(0.0, 1 - t / (2 * leave)), 3)] for t in (0, 4, 8, 16, 32)]
            first = [leave] * 10 + [None] * 2
            rows.append({
                "workload": "chat", "arm": arm, "sampler": sampler, "prompts": PROMPTS, "identical": 2,
                "first_difference_median": float(leave), "first_differences": first, "survival": shares,
            })  # fmt: skip
    return rows


def _replies() -> list[dict[str, Any]]:
    good = {
        "prompts": PROMPTS, "tokens_mean": 40.0, "empty": 0, "judged": PROMPTS, "verdicts": {"right": 10, "wrong": 1, "both": 0, "neither": 1},
        "recalled": 0.875, "invented_numbers": 0, "replies_with_invented": 0, "distinct_ngrams": 1.0, "loops": 0, "loop_rate": 0.0,
    }  # fmt: skip
    bad = {
        **good, "tokens_mean": 48.0, "verdicts": {"right": 0, "wrong": 5, "both": 0, "neither": 7}, "recalled": 0.0,
        "invented_numbers": 9, "replies_with_invented": 4, "distinct_ngrams": 0.25, "loops": 11, "loop_rate": 0.8,
    }  # fmt: skip
    rows = {
        "reference": good,
        ARMS[0]: {**good, "verdicts": None, "recalled": None, "judged": 0},
        ARMS[1]: bad,
    }
    return [{"workload": "chat", "arm": arm, **row} for arm, row in rows.items()]


def _performance() -> list[dict[str, Any]]:
    told = {"n": 9, "where": "native-avx2", "note": "", "unit": "tokens/s", "median_absolute_deviation": 0.2}
    return [{"what": "decode", "arm": arm, "context": 512, "value": 20.0, **told} for arm in ARMS]


def _quality() -> dict[str, Any]:
    metrics = [metric("kl_mean", "Mean KL", "nats", False), metric("top1_agreement", "Same top token", "share", True)]  # fmt: skip
    values = {arm: {"kl_mean": LOSS[arm], "top1_agreement": 1 - LOSS[arm] / 3} for arm in ARMS}
    rows = {
        arm: [{"metric": m, "value": v, "beyond_window": v, "interval": interval(v)} for m, v in values[arm].items()]
        for arm in ARMS
    }  # fmt: skip
    documents = [{"document": f"chat-{i}", "style": "chat", "tokens_scored": 120, "arms": values} for i in range(3)]  # fmt: skip
    contrast = {"metric": "kl_mean", "arm": ARMS[0], "other": ARMS[1], "difference": -1.896}
    contrasts = [{**contrast, "interval": interval(-1.896), "documents_better": 3, "documents": 3}]
    quantiles = {"shares": [0.5, 0.99, 1.0], "arms": {a: [LOSS[a], 3 * LOSS[a], 9 * LOSS[a]] for a in ARMS}}
    return {
        "reference": "fp16", "tokens_scored": 4320, "metrics": metrics, "arms": rows, "documents": documents,
        "contrasts": contrasts, "retrieval": None, "kl_quantiles": quantiles,
    }  # fmt: skip


def _memory() -> dict[str, Any]:
    single = ("headers", "padding", "idle", "recent", "sinks", "block_tables", "scratch", "fixed_tables")
    rows = []
    for arm, size in (("fp16", 160_000), *((a, 30_000) for a in ARMS)):
        entries = {"payload: key codes": size, **dict.fromkeys(single, 500)}
        total = sum(entries.values())
        rows.append({"arm": arm, "entries": entries, "total": total, "bits_nominal": 3.0, "bits_all_in": 3.25, "bits_now": 4.5})  # fmt: skip
    plain = {"fp32": 320_000, "fp16": 160_000, "fp8": 80_000, "q8_0": 85_000}
    return {"tokens": 512, "entries": ["payload: key codes", *single], "arms": rows, "baselines": plain}


def _effect() -> list[dict[str, Any]]:
    told = {
        "tokens": 512, "tokens_compressed": 384, "tokens_recent": 128, "tokens_sink": 0, "stream_bytes": {"key codes": 30_000},
        "tokens_scored": 4320, "tokens_changed": 4000, "first_changed": 12, "largest_logit_difference": 0.5,
        "decoded_shadow": 0, "bytes_found": 34_000, "bytes_not_in_ledger": 0,
    }  # fmt: skip
    return [{"arm": arm, **told} for arm in ARMS]


def _attention() -> dict[str, Any]:
    rows = {
        arm: [{"layer": i, "rankings": 40, "undefined": 0, "values": {"key_tau": tau}} for i in (0, 3)]
        for arm, tau in zip(ARMS, (0.97, None))
    }
    return {"metrics": [metric("key_tau", "Key ranking", "tau-b", True, "attention")], "layers": [0, 3], "arms": rows}  # fmt: skip


def _run() -> dict[str, Any]:
    return {
        "command": "tq validate --model smollm2 --arm structured-turbo", "started": "2000-01-01T00:00:00Z",
        "finished": "2000-01-01T00:15:00Z", "seconds": 900.0, "git": {"commit": "c0ffee", "dirty": False},
        "machine": {"cpu": "a processor", "cores": 2}, "compiler": {"name": "cling"}, "packages": {"numpy": "2.0"},
    }  # fmt: skip


def make_record(**changes: Any) -> Record:
    """The record; ``changes`` replace fields of it."""
    inputs = [
        {"name": f"{w}-{i}", "style": w, "source": "made from a seed", "licence": "CC0-1.0", "sha256": sha(w, i), "tokens": 128,
         "tokens_sha256": sha("ids", w, i), "workload": w, "scored_from": 8, "digest": sha("prompt", w, i), "facts": {"depth": 0.5}}
        for w in WORKLOADS for i in range(PROMPTS)
    ]  # fmt: skip
    gates = [
        gate("kl", "the mean KL is within the budget", 0.004, "<=", 0.02, "nats"),
        gate("shadow", "no decoded copy is kept", 0.0, "==", 0.0, "bytes"),
        gate("negative-control", "the ruined arm fails", 1.9, ">", 0.02, "nats"),
        gate("peak-memory", "peak memory is below fp16's", 0.4, "<=", 1.0, "share", volatile=True),
        gate("browser", "the browser's module gives the same bits", None, "==", 0.0, "bits", status="not exercised"),
    ]  # fmt: skip
    counted = {"total": 5, "pass": 4, "fail": 0, "not_exercised": 1}
    headline = {"kl_mean": 0.004, "top1_agreement": 0.9987, "bits_all_in": 3.25, "memory_share_of_fp16": 0.21}
    shape = {"n_layers": 4, "n_query_heads": 4, "n_kv_heads": 2, "head_dim": 64}
    plan = {"arm": ARMS[0], "study": {"name": "ordinary-chat", "seeds": {"resampling": 1}}, "exploratory": []}
    fields: dict[str, Any] = {
        "status": "incomplete",
        "verdict": ["INCOMPLETE: nothing failed, but not everything was exercised.", "Arm structured-turbo on smollm2."],
        "summary": {"gates": counted, "tokens_scored": 4320, "documents": 36, "prompts": 72, **headline},
        "profile": {
            "model": {"name": "smollm2", "shape": shape, "sha256": sha("model"), "context_length": 2048},
            "arms": {arm: {"window": 128} for arm in ARMS}, "backend": "native-avx2", "plan": plan,
            "statistics": {"unit": "prompt"},
        },
        "inputs": inputs,
        "engines": [{"name": "numpy", "status": "available", "reason": "reference"}],
        "gates": gates,
        "effect": _effect(),
        "memory": _memory(),
        "quality": _quality(),
        "attention": _attention(),
        "controls": [
            {"control": name, "meaning": meaning, "tokens_scored": 99, "kl_mean": kl, "kl_max": kl, "top1_agreement": 1.0,
             "largest_logit_difference": kl, "cache": "paged"}
            for name, meaning, kl in (("planted-bad", "must fail the budget", 1.9), ("no-op", "must be zero", 0.0))
        ],
        "parity": None,
        "measurements": [{"what": "peak resident memory", "value": 5e8, "unit": "bytes"}],
        "claims": [{"text": "The mean KL is 0.004 nats.", "label": "measured-here", "evidence": ["quality"]}],
        "not_shown": ["Other models."],
        "not_exercised": ["Gate browser: there is no browser."],
        "run": _run(),
        "study": _study(),
        "workloads": [_workload(name, title) for name, title in WORKLOADS.items()],
        "decisions": _decisions(),
        "comparisons": [{"workload": "chat", "metric": "kl_mean", "arm": ARMS[0], "other": ARMS[1], "n": PROMPTS, "difference": -1.896,
                         "interval": interval(-1.896), "p": 0.0005, "p_holm": 0.001, "rejected": True, "note": "permutation, exact"}],
        "trajectories": _trajectories(),
        "replies": _replies(),
        "performance": _performance(),
    }  # fmt: skip
    return Record(**{**fields, **changes})


def make_samples() -> list[dict[str, Any]]:
    """One sample per prompt and arm."""
    rows = []
    for w in WORKLOADS:
        for i in range(PROMPTS):
            for arm in ARMS:
                reply = f"The answer to {i} is four." if arm == ARMS[0] else "the the the <b>the</b>"
                rows.append({
                    "prompt": f"{w}-{i}", "workload": w, "arm": arm, "digest": sha("prompt", w, i), "tokens": 128,
                    "kl_mean": LOSS[arm] * (i + 1) / PROMPTS, "top1": 0.9, "alternatives": [-1.5, -4.0], "choice": 0, "choice_reference": 0,
                    "reply": reply, "reply_reference": f"The answer to {i} is four.",
                    "first_difference": None if arm == ARMS[0] else 1, "facts": {"depth": 0.5},
                })  # fmt: skip
    return rows
