"""Rows, ratios, goals, and what the files say."""

from __future__ import annotations

from typing import Any

import pytest

from validation.bench import rows, targets
from validation.bench.figures import bytes_per_token_head, products_per_token_head, reference_rows
from validation.bench.ours import Entry
from validation.bench.plan import SHAPES, Cell
from validation.bench.timing import Samples, Timed


def _cell(state: str = "cold", tokens: int = 8192, threads: int = 1) -> Cell:
    return Cell(SHAPES["llama-8b"], tokens, threads, state)


def _entry(name: str, payload: int, tokens: int = 8192, task: str = rows.DECODE) -> Entry:
    return Entry(Timed(name, lambda calls: None), task, payload, tokens)


def test_a_row_divides_by_tokens_and_kv_heads() -> None:
    made = rows.row(
        _cell(), _entry("exact", 108 * 8192 * 8), Samples("exact", 5, [655_360.0, 655_360.0, 1_310_720.0])
    )
    assert made["ns_per_token_head"] == 10.0
    assert made["payload_gbs"] == pytest.approx(10.8)
    assert made["fp16_equivalent_gbs"] == pytest.approx(51.2)
    assert (made["mad_ns_per_token_head"], made["min_ns_per_token_head"], made["calls"]) == (0.0, 10.0, 5)
    assert bytes_per_token_head(made) == 108 and products_per_token_head(made) == 1024


def test_an_append_counts_what_it_appends_not_the_history() -> None:
    made = rows.row(
        _cell("warm"), _entry("append", 4096, tokens=1, task="append"), Samples("append", 1, [800.0])
    )
    assert (made["tokens"], made["ns_per_token_head"]) == (1, 100.0)
    assert "fp16_equivalent_gbs" not in made


def test_ratios_are_paired_and_only_between_steps() -> None:
    entries = [_entry("exact", 1), _entry("peer", 1), _entry("scan", 1, task="key scan"), _entry("gone", 1)]
    samples = [
        Samples("exact", 1, [10.0, 20.0, 10.0]),
        Samples("peer", 1, [30.0, 60.0, 40.0]),
        Samples("scan", 1, [1.0] * 3),
        Samples("gone", 0, reason="no"),
    ]
    found = rows.comparisons(_cell(), entries, samples, "exact")
    assert [(c["peer"], c["ratio"], c["low"], c["high"]) for c in found] == [("peer", 3.0, 3.0, 4.0)]
    assert rows.comparisons(_cell(), entries, samples, "missing") == []


def _compared(peer: str, ratio: float, state: str, tokens: int = 8192, threads: int = 1) -> rows.Row:
    return {
        "peer": peer,
        "base": "exact",
        **rows.conditions(_cell(state, tokens, threads)),
        "ratio": ratio,
        "low": ratio,
        "high": ratio,
    }


def test_reference_ratios_prefer_cold_long_and_one_thread() -> None:
    compared = [
        _compared("a", 1.0, "cold", 1024), _compared("a", 2.0, "warm"), _compared("a", 3.0, "cold"),
        _compared("a", 4.0, "cold", 32768), _compared("a", 5.0, "cold", threads=2), _compared("piped", 6.0, "warm"),
    ]  # fmt: skip
    ratios, where = rows.reference_ratios(compared, "exact")
    assert ratios == {"a": 3.0, "piped": 6.0}
    assert where == {"shape": "llama-8b", "tokens": 8192, "threads": 1, "state": "cold"}
    assert rows.reference_ratios(compared[:1], "exact")[0] == {"a": 1.0}
    assert rows.reference_ratios([], "exact") == ({}, {})


def _timed(name: str, ns: float, state: str = "cold", threads: int = 1, **more: Any) -> rows.Row:
    base = {"name": name, "task": rows.DECODE, **rows.conditions(_cell(state, threads=threads))}
    return {**base, "ns_per_token_head": ns, "payload_gbs": 108 / ns, "payload_bytes": 108 * 8192 * 8, **more}


def test_goals_are_met_missed_or_not_measured() -> None:
    best = "native-avx512vnni"
    measured = [
        _timed(f"exact@{best}", 6.0), _timed(f"fast@{best}", 5.0), _timed("llama.cpp-fa-q4_0", 270.0),
        _timed("own-fp16@avx512", 12.0), _timed(f"exact@{best}", 5.7, "warm"), _timed(f"exact@{best}", 3.0, "warm", 2),
        _timed(f"append-keys-1@{best}", 100.0, "warm", task="append", tokens=1),
        _timed(f"append-values-1@{best}", 140.0, "warm", task="append", tokens=1),
    ]  # fmt: skip
    goals = {g["goal"]: (g["measured"], g["met"]) for g in targets.evaluate(measured, 43.0, best)}
    assert goals["exact over llama.cpp flash attention, q4_0 keys and values"] == (45.0, True)
    assert goals["exact over own fp16"] == (2.0, False)
    assert goals["exact over torch bf16 matmul"] == (None, None)
    assert goals["exact: two threads over one, warm"] == (1.9, True)
    assert goals["exact: share of the read bandwidth"] == (pytest.approx(18 / 43, abs=1e-3), True)
    assert goals["scan of 32 tokens over append of one"] == (0.8, False)


def test_figures_show_the_reference_cell_only() -> None:
    measured = [
        _timed("slow", 9.0),
        _timed("quick", 1.0),
        _timed("warm", 1.0, "warm"),
        _timed("scan", 1.0, task="key scan"),
    ]
    result = {"rows": measured, "ratios_at": {**rows.conditions(_cell()), "base": "exact"}}
    assert [r["name"] for r in reference_rows(result)] == ["quick", "slow"]
    assert reference_rows({"rows": measured, "ratios_at": {"base": "exact"}}) == []
