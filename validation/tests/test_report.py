"""The report: valid against its schema, self-contained, readable, the same every time, never half-written."""

import json

import jsonschema
import pytest

from tq_core.errors import ValueRangeError
from validation import report
from validation.figures import all_figures
from validation.parity_report import Certificate, ParityRow
from validation.schema import SCHEMA_FILE, Record, canonical, result_digest
from validation.tests.pages import Page

pytestmark = pytest.mark.slow  # a study of the tiny model comes first


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "out"


@pytest.fixture(scope="module")
def written(_small_record, tmp_path_factory):
    """Paths of a report that tests only read."""
    return report.write(_small_record, tmp_path_factory.mktemp("report") / "out")


def schema():
    return json.loads(SCHEMA_FILE.read_text())


@pytest.fixture
def page(written):
    return Page(written["html"].read_text(encoding="utf-8"))


def test_json_fits_its_schema(written):
    jsonschema.Draft202012Validator.check_schema(schema())
    stored = json.loads(written["json"].read_text())
    jsonschema.validate(stored, schema(), jsonschema.Draft202012Validator)
    assert result_digest(stored) == stored["result_digest"]
    assert report.check_folder(written["json"].parent) == stored


def test_json_with_a_certificate_fits_too(findings, tiny, folder):
    from validation.runner import make_record

    row = ParityRow("rotate", "native-scalar", 3, 100, 1, 0)
    missing = ({"name": "native-avx2", "reason": "gone"},)
    differs = {
        "kernel": "rotate",
        "case": "16x1x0",
        "backend": "native-scalar",
        "error": "KernelError: a trap",
    }
    findings.certificate = Certificate(
        "subset", 3, 10, ("numpy",), missing, (row,), (differs,), {}, not_exercised=missing
    )
    made = make_record(findings, tiny, "test", "tq validate", "2000-01-01T00:00:00Z", 1.0)
    paths = report.write(made, folder)
    jsonschema.validate(json.loads(paths["json"].read_text()), schema(), jsonschema.Draft202012Validator)
    assert made.status == "fail" and "native-avx2" in paths["html"].read_text()


@pytest.mark.parametrize(
    "change", [{"status": "good"}, {"gates": []}, {"result_digest": "x"}, {"unknown": 1}]
)
def test_the_schema_refuses_what_it_should(written, change):
    data = {**json.loads(written["json"].read_text()), **change}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, schema(), jsonschema.Draft202012Validator)


def test_the_page_needs_nothing_from_outside(page, written):
    for tag, attrs in page.tags:
        for name in ("src", "href", "data", "action", "srcset", "poster"):
            if name in attrs:
                assert attrs[name].startswith(("data:", "#")), (tag, attrs[name])
        assert tag not in ("link", "iframe", "object", "embed", "base")
    style = written["html"].read_text().split("<style>")[1].split("</style>")[0]
    assert "url(" not in style and "@import" not in style


def test_the_page_is_marked_up_for_every_reader(page):
    assert page.all("html") == [{"lang": "en"}]
    assert len(page.all("img")) >= 5 and all(len(i["alt"]) > 60 for i in page.all("img"))
    assert all(th.get("scope") in ("row", "col") for th in page.all("th"))
    assert len(page.all("caption")) == len(page.all("table")) >= 12
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids)) and {a["href"][1:] for a in page.all("a")} <= set(ids)


def test_light_dark_and_print(written):
    text = written["html"].read_text()
    assert "prefers-color-scheme: dark" in text and "@media print" in text


def test_the_verdict_comes_first_and_in_words(page, record):
    visible = " ".join("".join(page.text).split())
    assert visible.index(record.verdict[0]) < visible.index("Gates")
    for sentence in (*record.verdict, *record.not_shown, *record.not_exercised):
        assert " ".join(sentence.split()) in visible
    assert record.status.upper() in record.verdict[0]
    assert "EXPLORATORY" in record.verdict[1] and "NOT exercised" in record.verdict[2]


def test_every_gate_and_arm_is_on_the_page(page, record):
    visible = "".join(page.text)
    for gate in record.gates:
        assert gate["claim"] in visible and gate["evidence"] in visible and gate["why"] in visible
    for name in ("structured-turbo", "kivi-control", "planted-bad", "no-op", "fp32", "q8_0"):
        assert name in visible


def test_the_data_inside_the_page_is_the_json_file(page, written):
    assert json.loads("".join(page.scripts)) == json.loads(written["json"].read_text())


def test_text_from_outside_cannot_become_markup(record, folder):
    record.run["command"] = "tq </script><script>alert(1)</script>"
    record.inputs[0]["source"] = "<b onclick='x'>"
    page = Page(report.write(record, folder)["html"].read_text())
    assert len(page.all("script")) == 1 and not page.all("b")


def test_same_record_same_digest_whatever_the_clock(record):
    again = Record(**{**vars(record), "run": {"command": "other"}, "measurements": []})
    assert again.as_dict()["result_digest"] == record.as_dict()["result_digest"]
    changed = Record(**{**vars(record), "status": "other"})
    assert changed.as_dict()["result_digest"] != record.as_dict()["result_digest"]


def test_figures_repeat_byte_for_byte_and_carry_no_clock(record):
    first, again = all_figures(record.as_dict()), all_figures(record.as_dict())
    for a, b in zip(first, again, strict=True):
        assert a.svg == b.svg and b"<dc:date>" not in a.svg and b"<image" not in a.svg
        assert a.rows and all(len(r) == len(a.columns) for r in a.rows)


def test_canonical_json_has_one_form_and_no_nan():
    assert canonical({"b": 1, "a": [1.5, None]}) == '{"a":[1.5,null],"b":1}'
    with pytest.raises(ValueError, match="JSON"):
        canonical({"a": float("nan")})


def test_a_file_in_the_place_of_the_folder_is_refused(record, tmp_path):
    (tmp_path / "out").write_text("mine")
    with pytest.raises(ValueRangeError, match="out: expected a folder"):
        report.write(record, tmp_path / "out")
    assert (tmp_path / "out").read_text() == "mine"
