"""The budget slider names the best row that fits."""

from __future__ import annotations

import pytest

from tq_core.errors import ValueRangeError
from tq_core.show.family_panel import FULL_PAGES, FamilyPanel
from tq_core.show.panel import Panel

ROWS = [
    {
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
    assert view.controls[1].options == (FULL_PAGES, "512", "8192")
    assert all("bits per channel" in view.alt(p, view.update(**p)) for p in view.presets)


def test_rows_are_needed() -> None:
    with pytest.raises(ValueRangeError, match="rows"):
        FamilyPanel([])
