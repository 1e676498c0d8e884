"""Published memory figures: every one is computed again, and the verdicts can fail."""

from __future__ import annotations

from collections import Counter

import pytest

from tq_core.errors import ValueRangeError
from validation.budget import published
from validation.budget.published import AGREES, UNEXPLAINED, WRONG, Figure, check_entry, entries

IDS = [f"{e['table']}: {e['item']}" for e in entries()]


@pytest.mark.parametrize("entry", entries(), ids=IDS)
def test_published_figure(entry) -> None:
    made = check_entry(entry)
    if "right" in entry:
        assert made.verdict == WRONG and entry["why"]
        assert made.right.removeprefix(entry.get("rule", "") + " ") == entry["right"]
    elif "unexplained" in entry:
        assert made.verdict == UNEXPLAINED
    else:
        assert made.verdict == AGREES


def test_every_table_of_the_sources_is_there() -> None:
    assert len(IDS) == len(set(IDS))
    counts = Counter(entry["source"] for entry in entries())
    assert counts == {"design study": 8, "aither-kvcache 2.4.0 README": 89}
    assert published.unexpected() == []
    assert (
        len(published.select(WRONG)) + len(published.select(AGREES)) + len(published.select(UNEXPLAINED))
        == 97
    )


@pytest.mark.parametrize("index", range(0, 97, 6))
def test_a_digit_changed_is_noticed(index: int) -> None:
    """Plant a wrong figure: one unit in the last printed digit on either side changes an agreeing verdict."""
    entry = entries()[index]
    if check_entry(entry).verdict != AGREES or "rule" in entry or "slack" in entry:
        entry = entries()[0]
    figure = Figure.read(entry["published"])
    for step in (-2, 2):
        moved = figure.form(figure.value + step * figure.unit * 10**-figure.decimals)
        assert check_entry({**entry, "published": moved}).verdict == WRONG


def test_the_layers_of_qwen_decide() -> None:
    """The README's row is what 40 layers would take."""
    at = 32768 * 2 * 40 * 8 * 128
    row = {e["item"]: e for e in entries() if e["table"].startswith("KV Cache Memory by Model")}
    assert Figure.read(row["Qwen2.5 14B, FP16"]["published"]).holds(2.0 * at)
    assert published.model_bytes("qwen-14b", 32768, "FP16") == 2.0 * at * 48 / 40


@pytest.mark.parametrize(
    "text, value, low, shown",
    [
        ("4.0 GB", 4 * 2**30, 3.95 * 2**30, "4.0 GB"),
        ("1.26M tokens", 1.26e6, 1.255e6, "1.26M tokens"),
        ("3.8x", 3.8, 3.75, "3.8x"),
        ("0.0625 bits", 0.0625, 0.06245, "0.0625 bits"),
        ("64 KiB", 65536, 65024, "64 KiB"),
    ],
)
def test_figures_are_read_as_printed(text: str, value: float, low: float, shown: str) -> None:
    figure = Figure.read(text)
    assert (figure.value, figure.low) == pytest.approx((value, low))
    assert figure.form(figure.value) == shown
    assert figure.holds(low) and not figure.holds(low * 0.999)


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueRangeError, match="figure"):
        Figure.read("about four")
    with pytest.raises(ValueRangeError, match="verdict"):
        published.select("maybe")
