"""The museum's panel and tables, on two exhibits that are quick to run."""

from __future__ import annotations

import numpy as np
import pytest

from tq_core.show.panel import Panel
from validation.museum import pictures
from validation.museum.catalogue import get
from validation.museum.exhibit import Shown, show
from validation.museum.panel import CEILING, FLOOR, MuseumPanel, distance
from validation.museum.table import COLUMNS, fooled, row


@pytest.fixture(scope="module")
def every() -> list[Shown]:
    return [show(get("C9")), show(get("H2"))]


def test_distances_grow_with_what_is_worse() -> None:
    assert distance("mse", 0.25) == 0.25 and distance("cosine", 0.75) == pytest.approx(0.25)
    assert distance("ppl_ratio", 0.9) == distance("kl", 0.0) == distance("rank", 1.0) == FLOOR
    assert distance("mse", 1e9) == CEILING and np.isnan(distance("kl", None))


def test_the_panel_shows_the_chosen_exhibit(every: list[Shown]) -> None:
    panel = Panel(MuseumPanel(every))
    assert panel.settings == {"exhibit": "C9"} and "Sinks of the first sequence" in panel.alt
    crosses = np.asarray(panel.view._faulty.get_xdata(), float)
    circles = np.asarray(panel.view._right.get_xdata(), float)
    shown = np.isfinite(crosses)
    assert shown.sum() == 3 and (crosses[shown] > circles[shown]).all()
    panel.set(exhibit="H2")
    assert panel.numbers["verdict"] == "stopped" and "relaxed" in panel.alt
    assert not np.isfinite(np.asarray(panel.view._right.get_xdata(), float)).any()
    assert panel.preset_table()[1][0][0] == "C9"
    panel.close()


def test_rows_and_shares(every: list[Shown]) -> None:
    assert all(len(row(s)) == len(COLUMNS) for s in every)
    shares = pictures.share_fooled(every)
    assert shares == {"kl": 0, "top1": 0, "ppl_ratio": 0}
    assert [r[2] for r in fooled(every)] == [
        "0 of 0",
        "0 of 0",
        "0 of 1",
        "0 of 1",
        "0 of 1",
        "0 of 0",
        "0 of 0",
    ]


def test_there_and_back() -> None:
    x, back = pictures.there_and_back()
    own, one = back.values()
    assert np.allclose(own, x, atol=1e-6)
    assert np.allclose(one[:64], x[:64] * 2 / 3, atol=1e-6) and np.allclose(one[64:], x[64:] / 3, atol=1e-6)
