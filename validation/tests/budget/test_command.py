"""`tq plan`: exit codes, JSON alone on standard output, numbers that equal a real cache's, refusals in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tq_core.cache.breakdown import breakdown
from tq_core.cache.paged_cache import PagedCache
from tq_core.cache.planned import planned
from tq_core.codecs.arms import get_arm
from tq_core.codecs.fit import fit_arm
from tq_core.codecs.shaped_arm import planned_best_turbo
from tq_core.kernels.backend import NumpyBackend
from tq_core.model.outline import KNOWN
from tq_core.model.outline_bytes import parts, plain_bytes
from tq_core.shapes import ModelShape
from tq_core.tests.cache.test_breakdown import filled
from validation import cli
from validation.budget.command import byte_count
from validation.budget.costs import Costs, bench_costs

COSTS = ["--append-ns", "900", "--scan-ns", "3", "--fp16-scan-ns", "20"]


def told(capsys, *arguments: str, code: int = cli.PASS) -> dict[str, Any]:
    assert cli.main(["plan", *arguments, "--json"]) == code
    said = capsys.readouterr()
    assert said.err == ""
    return json.loads(said.out)


def config(folder: Path, **fields: Any) -> str:
    shape = {"num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2, "hidden_size": 288}
    path = folder / "config.json"
    path.write_text(json.dumps({**shape, "max_position_embeddings": 300, **fields}))
    return str(path)


def test_the_plan_of_a_config_is_what_a_real_cache_holds(tmp_path: Path, capsys) -> None:
    data = told(
        capsys,
        "--model",
        config(tmp_path),
        "--bits-k",
        "3",
        "--bits-v",
        "2",
        "--window",
        "16",
        "--sinks",
        "2",
    )
    arm = get_arm("structured-turbo", key_bits=3, value_bits=2, window=16, sinks=2)
    real = breakdown(filled(ModelShape(2, 6, 2, 48), arm, 300))
    assert {line["line"]: line["bytes"] for line in data["lines"]} == dict(real.nbytes)
    assert data["total"] == real.total
    assert sum(line["bytes"] for line in data["lines"]) == data["total"]
    assert data["tokens"] == 300


@pytest.mark.parametrize("model", list(KNOWN))
def test_every_known_model_has_a_plan(model: str, capsys) -> None:
    data = told(capsys, "--model", model)
    assert data["tokens"] == KNOWN[model].context_length
    assert data["total"] < data["baselines"]["fp16"]
    assert list(data["baselines"]) == ["fp32", "fp16", "fp8", "q8_0"]


def test_a_budget_decides_the_exit_code_and_the_longest_context_fits_it_exactly(capsys) -> None:
    plan = ("--model", "smollm2", "--budget", "64MiB")
    data = told(capsys, *plan, "--context", "1000")
    most = data["max_tokens"]
    assert data["fits"] and most > data["max_tokens_fp16_arm"] > 0
    assert told(capsys, *plan, "--context", str(most))["fits"]
    over = told(capsys, *plan, "--context", str(most + 1), code=cli.FAILED)
    assert (over["status"], over["fits"]) == ("fail", False)
    assert over["total"] > over["budget"] == 64 * 2**20


def test_text_says_what_json_says(capsys) -> None:
    data = told(capsys, "--budget", "2GiB", *COSTS, "--context", "4096")
    assert cli.main(["plan", "--budget", "2GiB", *COSTS, "--context", "4096"]) == cli.PASS
    text = capsys.readouterr().out
    for number in (data["total"], data["baselines"]["q8_0"], data["max_tokens"], data["break_even_tokens"]):
        assert f"{number:,}" in text


def test_break_even_by_hand(capsys) -> None:
    """Per layer and KV head: 900 ns an append, 17 ns saved per cached token and step."""
    data = told(capsys, "--model", "smollm2", "--context", "2048", *COSTS)
    spent, generated = 900 * 2048, 0
    while spent > 0:
        generated += 1
        spent += 900 - 17 * (2048 + generated)
    assert data["break_even_tokens"] == generated
    assert Costs(1, 5, 5).break_even(KNOWN["tiny"].shape, 10) is None
    gemma = KNOWN["gemma3-270m"]
    local = Costs(900, 3, 20).break_even(gemma.shape, 2048, gemma.local_layers)
    assert local is not None and local > generated


def test_local_layers_count_their_window_in_every_format() -> None:
    gemma = KNOWN["gemma3-270m"]
    assert [(s.n_layers, held) for s, held in parts(gemma, 4096)] == [(3, 4096), (15, 512)]
    assert plain_bytes(gemma, 4096)["fp8"] == 2 * 256 * (3 * 4096 + 15 * 512)


def test_costs_come_from_a_bench_file(tmp_path: Path, capsys) -> None:
    base = {"shape": "smollm2", "threads": 1, "state": "cold", "tokens": 8192}
    rows = [
        {
            **base,
            "task": "append",
            "name": "append-keys-1@native-avx2",
            "tokens": 1,
            "ns_per_token_head": 400.0,
        },
        {
            **base,
            "task": "append",
            "name": "append-values-1@native-avx2",
            "tokens": 1,
            "ns_per_token_head": 500.0,
        },
        {
            **base,
            "task": "append",
            "name": "append-keys-128@native-avx2",
            "tokens": 128,
            "ns_per_token_head": 1.0,
        },
        {**base, "task": "decode step", "name": "exact@native-avx2", "ns_per_token_head": 3.0},
        {
            **base,
            "task": "decode step",
            "name": "exact@native-avx2",
            "state": "warm",
            "ns_per_token_head": 1.0,
        },
        {**base, "task": "decode step", "name": "exact@native-avx2", "threads": 2, "ns_per_token_head": 1.0},
        {**base, "task": "decode step", "name": "own-fp16@avx2", "ns_per_token_head": 20.0},
    ]
    path = tmp_path / "bench.json"
    path.write_text(json.dumps({"rows": rows}))
    made = bench_costs(path, KNOWN["smollm2"].shape, 2048)
    assert (made.append_ns, made.scan_ns, made.fp16_scan_ns) == (900, 3, 20)
    plan = ("--model", "smollm2", "--context", "2048")
    from_file = told(capsys, *plan, "--bench", str(path))
    assert from_file["break_even_tokens"] == told(capsys, *plan, *COSTS)["break_even_tokens"]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"rows": 3}',
        '{"rows": [3]}',
        '{"rows": []}',
        '{"rows": [{"task": "append"}]}',
        "[" * 99999,
    ],
)
def test_a_file_that_is_no_bench_result_is_bad_input(content: str, tmp_path: Path, capsys) -> None:
    path = tmp_path / "bench.json"
    path.write_text(content)
    assert cli.main(["plan", "--bench", str(path)]) == cli.BAD_INPUT
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith("tq plan: bench") and said.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["--model", "gpt"], "model"),
        (["--model", "no/such.gguf"], "model file"),
        (["--arm", "turbo9"], "arm"),
        (["--arm", "kvquant"], "arm: expected one of"),
        (["--arm", "best-turbo", "--bits-k", "5"], "key_bits"),
        (["--key-bits", "5"], "key_bits"),
        (["--key-bits", "inf"], "key_bits"),
        (["--key-bits", "nan"], "key_bits"),
        (["--arm", "kivi-control", "--bits-k", "3.5"], "key_bits"),
        (["--arm", "fp16", "--bits-v", "3"], "options"),
        (["--window", "-1"], "window"),
        (["--sinks", "-1"], "sinks"),
        (["--context", "0"], "context"),
        (["--context", str(1 << 40)], "context"),
        (["--budget", "much"], "budget"),
        (["--budget", "0"], "budget"),
        (["--budget", "9" * 400 + "GiB"], "budget"),
        (["--append-ns", "1"], "costs"),
        (["--append-ns", "nan", "--scan-ns", "1", "--fp16-scan-ns", "2"], "append_ns"),
        ([*COSTS, "--bench", "x.json"], "bench"),
        (["--bench", "no-such.json"], "bench"),
    ],
)
def test_bad_input_is_one_line_that_names_the_argument(arguments: list[str], names: str, capsys) -> None:
    assert cli.main(["plan", *arguments]) == cli.BAD_INPUT
    said = capsys.readouterr()
    assert said.out == "" and names in said.err and said.err.count("\n") == 1


def test_published_tables(capsys, monkeypatch) -> None:
    data = told(capsys, "--published")
    assert (data["status"], data["figures"], data["wrong"]) == ("pass", 97, 20)
    assert cli.main(["plan", "--published"]) == cli.PASS
    text = capsys.readouterr().out
    assert "Qwen2.5 14B, FP16: published 5.0 GB, computed 6.0 GB" in text
    assert text.endswith("76 of 97 published figures agree to the printed digit\n")
    from validation.budget import published

    planted = [
        {**e, "right": "1.0x", "why": "planted"} if e["item"].endswith("R_mem") else e
        for e in published.entries()
    ]
    planted[0] = {**planted[0], "right": "65 KiB", "why": "planted"}
    monkeypatch.setattr(published, "entries", lambda: tuple(planted))
    assert cli.main(["plan", "--published"]) == cli.FAILED


@pytest.mark.parametrize(
    "given, nbytes",
    [
        ("2GiB", 2**31),
        ("500 MB", 500_000_000),
        ("65536", 65536),
        ("1.5kib", 1536),
        ("3B", 3),
        ("1TB", 10**12),
    ],
)
def test_sizes(given: str, nbytes: int) -> None:
    assert byte_count(given) == nbytes


def test_best_turbo_is_planned_as_it_will_be(tmp_path: Path, capsys) -> None:
    """Its tables are counted before they are fitted: as many bytes as a fitted arm's cache says."""
    shape = ModelShape(2, 6, 2, 48)
    x = np.random.default_rng(0).standard_normal((2, 64, 2, 48)).astype(np.float32)
    q = np.random.default_rng(1).standard_normal((2, 64, 6, 48)).astype(np.float32)
    fitted = fit_arm("best-turbo", x, x, queries=q, key_bits=4, value_bits=3, window=32)
    real = PagedCache(shape, fitted, NumpyBackend()).ledger().fixed_tables
    arm = planned_best_turbo(shape, key_bits=4, value_bits=3, window=32)
    assert planned(shape, arm, 500).nbytes["fixed tables"] == real
    assert arm.key_codec.streams(48) == fitted.key_codec.streams(48)
    told(capsys, "--model", config(tmp_path), "--context", "200", "--arm", "best-turbo")
