"""One arm against the others, on rows made up so that the answer is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tq_core.errors import ValueRangeError
from validation.compare import versus as module
from validation.compare.versus import versus

N = 24
BASE = np.random.default_rng(3).uniform(0.5, 1.5, N)


def row(codec: str, bits: float, kl: np.ndarray) -> dict[str, Any]:
    return {
        "codec": codec, "label": f"{codec} {bits:g}", "bits_all_in": bits, "kl_mean": float(kl.mean()),
        "kl_documents": kl.tolist(),
    }  # fmt: skip


def result() -> dict[str, Any]:
    noise = np.random.default_rng(4).normal(0, 0.3, N)
    rows = [
        row("mine", 3.26, BASE), row("mine", 4.26, BASE / 4), row("worse", 3.27, 1.2 * BASE), row("better", 3.4, 0.8 * BASE),
        row("same", 4.0, BASE + noise - noise.mean()), row("cheap", 2.3, 9 * BASE), row("dear", 5.0, BASE / 9),
        row("close", 4.25, BASE / 3),
    ]  # fmt: skip
    return {"schema": {"name": "tq-compare", "version": 1}, "rows": rows}


def test_difference_and_who_is_compared() -> None:
    found = {r["other"]: r for r in versus(result(), "mine")}
    assert set(found) == {"worse 3.27", "better 3.4", "same 4", "close 4.25"}, (
        "2.3 bits have no row of mine, 5 are too many"
    )
    assert [found[n]["better"] for n in ("worse 3.27", "better 3.4", "same 4")] == [True, False, None]
    assert found["worse 3.27"]["mine"] == "mine 3.26" and found["worse 3.27"]["texts_won"] == N
    assert found["close 4.25"]["mine"] == "mine 4.26", "rates that differ by page headers alone are equal"


def test_an_arm_without_rows_is_refused() -> None:
    with pytest.raises(ValueRangeError, match="^codec: expected one of"):
        versus(result(), "nonesuch")


def test_the_table_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps(result()))
    assert module.main([str(path), "mine"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[0] == "arm" and any("better 3.4" in line and "0 of 24" in line for line in lines)


@pytest.mark.parametrize("content", [None, "", "[]", "{}", '{"schema": {"name": "other"}, "rows": []}'])
def test_another_file_is_bad_input_in_one_line(
    content: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.json"
    if content is not None:
        path.write_text(content)
    assert module.main([str(path), "mine"]) == 2
    said = capsys.readouterr()
    assert (
        said.out == ""
        and said.err.startswith("versus: file: expected the JSON of tq compare")
        and said.err.count("\n") == 1
    )
