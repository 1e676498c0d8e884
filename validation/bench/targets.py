"""The goals, and whether this run reached them. For the record: speed is never a gate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from validation.bench.plan import REFERENCE_SHAPE, REFERENCE_TOKENS

Row = dict[str, Any]
# (goal, contestant, slower contestant, at least, state), at the reference shape and length with one thread
_RATIOS = (
    ("exact over llama.cpp flash attention, q4_0 keys and values", "exact", "llama.cpp-fa-q4_0", 30.0, "cold"),
    ("exact over llama.cpp flash attention, f16", "exact", "llama.cpp-fa-f16", 10.0, "cold"),
    ("exact over llama.cpp without flash attention, q4_0 keys, f16 values", "exact", "llama.cpp-plain-q4_0-f16", 6.0, "cold"),
    ("exact over torch bf16 matmul", "exact", "torch-bf16-matmul", 6.0, "cold"),
    ("exact over own fp16", "exact", "own-fp16@avx512", 3.0, "cold"),
    ("fast over own fp16", "fast", "own-fp16@avx512", 4.0, "cold"),
    ("AVX2 exact over llama.cpp flash attention, q4_0", "exact@native-avx2", "llama.cpp-fa-q4_0", 15.0, "cold"),
    ("AVX2 exact over llama.cpp flash attention, f16", "exact@native-avx2", "llama.cpp-fa-f16", 4.0, "cold"),
    ("wasm in node over native llama.cpp flash attention, q4_0", "wasm-simd128@node", "llama.cpp-fa-q4_0", 5.0, "warm"),
    ("wasm in node over native 128-bit", "wasm-simd128@node", "exact@native128", 0.65, "warm"),
    ("wasm in wasmtime over native 128-bit", "wasm-simd128@wasmtime", "exact@native128", 0.65, "warm"),
    ("wasm in wasmer 1.1 over native 128-bit", "wasm-simd128@wasmer", "exact@native128", 0.35, "warm"),
    ("Cling over g++ -O3, exact", "exact", "exact@g++", 0.95, "warm"),
)  # fmt: skip
_SHARES = (("exact", 0.40), ("fast", 0.55))
THREAD_GOAL, APPEND_TOKENS = 1.8, 32


def _goal(name: str, at_least: float, measured: float | None) -> Row:
    met = None if measured is None else measured >= at_least
    return {
        "goal": name,
        "at_least": at_least,
        "measured": None if measured is None else round(measured, 3),
        "met": met,
    }


def evaluate(rows: list[Row], bandwidth: float | None, best: str) -> list[Row]:
    """Every goal with what was measured; None where a side is missing. ``best`` is the widest native target's name."""

    def ns(name: str, state: str, threads: int = 1, at: Callable[[Row], bool] | None = None) -> float | None:
        full = f"{name}@{best}" if name in ("exact", "fast") else name
        here = at or (lambda r: r["tokens"] >= REFERENCE_TOKENS)
        found = [
            r
            for r in rows
            if (r["name"], r["shape"], r["state"], r["threads"]) == (full, REFERENCE_SHAPE, state, threads)
            and here(r)
        ]
        return min(found, key=lambda r: r["tokens"])["ns_per_token_head"] if found else None

    def over(a: float | None, b: float | None) -> float | None:
        return None if a is None or b is None else a / b

    goals = [_goal(name, least, over(ns(b, state), ns(a, state))) for name, a, b, least, state in _RATIOS]
    for kind, least in _SHARES:
        shares = [
            r["payload_gbs"]
            for r in rows
            if (r["name"], r["shape"], r["state"], r["threads"])
            == (f"{kind}@{best}", REFERENCE_SHAPE, "cold", 1)
            and r["tokens"] >= REFERENCE_TOKENS
        ]
        goals.append(
            _goal(f"{kind}: share of the read bandwidth", least, over(max(shares, default=None), bandwidth))
        )
    goals.append(
        _goal(
            "exact: two threads over one, warm",
            THREAD_GOAL,
            over(ns("exact", "warm"), ns("exact", "warm", 2)),
        )
    )
    parts = [
        ns(f"append-{side}-1@{best}", "warm", at=lambda r: r["task"] == "append")
        for side in ("keys", "values")
    ]
    append = None if None in parts else sum(parts)  # type: ignore[arg-type]
    step = ns("exact", "cold")
    scan = None if step is None else APPEND_TOKENS * step
    goals.append(_goal(f"scan of {APPEND_TOKENS} tokens over append of one", 1.0, over(scan, append)))
    return goals
