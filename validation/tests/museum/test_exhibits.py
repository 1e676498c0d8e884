"""Every exhibit: with the fault its gate stops it, without the fault the gate lets it pass."""

from __future__ import annotations

import importlib
import re

import pytest

from tq_core.errors import ValueRangeError
from validation.museum.catalogue import EXHIBITS, NOT_EXERCISED, chosen, get
from validation.museum.exhibit import KINDS, Exhibit, Shown, show

# The gallery of public reports: every case is an exhibit, or is listed with the reason why it is none.
GALLERY = """A1 A2 A3 A4 A5 A6 A8 A9 A10 A11 A12 A15 B1 B2 B3 B5 B6 B8 B9 B11 C1 C3 C4 C6 C8 C9 C10 C13 D2 D3 D5
E1 E3 E4 E5 E6 E9 E10 E12 F1 F2 F3 F5 F6 F7 F8 F10 G1 G2 G3 G4 G6 G8 G9 H1 H2 H3 H4 H5""".split()
SLOW = {
    "A2",
    "A3",
    "A10",
    "A15",
    "B5",
    "C3",
    "C8",
    "E3",
    "E13",
    "F11",
    "F12",
    "F13",
    "F2",
    "G1",
    "G2",
    "G3",
    "G6",
    "M1",
    "M2",
    "M3",
}  # caches of many tokens, or many parity cases


@pytest.mark.parametrize(
    "exhibit", [pytest.param(e, id=e.id, marks=[pytest.mark.slow] if e.id in SLOW else []) for e in EXHIBITS]
)
def test_the_gate_stops_the_fault_and_nothing_else(exhibit: Exhibit) -> None:
    given = exhibit.given()
    sound = exhibit.stop.run(exhibit.right(given))
    assert not sound.stopped, sound.said
    caught = exhibit.stop.run(exhibit.faulty(given))
    assert caught.stopped, caught.said
    assert caught.said and caught.said != sound.said


def test_every_case_of_the_gallery_is_shown_or_listed_as_not_exercised() -> None:
    shown = [e.id for e in EXHIBITS]
    assert len(set(shown)) == len(shown) and not set(shown) & set(NOT_EXERCISED)
    assert set(GALLERY) <= {*shown, *NOT_EXERCISED}
    assert {name[0] for name in shown} == set(KINDS)
    assert all(len(why.split()) >= 5 for why in NOT_EXERCISED.values())


@pytest.mark.parametrize("where", sorted({e.stop.where for e in EXHIBITS}))
def test_gates_are_the_products_own(where: str) -> None:
    path, owner = where.split("."), None
    for cut in range(len(path) - 1, 0, -1):
        try:
            owner = importlib.import_module(".".join(path[:cut]))
        except ModuleNotFoundError:
            continue
        break
    assert owner is not None and "museum" not in where
    for name in path[cut:]:
        owner = getattr(owner, name)
    assert callable(owner)


def test_texts_are_sentences() -> None:
    for e in EXHIBITS:
        for text in (e.fault, e.value, *([e.note] if e.note else [])):
            assert text[0].isupper() or text[0].isdigit() or re.match(r"sqrt|f32", text), (e.id, text)
            assert text.endswith("."), (e.id, text)
        assert e.seen and not e.title.endswith(".")


def test_an_unknown_id_names_the_nearest() -> None:
    assert get("b1") is get("B1") and [e.id for e in chosen(["H2", "B9"])] == ["H2", "B9"]
    with pytest.raises(ValueRangeError, match="did you mean D2"):
        get("D2x")


@pytest.mark.slow
def test_running_twice_gives_the_same_numbers() -> None:
    for name in ("E9", "C9", "D5"):
        assert show(get(name)).as_dict() == show(get(name)).as_dict()


@pytest.fixture(scope="module")
def every() -> dict[str, Shown]:
    """All exhibits, run with their metrics."""
    return {e.id: show(e) for e in EXHIBITS}


@pytest.mark.slow
def test_metrics_disagree(every: dict[str, Shown]) -> None:
    """Each of these was found better, or no worse, by the first metrics, and worse by the second."""
    expected = {
        "A10": (
            {"mse", "cosine"},
            {"kl", "rank", "overlap"},
        ),  # less error, more divergence, other neighbours
        "C4": ({"mse", "cosine"}, {"kl", "rank", "top1"}),  # stored as well as ever
        "M1": ({"ppl_ratio"}, {"kl", "top1", "rank"}),  # better than uncompressed
        "M2": ({"ppl_ratio", "cosine", "overlap"}, {"kl", "top1"}),  # the same, with a perfect ranking
        "G6": ({"kl", "top1", "rank"}, {"cosine"}),  # the useless test looks best
        "A6": ({"mse", "kl"}, {"rank"}),  # least squares shrinks
    }
    for name, (fooled, not_fooled) in expected.items():
        assert fooled <= set(every[name].blind()), (name, every[name].blind())
        assert not not_fooled & set(every[name].blind()), (name, every[name].blind())
    for name in (
        "A4",
        "A8",
        "B3",
        "C4",
        "C1",
    ):  # the fault reaches what is read, not only what a decoder shows
        assert every[name].right.kl != every[name].faulty.kl, name
    assert every["M1"].faulty.cosine > 0.99 and every["M1"].faulty.ppl_ratio < 1 < 50 * every["M1"].faulty.kl
    assert every["M3"].faulty.kl < 0.02 / 50 and every["M3"].faulty.top1 < 0.9


@pytest.mark.slow
def test_every_metric_is_fooled_somewhere(every: dict[str, Shown]) -> None:
    fooled = {name for shown in every.values() for name in shown.blind()}
    assert fooled == {"mse", "cosine", "ppl_ratio", "kl", "top1", "rank", "overlap"}
    assert all(shown.works for shown in every.values())
