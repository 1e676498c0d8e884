"""The page of a report with a study: everything on it, in order, for every reader; and of one without."""

import re

import pytest

from validation import report
from validation.figures import all_figures
from validation.report.page import plain
from validation.report.samples import chosen
from validation.tests.pages import Page
from validation.tests.records import ARMS, WORKLOADS, make_record, make_samples


@pytest.fixture(scope="module")
def page(study_report):
    return Page((study_report / "report.html").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def visible(page):
    return " ".join("".join(page.text).split())


def test_the_sections_stand_in_the_reports_order(page):
    ids = [a["id"] for tag, a in page.tags if tag == "section"]
    assert ids[:6] == ["study", "gates", "workloads", "decisions", "comparisons", "trajectories"]
    assert ids[6:8] == ["replies", "samples"]
    assert ids[8:] == ["quality", "attention", "controls", "memory", "effect", "parity", "performance", "claims",
                       "not-shown", "configuration", "inputs", "environment"]  # fmt: skip
    assert [a["href"][1:] for a in page.all("a")] == ids


def test_the_verdict_has_words_and_an_icon(page, visible):
    assert visible.index("◐ INCOMPLETE: nothing failed") < visible.index("As registered")
    assert [a["class"] for t, a in page.tags if a.get("role") == "status"] == ["verdict incomplete"]


def test_every_fact_of_the_study_is_on_the_page(visible):
    record = make_record()
    for gate in record.gates:
        assert all(gate[k] in visible for k in ("claim", "evidence", "why", "command"))
    for w in record.workloads:
        assert all(w[k] in visible for k in ("title", "shows", "cannot_show"))
        assert w["information"]["evidence"] in visible
    assert "▔ At the ceiling. evidence for ceiling" in visible and "Can tell good from bad" in visible
    for budget in record.study["budgets"]:
        assert budget["why"] in visible
    assert "at the ceiling" in visible and "they differ" in visible and "2 of 12 prompts" in visible
    assert record.study["sha256"] in visible and "tokens/s" in visible


def test_values_stand_in_their_workloads_table(page):
    assert ["structured-turbo", "12", "0.0040.003 to 0.005", "0.99870.9977 to 0.9997"] in page.rows
    assert ["planted-bad", "12", "1.91.425 to 2.375", "0.36670.3663 to 0.367", "0"] in page.rows
    row = next(r for r in page.rows if r[0] == "chat: kl_mean" and r[1] == "planted-bad")
    assert row[2:6] == ["✘ fail", "1.9", "2.28", "0.02"]
    scored = [r for r in page.rows if len(r) == 10 and r[0] == "chat" and r[1] in (ARMS[1], "reference")]
    assert scored[0][2:] == [
        "12",
        "40",
        "10, 1, 0, 1",
        "0.875",
        "0 in 0 replies",
        "1",
        "0 of 12 replies",
        "0",
    ]
    assert scored[1][2:] == ["12", "48", "0, 5, 0, 7", "0", "9 in 4 replies", "0.25", "11 of 12 replies", "0"]


def test_the_page_is_marked_up_for_every_reader_and_needs_nothing(page):
    assert page.all("html") == [{"lang": "en"}]
    images = page.all("img")
    assert len(images) == 7 and all(len(i["alt"]) > 60 and i["src"].startswith("data:") for i in images)
    assert all(th.get("scope") in ("row", "col") for th in page.all("th"))
    assert len(page.all("caption")) == len(page.all("table"))
    for _, attrs in page.tags:
        assert attrs.get("href", "#").startswith("#") and "onclick" not in attrs


def test_a_run_that_departs_from_its_study_says_so():
    record = make_record()
    record.study["exploratory"] = ["8 prompts instead of 64"]
    visible = "".join(Page(report.render_html({**record.as_dict(), "figures": []}, [])).text)
    assert (
        "Exploratory" in visible and "8 prompts instead of 64" in visible and "As registered" not in visible
    )


def test_without_a_study_its_sections_are_left_out():
    empty = {
        k: [] for k in ("workloads", "decisions", "comparisons", "trajectories", "replies", "performance")
    }
    page = Page(report.render_html({**make_record(study=None, **empty).as_dict(), "figures": []}, []))
    ids = [a["id"] for tag, a in page.tags if tag == "section"]
    assert ids[:2] == ["gates", "quality"] and [a["href"][1:] for a in page.all("a")] == ids


def test_samples_are_chosen_by_their_kl_and_cannot_become_markup(page, visible):
    few = chosen(make_samples())
    assert [(s["prompt"], s["which"]) for s in few[:3]] == [("chat-11", "largest"), ("chat-5", "middle"), ("chat-0", "smallest")]  # fmt: skip
    assert len(few) == 3 * len(WORKLOADS) and all([a["arm"] for a in s["arms"]] == list(ARMS) for s in few)
    assert "the the the <b>the</b>" in visible and not page.all("b")
    one = chosen(make_samples()[:2])
    assert [s["which"] for s in one] == ["largest"]


def test_replies_with_odd_characters_are_shown_by_their_numbers(tmp_path, monkeypatch):
    assert plain("a\x1b[31m\x00\n\tb\u202e") == "a\\u001b[31m\\u0000\n\tb\\u202e"
    assert plain("x" * 2000).endswith("(800 characters more)")
    monkeypatch.setattr(report.folder, "all_figures", lambda data: [])
    odd = {**make_samples()[0], "reply": "half a pair \udc80", "reply_reference": None}
    paths = report.write(make_record(), tmp_path / "out", [odd])
    assert "\\udc80" in paths["html"].read_text(encoding="utf-8")
    assert report.check_folder(tmp_path / "out")


def test_figures_have_numbers_words_and_no_clock():
    data = make_record().as_dict()
    figures = {f.name: f for f in all_figures(data)}
    assert list(figures)[4:] == ["decisions", "workload-kl", "survival-chat"]
    assert figures["decisions"].rows[1] == ["chat: kl_mean, planted-bad", 1.9, 2.28, 0.02, "nats", "fail"]
    assert len(figures["decisions"].rows) == 3  # the one that was not exercised has no loss to draw
    assert "chat kl_mean planted-bad: loss 1.9, bound 2.3, budget 0.02 nats, fail" in figures["decisions"].alt
    assert figures["workload-kl"].rows[0] == ["chat", "structured-turbo", 0.004, 0.003, 0.005]
    assert figures["survival-chat"].rows[1] == [4, 0.9, 0.9, 0.0, 0.0]
    again = {f.name: f for f in all_figures(data)}
    for name, figure in figures.items():
        assert (
            figure.svg == again[name].svg and b"<dc:date>" not in figure.svg and b"<image" not in figure.svg
        )
        assert all(len(r) == len(figure.columns) for r in figure.rows)


def test_what_lies_beyond_the_axis_is_told_in_the_figure():
    svg = next(f for f in all_figures(make_record().as_dict()) if f.name == "decisions").svg.decode()
    assert re.search(r">bound 114 →<", svg) and ">budget<" in svg


def test_many_documents_and_arms_are_drawn_too():
    record = make_record()
    arms = [f"arm-{i}" for i in range(11)]
    record.quality["documents"] = [
        {
            "document": f"d{i}",
            "style": "s",
            "tokens_scored": 9,
            "arms": {a: {"kl_mean": 0.01 * i} for a in ARMS},
        }
        for i in range(50)
    ]
    record.workloads[0]["arms"] = [
        {"arm": a, "metrics": [{"metric": "kl_mean", "value": 0.1, "interval": None}]} for a in arms
    ]
    figures = {f.name: f for f in all_figures(record.as_dict())}
    assert figures["kl-documents"].title == "Mean KL per document, the 40 largest of 50"
    assert len(figures["kl-documents"].rows) == 50 and len(figures["workload-kl"].rows) == 11 + 4


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "–"), (0, "0"), (0.0, "0"), (1234567, "1,234,567"), (0.01234567, "0.01235"), (1.5e-7, "1.50e-07"), ("x", "x"),
     (12.3456, "12.35"), (0.03, "0.03"), (2500.5, "2,500.5")],
)  # fmt: skip
def test_numbers_are_shown(value, shown):
    assert report.show(value) == shown
