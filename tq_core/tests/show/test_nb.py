"""The notebook's own vocabulary: what is displayed, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tq_core.errors import ValueRangeError
from tq_core.show import figures, html, nb


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """What was displayed: (bundle, metadata)."""
    found: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def display(bundle: dict[str, Any], raw: bool = False, metadata: Any = None, **_: Any) -> None:
        found.append((bundle, metadata or {}))

    monkeypatch.setattr(nb, "display", display)
    return found


def test_a_figure_comes_with_words_and_numbers(shown: list[Any]) -> None:
    nb.show(
        figures.bars(["a"], [1.0], "ms"),
        alt="One bar of one millisecond.",
        columns=["name", "ms"],
        rows=[["a", 1.0]],
    )
    (picture, metadata), (words, _) = shown
    assert picture["text/plain"] == "One bar of one millisecond."
    assert metadata["image/png"]["alt"] == "One bar of one millisecond."
    assert metadata[nb.LIVE]
    assert "<details>" in words["text/html"]
    assert "One bar of one millisecond." in words["text/html"]
    assert '<th scope="row"' in words["text/html"]


@pytest.mark.parametrize("alt", ["", "figure", "a plot of data"])
def test_a_figure_without_a_real_description_is_refused(alt: str, shown: list[Any]) -> None:
    with pytest.raises(ValueRangeError, match="alt"):
        nb.show(figures.bars(["a"], [1.0], "ms"), alt=alt)
    assert not shown


def test_claims_say_how_each_is_known(shown: list[Any]) -> None:
    nb.claims(measured=["a"], calculated=["b"], papers={"2504.19874": "c"})
    ((bundle, _),) = shown
    assert (
        bundle["text/plain"].split()
        == "how we know claim measured a calculated b paper: 2504.19874 c".split()
    )
    with pytest.raises(ValueRangeError, match="claims"):
        nb.claims()


def test_a_curve_comes_with_its_table(shown: list[Any]) -> None:
    nb.curve([1, 2], {"a": [0.5, 0.25]}, ("bits", "error"), alt="Error falls with every bit.", form=".2f")
    assert shown[1][0]["text/plain"].splitlines()[1:] == ["bits  1     2", "a     0.50  0.25"]


def test_tables_escape_their_text() -> None:
    made = html.table(["<a>"], [["<script>", 1.23456]], "c & d")
    assert "<script>" not in made
    assert "&lt;script&gt;" in made
    assert "c &amp; d" in made
    assert "1.235" in made


def test_text_table_lines_up() -> None:
    assert html.text_table(["a", "bb"], [["xxx", 1], ["y", 22]]).splitlines() == [
        "a    bb",
        "xxx  1",
        "y    22",
    ]


def test_fast_follows_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, expected in (("", False), ("0", False), ("1", True)):
        monkeypatch.setenv(nb.FAST_VARIABLE, value)
        assert nb.fast() is expected
