"""Figures: text alternatives, equal bytes for equal content, frames that hold still and moving parts."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from matplotlib import pyplot

from tq_core.show import figures, plates


def drawn(x: float = 1.0) -> plates.LiveSvg:
    figure, (axes,) = plates.plate(3, 2)
    axes.set(xlim=(0, 10), ylim=(0, 10), xlabel="distance (tokens)", ylabel="error")
    (line,) = axes.plot([x], [2], "o", label="moving")
    axes.plot([0, 10], [0, 10], label="still")
    axes.legend()
    return plates.LiveSvg(figure, [line], "salt")


def test_svg_has_a_name_for_screen_readers_and_a_white_plate() -> None:
    text = plates.svg(figures.bars(["a"], [1.0], "ms"), 'bars of "a" & b')
    root = ElementTree.fromstring(text)
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-label"] == 'bars of "a" & b'
    assert "fill: #ffffff" in text


def test_layers_have_one_size_and_the_moving_one_is_named() -> None:
    live = drawn()
    still, frame = ElementTree.fromstring(live.still), ElementTree.fromstring(live.frame("first"))
    assert frame.attrib["aria-label"] == "first" and still.attrib["aria-hidden"] == "true"
    assert [still.attrib[k] for k in ("viewBox", "width")] == [frame.attrib[k] for k in ("viewBox", "width")]
    texts = {"".join(e.itertext()).strip() for e in still.iter("{http://www.w3.org/2000/svg}text")}
    assert {"distance (tokens)", "error", "still"} <= texts


def test_a_frame_holds_the_moving_part_alone_and_no_plate() -> None:
    live = drawn()
    still, first = live.still, live.frame("same")
    live._moving[0].set_data([7], [2])  # type: ignore[attr-defined]
    assert live.frame("same") != first and live.still == still
    assert len(first) < len(still) / 2 and "#ffffff" not in first and "#ffffff" in still


def test_equal_content_gives_equal_bytes() -> None:
    assert drawn().frame("x") == drawn().frame("x")
    one, two = (plates.png(figures.bars(["a", "b"], [1.0, 2.0], "ms")) for _ in range(2))
    assert one == two
    assert b"Software" not in one


def test_no_figure_is_registered_with_pyplot() -> None:
    drawn()
    assert pyplot.get_fignums() == []


@pytest.mark.parametrize("count", [2, 5, 6])
def test_series_differ_in_more_than_colour(count: int) -> None:
    figure = figures.lines([1, 2], {str(i): [i, i] for i in range(count)}, "x (bits)", "y (nats)")
    lines = figure.axes[0].get_lines()
    assert len({(line.get_marker(), line.get_linestyle()) for line in lines}) == count
