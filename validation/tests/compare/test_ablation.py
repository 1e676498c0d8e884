"""The ablation of best-turbo on the tiny model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from validation.compare import ablation


@pytest.mark.slow
def test_rows_of_the_tiny_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step is there at every rate, finite, and whole best-turbo is better than what it starts from."""
    monkeypatch.setattr(ablation, "SEEDS", (1, 2))
    monkeypatch.setattr(ablation, "TEXTS", 3)
    out = tmp_path / "ablation.json"
    assert ablation.main(["--model", "tiny", "--out", str(out)]) == 0
    result = json.loads(out.read_text())
    assert result["complete"]
    rows = result["rows"]
    assert len(result["long"]) == 2 * 5 and all(len(r["kl_quarters"]) == 4 for r in result["long"])
    assert len(rows) == 2 * 16 and all(0 <= r["kl_mean"] < 1 for r in rows)
    for bits in ablation.RATES:
        kl = {r["variant"]: r["kl_mean"] for r in rows if tuple(r["bits"]) == bits}
        assert kl["and shaped by queries: best-turbo"] < kl["structured-turbo"]


def test_an_unknown_model_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert ablation.main(["--model", "nonesuch", "--out", "x.json"]) == 2
    assert "nonesuch" in capsys.readouterr().err


def test_a_folder_that_is_not_there_is_refused_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ablation.main(["--model", "tiny", "--out", str(tmp_path / "none" / "x.json")]) == 2
    assert capsys.readouterr().err.startswith("ablation: out: expected a file in a folder that exists")


def test_an_interrupt_keeps_the_rows_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object) -> Iterator[dict[str, object]]:
        yield {"variant": "first"}
        raise KeyboardInterrupt

    monkeypatch.setattr(ablation, "run", stopped)
    out = tmp_path / "x.json"
    assert ablation.main(["--model", "tiny", "--out", str(out)]) == 130
    kept = json.loads(out.read_text())
    assert kept["rows"] == [{"variant": "first"}] and not kept["complete"]
