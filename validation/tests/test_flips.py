"""`tq flips`: which choices changed, and which part of the cache gives them back."""

import json

import pytest

from validation import cli

SMALL = ["flips", "--prompts", "2", "--length", "128", "--quiet"]


def test_flips_are_counted_and_parts_ranked(capsys):
    assert cli.main([*SMALL, "--arm", "planted-bad", "--all", "--json"]) == cli.PASS
    told = json.loads(capsys.readouterr().out)
    assert len(told["prompts"]) == 2 and told["arm"] == "planted-bad"
    assert told["flips"] == sum(r["choice"] != r["choice_reference"] for r in told["prompts"])
    shares = [p["recovered"] for p in told["parts"]]
    assert len(shares) == 6 and shares == sorted(shares, reverse=True) and shares[0] > 0.2, (
        "three layers, two sides"
    )


def test_nothing_flipped_is_said(capsys):
    assert cli.main([*SMALL, "--arm", "fp16"]) == cli.PASS
    said = capsys.readouterr().out
    assert "0 of 2 choices changed" in said and "nothing to explain" in said


@pytest.mark.parametrize(
    ("arguments", "names"),
    [(["--workload", "nothing"], "workload"), (["--by", "channels", "--group", "0"], "group"), (["--arm", "x"], "arm"), (["--prompts", "0"], "prompts")],
)  # fmt: skip
def test_bad_input_is_one_line(arguments, names, capsys):
    assert cli.main([*SMALL, *arguments]) == cli.BAD_INPUT
    said = capsys.readouterr()
    assert said.out == "" and names in said.err and said.err.count("\n") == 1
