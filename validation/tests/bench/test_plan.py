"""What a run measures, in which order, and how many layers a cold rotation takes."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import replace

import pytest

from tq_core.errors import ValueRangeError
from validation.bench.command import add_parser, plan_of
from validation.bench.plan import FULL, QUICK, REPEATS_MIN, SHAPES, STATES, layers_for

MIB = 1024 * 1024


def test_the_full_plan_covers_the_shapes_and_lengths() -> None:
    cells = list(FULL.cells())
    assert len(cells) == len(set(cells)) == 3 * 4 * 2 * 2
    assert {c.tokens for c in cells} == {1024, 8192, 32768, 131072}
    assert {(s.n_query_heads, s.n_kv_heads, s.head_dim) for s in SHAPES.values()} == {
        (32, 8, 128),
        (9, 3, 64),
        (4, 1, 256),
    }
    assert {c.state for c in cells} == set(STATES) and {c.threads for c in cells} == {1, 2}


@pytest.mark.parametrize("plan", [FULL, QUICK])
def test_what_matters_comes_first(plan) -> None:
    first = next(plan.cells())
    assert (first.shape.name, first.tokens, first.threads) == ("llama-8b", 8192, 1)
    assert plan.repeats >= REPEATS_MIN


@pytest.mark.parametrize(
    ("layer", "cold", "cache", "layers"),
    [
        (MIB, 256 * MIB, 32 * MIB, 256),
        (100 * MIB, 256 * MIB, 32 * MIB, 3),
        (MIB, 256 * MIB, 64 * MIB, 512),
        (MIB * 1024, 256 * MIB, MIB, 1),
    ],
)
def test_cold_layers_exceed_the_cache_several_times(layer: int, cold: int, cache: int, layers: int) -> None:
    assert layers_for("cold", layer, cold, cache) == layers
    assert layers * layer >= max(cold, 8 * cache)
    assert layers_for("warm", layer, cold, cache) == 1


def _options(*arguments: str) -> Namespace:
    parser = ArgumentParser()
    add_parser(parser.add_subparsers(dest="command"))
    return parser.parse_args(["bench", *arguments])


def test_options_make_the_plan() -> None:
    plan = plan_of(
        _options(
            "--quick", "--shape", "smollm2", "--tokens", "256", "--threads", "1", "--no-peers", "--no-wasm"
        )
    )
    assert plan == replace(QUICK, shapes=("smollm2",), tokens=(256,), threads=(1,), peers=False, wasm=False)
    assert plan_of(_options()) == FULL


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["--shape", "llama-9b"], "shape"),
        (["--tokens", "100"], "tokens"),
        (["--tokens", "0"], "tokens"),
        (["--threads", "3"], "threads"),
        (["--repeats", "2"], "repeats"),
    ],
)
def test_bad_options_are_refused_by_name(arguments: list[str], name: str) -> None:
    with pytest.raises(ValueRangeError, match=f"^{name}: expected"):
        plan_of(_options(*arguments))
