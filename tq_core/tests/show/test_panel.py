"""Panels: a move reaches the kernels and the page, and nothing grows with the number of moves."""

from __future__ import annotations

import gc
import resource
import sys
from typing import Any

import ipywidgets as widgets
import numpy as np
import pytest
from matplotlib.figure import Figure
from traitlets import TraitError

from tq_core.kernels.backend import get_backend
from tq_core.model.fixture import make_fixture
from tq_core.show.attention import LayerBench
from tq_core.show.book_panel import BookPanel
from tq_core.show.choice import Choice
from tq_core.show.dial_panel import DialPanel
from tq_core.show.layer_panel import LayerPanel
from tq_core.show.panel import Panel


class CountingBackend:
    """A real backend that counts its calls by kernel."""

    def __init__(self) -> None:
        self._backend = get_backend("numpy")
        self.name = self._backend.name
        self.calls: dict[str, int] = {}

    def call(self, kernel: str, **arguments: Any) -> None:
        self.calls[kernel] = self.calls.get(kernel, 0) + 1
        self._backend.call(kernel, **arguments)


def small_bench(backend: Any = None) -> LayerBench:
    f = make_fixture(n_tokens=72)
    return LayerBench(f.queries, f.keys, f.values, backend)


def test_bits_slider_runs_the_encoder() -> None:
    backend = CountingBackend()
    panel = Panel(BookPanel(backend))
    before, picture = dict(backend.calls), panel._picture.value
    panel.set(bits=4.0)
    assert backend.calls["encode_rows"] == before["encode_rows"] + 1
    assert panel._picture.value != picture
    assert "4.0 bits" in panel._readout.value
    assert panel.numbers["error"] == pytest.approx(panel.numbers["closed form D"], rel=0.1)


def test_layer_sliders_run_the_cache_kernels() -> None:
    backend = CountingBackend()
    panel = Panel(LayerPanel(small_bench(backend)))
    for move, kernels in (
        ({"key_bits": 2.0}, ("append_keys", "score_keys")),
        ({"value_bits": 2.0}, ("append_values", "attend_packed")),
    ):
        backend.calls.clear()
        panel.set(**move)
        assert all(backend.calls.get(kernel, 0) > 0 for kernel in kernels), (move, backend.calls)


def test_fewer_key_bits_mean_less_rank_agreement_and_fewer_stored_bits() -> None:
    panel = Panel(LayerPanel(small_bench()))
    seen = []
    for bits in (4.0, 3.0, 2.0):
        panel.set(key_bits=bits, window=0)
        seen.append((panel.numbers["rank agreement"], panel.numbers["stored bits per channel"]))
    assert seen == sorted(seen, reverse=True)


def test_kernels_of_all_arms_have_run_before_the_first_move() -> None:
    backend = CountingBackend()
    Panel(LayerPanel(small_bench(backend)))
    assert {"score_keys", "score_affine", "sum_affine"} <= set(backend.calls)


def test_window_points_lie_on_the_diagonal() -> None:
    view = LayerPanel(small_bench())
    panel = Panel(view)
    panel.set(key_bits=2.0, window=32)
    exact, cached = view._recent.get_data()
    assert len(exact) >= 32
    np.testing.assert_allclose(cached, exact, atol=0.02)
    exact, cached = view._coded.get_data()
    assert np.abs(np.asarray(cached) - exact).max() > 0.1


def test_a_setting_that_the_arm_refuses_is_said_and_the_panel_lives_on() -> None:
    panel = Panel(LayerPanel(small_bench()))
    panel.set(key_bits=3.5)
    panel.set(arm="kivi-control")
    assert 'role="alert"' in panel._readout.value
    assert "key_bits" in panel._readout.value
    panel.set(key_bits=3.0)
    assert 'role="status"' in panel._readout.value


def test_a_move_in_the_page_is_a_move_of_the_panel() -> None:
    panel = Panel(DialPanel(small_bench()))
    choice = panel._choices["bits"]
    choice.set_state({"index": choice.options.index("4.0")})  # what the page sends
    assert panel.settings == {"bits": 4.0}
    assert "4.0 bits" in panel._readout.value
    panel.set(bits=2.0)
    assert choice.options[choice.index] == "2.0"
    assert choice.label  # what a screen reader calls it


def test_a_value_that_is_not_offered_is_refused() -> None:
    choice = Choice("bits", (2.0, 3.0), 3.0)
    with pytest.raises(TraitError, match="bits: expected one of"):
        choice.value = 5.0
    with pytest.raises(TraitError, match="bits: expected a place below 2"):
        choice.index = 2
    assert (choice.value, choice.index) == (3.0, 1)
    choice.offer((3.0, 4.0, 5.0))
    assert (choice.value, choice.index, choice.options) == (3.0, 0, ["3.0", "4.0", "5.0"])
    choice.offer(("a", "b"))
    assert (choice.value, choice.index) == ("a", 0)


def test_presets_leave_the_figure_at_the_sliders_settings() -> None:
    panel = Panel(DialPanel(small_bench()))
    picture = panel._picture.value
    columns, rows = panel.preset_table()
    assert len(rows) == 3
    assert all(len(row) == len(columns) for row in rows)
    assert panel._picture.value == picture


def resident_kib() -> int:
    """Memory of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() // 1024


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="not exercised: needs /proc")
@pytest.mark.slow
def test_200_moves_leave_no_figures_widgets_or_memory_behind() -> None:
    panel = Panel(LayerPanel(small_bench()))
    moves = [{"key_bits": k, "value_bits": v} for k in (2.0, 3.0, 4.0) for v in (2.0, 3.0, 4.0)]

    def move(times: int) -> None:
        for i in range(times):
            panel.set(**moves[i % len(moves)], head=i % 6)
        gc.collect()

    def counts() -> tuple[int, int]:
        figures = sum(isinstance(o, Figure) for o in gc.get_objects())
        return figures, len(widgets.widget._instances)

    move(50)
    before, memory, done = counts(), resident_kib(), panel.moves
    move(200)
    assert panel.moves >= done + 200
    assert counts() == before
    assert resident_kib() - memory < 8 * 1024


def test_closing_frees_the_widgets() -> None:
    bench = small_bench()
    alive = len(widgets.widget._instances)
    panel = Panel(DialPanel(bench))
    assert len(widgets.widget._instances) > alive + 5
    panel.close()
    assert len(widgets.widget._instances) == alive
