"""The budget slider names the best row that fits."""

from __future__ import annotations

import numpy as np
import pytest

from tq_core.errors import ValueRangeError
from tq_core.show.family_panel import FULL_PAGES, FamilyPanel, front
from tq_core.show.panel import Panel

ROWS = [
    {
        "codec": "odd" if b == 3.0 else "even",
        "label": f"arm {b}",
        "bits_all_in": b,
        "bits_at_length": {"512": b + 1, "8192": b + 0.1},
        "kl_mean": kl,
        "top1_agreement": 0.9,
    }
    for b, kl in ((2.25, 0.2), (3.0, 0.3), (3.4, 0.05), (16.0, 1e-8))
]


def test_the_best_that_fits_is_named() -> None:
    panel = Panel(FamilyPanel(ROWS))
    assert panel.numbers["best arm"] == "arm 3.4"
    panel.set(budget=3.0)
    assert panel.numbers["best arm"] == "arm 2.25", "the arm with 3.0 bits fits and is worse"
    picture = panel._picture.value
    panel.set(context="512")
    assert panel.numbers["best arm"] == "none" and "nothing fits" in panel._readout.value
    assert panel._picture.value != picture


def test_contexts_come_from_the_rows_in_order() -> None:
    view = FamilyPanel(ROWS)
    assert view.controls[2].options == (FULL_PAGES, "512", "8192")
    assert all("bits per channel" in view.alt(p, view.update(**p)) for p in view.presets)


def test_rows_are_needed() -> None:
    with pytest.raises(ValueRangeError, match="rows"):
        FamilyPanel([])


def test_one_codec_is_shown_beside_the_best() -> None:
    view = FamilyPanel(ROWS)
    panel = Panel(view)
    assert view.controls[1].options == ("any", "even", "odd")
    assert not view._own.get_visible()
    panel.set(codec="odd")
    assert panel.numbers["best arm"] == "arm 3.4"
    assert "odd: arm 3.0, 3.00 bits, KL 0.3" in panel._readout.value
    np.testing.assert_array_equal(np.ravel(view._own.get_data()), [3.0, 0.3])
    panel.set(budget=2.8)
    assert "odd: nothing that fits" in panel._readout.value
    assert not view._own.get_visible() and view._best.get_visible()


def test_the_front_has_the_rows_that_no_row_beats() -> None:
    bits, loss = np.array([3.0, 2.0, 4.0, 3.0, 5.0]), np.array([0.2, 0.5, 0.3, 0.1, 0.05])
    np.testing.assert_array_equal(front(bits, loss), [[2.0, 3.0, 5.0], [0.5, 0.1, 0.05]])
    view = FamilyPanel(ROWS)
    corners = np.column_stack(view._front.get_data())
    for budget in (2.5, 3.0, 3.5, 8.0):
        view.update(budget=budget, codec="any", context=FULL_PAGES)
        assert [float(v[0]) for v in view._best.get_data()] in corners.tolist()
