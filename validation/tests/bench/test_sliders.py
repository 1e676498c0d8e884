"""Measured sliders: their statistics, wrong arguments, and the table that quotes the committed run."""

from __future__ import annotations

import json
import re

import pytest

from tq_core.browser.moves import Move
from tq_core.paths import ROOT
from validation.bench.sliders.__main__ import main, summary
from validation.bench.sliders.panels import PANELS

RESULTS = ROOT / "validation" / "bench" / "results"


def test_moves_that_show_nothing_are_counted_and_not_timed() -> None:
    moves = [Move("bits", True, 10.0, 20.0), Move("bits", False, 30.0, 60.0), Move("bits", True, None, None)]
    found = summary(moves)
    assert found["changed_nothing_shown"] == 1
    assert found["key_to_picture_ms"] == {"n": 2, "median": 40.0, "p95": 58.0, "max": 60.0}
    assert found["key_to_readout_ms, new settings"]["median"] == 10.0
    assert found["key_to_picture_ms, seen settings"]["n"] == 1


@pytest.mark.parametrize(
    ("arguments", "said"), [(["--moves", "0"], "1 or more, got 0"), (["--only", "nobody"], PANELS[0].name)]
)
def test_wrong_arguments_are_told_before_a_browser_opens(arguments, said, capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2 and said in capsys.readouterr().err


def test_the_readme_says_what_the_committed_run_measured() -> None:
    rows = json.loads((RESULTS / "sliders.json").read_text(encoding="utf-8"))["rows"]
    section = (RESULTS / "README.md").read_text(encoding="utf-8").partition("## Sliders")[2]
    told = re.findall(
        r"^\| (\w+)[^|]*\| (\d+), (\d+) \| (\d+) \| \+(\d+), \+(\d+) \| \+([\d.]+) MiB", section, re.M
    )
    assert len(told) == len(rows) >= 5
    by_name = {row["panel"].split(",")[0]: row for row in rows}
    for name, *numbers in told:
        row = by_name[name]
        took, growth = row["key_to_picture_ms"], row["growth"]
        assert numbers == [
            f"{took['median']:.0f}", f"{took['p95']:.0f}", f"{row['cpu_ms_per_move']['kernel']:.0f}",
            str(growth["figures"]), str(growth["widgets"]), f"{growth['resident_bytes'] / 2**20:.1f}",
        ], name  # fmt: skip
        assert row["problems_in_the_page"] == []
