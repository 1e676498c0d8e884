"""The figure's numbers show what the text beside it says."""

from __future__ import annotations

import numpy as np

from tq_core.show.shaped_error import error_by_direction


def test_error_moves_to_where_nobody_looks() -> None:
    weights, errors, scores = error_by_direction(rows=128)
    assert (np.diff(weights) < 0).all()
    assert errors["shaped"][0] < errors["nearest"][0] / 2 and errors["shaped"][-1] > errors["nearest"][-1]
    assert scores["shaped"] < 0.6 * scores["nearest"]
    _, _, none = error_by_direction(rows=64, passes=0)
    assert none["shaped"] == none["nearest"]
