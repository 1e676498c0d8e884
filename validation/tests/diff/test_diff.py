"""`tq diff`: every verdict, made by editing a written report; damaged and hostile input."""

import json
import shutil

import pytest

from validation import cli, report
from validation.diff import load as loading
from validation.diff.compare import compare
from validation.diff.load import load
from validation.diff.text import as_text, printable
from validation.report import files, folder, reading
from validation.schema import result_digest
from validation.tests.pages import Page


@pytest.fixture
def edited(study_report, tmp_path):
    """Write report.json alone, after an edit, with the digest that belongs to it; returns its path."""

    def make(change, name="b.json", seal=True):
        data = json.loads((study_report / "report.json").read_text())
        change(data)
        if seal:
            data["result_digest"] = result_digest(data)
        (tmp_path / name).write_text(json.dumps(data))
        return tmp_path / name

    return make


def metric(data, workload, arm, name):
    w = next(w for w in data["workloads"] if w["name"] == workload)
    a = next(a for a in w["arms"] if a["arm"] == arm)
    return next(m for m in a["metrics"] if m["metric"] == name)


def gate(data, name):
    return next(g for g in data["gates"] if g["name"] == name)


def shift(data, factor):
    m = metric(data, "chat", "structured-turbo", "kl_mean")
    m["value"] *= factor
    m["interval"].update(low=m["interval"]["low"] * factor, high=m["interval"]["high"] * factor)


def decide(data, **changes):
    data["decisions"][0].update(changes)


def accuracy(data, by):
    metric(data, "retrieval", "structured-turbo", "accuracy")["value"] += by


def ruin(data):
    m = metric(data, "chat", "planted-bad", "kl_mean")
    m.update(value=9.0, interval={"low": 8.0, "high": 10.0})


def more_bytes(data):
    data["memory"]["arms"][1]["total"] += 16


CASES = {
    "new fail": (lambda d: gate(d, "kl").update(status="fail", value=0.5), 1, "regressed", "new fail"),
    "gate no longer exercised": (lambda d: gate(d, "kl").update(status="not exercised", value=None), 1, "regressed", "missing"),
    "gate gone": (lambda d: d["gates"].remove(gate(d, "kl")), 1, "regressed", "missing"),
    "gate now exercised": (lambda d: gate(d, "browser").update(status="pass", value=0.0), 0, "same", "new"),
    "gate now exercised and fails": (lambda d: gate(d, "browser").update(status="fail", value=1.0), 1, "regressed", "new fail"),
    "loss beyond the bound": (lambda d: decide(d, loss=0.006, bound=0.007), 1, "regressed", "regressed"),
    "loss within the bound": (lambda d: decide(d, loss=0.0045, bound=0.0055), 0, "same", "same"),
    "loss below": (lambda d: decide(d, loss=0.002, bound=0.003), 0, "improved", "improved"),
    "budget broken": (lambda d: decide(d, status="fail"), 1, "regressed", "regressed"),
    "decision not exercised": (lambda d: decide(d, status="not exercised", loss=None, bound=None), 1, "regressed", "missing"),
    "decision gone": (lambda d: d["decisions"].pop(0), 1, "regressed", "missing"),
    "decision now exercised": (lambda d: d["decisions"][2].update(status="pass", loss=0.001, bound=0.002), 0, "same", "new"),
    "decision now exercised and fails": (lambda d: d["decisions"][2].update(status="fail", loss=0.1, bound=0.2), 1, "regressed", "regressed"),
    "metric worse beyond the intervals": (lambda d: shift(d, 2), 1, "regressed", "regressed"),
    "metric better beyond the intervals": (lambda d: shift(d, 0.5), 0, "improved", "improved"),
    "metric worse within the intervals": (lambda d: shift(d, 1.1), 0, "same", "same"),
    "accuracy falls by more than the budget": (lambda d: accuracy(d, -0.1), 1, "regressed", "regressed"),
    "accuracy falls within the budget": (lambda d: accuracy(d, -0.04), 0, "same", "same"),
    "accuracy rises by more than the budget": (lambda d: accuracy(d, 0.1), 0, "improved", "improved"),
    "metric gone": (lambda d: metric(d, "chat", "structured-turbo", "kl_mean").update(value=None), 1, "regressed", "missing"),
    "control changes": (ruin, 0, "same", "changed"),
    "more bytes": (more_bytes, 1, "regressed", "regressed"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_every_verdict(study_report, edited, case, capsys):
    change, code, outcome, verdict = CASES[case]

    first, second = study_report, edited(change)
    assert cli.main(["diff", str(first), str(second), "--json"]) == code
    told = json.loads(capsys.readouterr().out)
    assert told["outcome"] == outcome and told["exit"] == code
    moved = [r["verdict"] for r in (*told["gates"], *told["rows"]) if r["verdict"] != "same"]
    assert moved == ([verdict] if verdict != "same" else [])


def test_the_other_way_round_a_new_fail_is_fixed(edited, study_report, capsys):
    worse = edited(lambda d: (gate(d, "kl").update(status="fail"), decide(d, status="fail")))
    assert cli.main(["diff", str(worse), str(study_report)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("IMPROVED: 2 better") and "fixed" in said and "holds its budget" in said
    both = compare(
        load(worse), load(edited(lambda d: gate(d, "kl").update(status="fail", value=0.3), "c.json"))
    )
    assert [g["verdict"] for g in both.gates if g["name"] == "kl"] == ["still fails"]


def test_the_same_results_are_one_line_from_all_three_forms(study_report, edited, capsys):
    def elsewhere(data):
        data["run"]["machine"]["cpu"] = "another"
        data["performance"] = []

    forms = (study_report, study_report / "report.json", study_report / "report.html", edited(elsewhere))
    for form in forms:
        assert cli.main(["diff", str(study_report), str(form)]) == 0
        said = capsys.readouterr().out
        assert said.startswith("identical results") and said.count("\n") == 1


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda d: d["study"].update(sha256="0" * 64), "study: sha256"),
        (lambda d: d["study"]["exploratory"].append("fewer prompts"), "study: exploratory"),
        (lambda d: d.update(study=None), "study: exploratory, name"),
        (lambda d: d["profile"]["plan"].update(length=256), "profile: plan.length"),
        (lambda d: d["inputs"][0].update(tokens_sha256="0" * 64), "inputs: chat-0"),
        (lambda d: d["inputs"].pop(), "inputs: code-11"),
        (lambda d: d["workloads"][1].update(digest="0" * 64), "workloads: retrieval.digest"),
    ],
)
def test_reports_about_different_things_are_compared_by_force_only(
    study_report, edited, change, named, capsys
):
    other = edited(change)
    assert cli.main(["diff", str(study_report), str(other)]) == 3
    said = capsys.readouterr().out
    assert said.startswith("NOT COMPARABLE") and named in said
    assert cli.main(["diff", str(study_report), str(other), "--force", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["outcome"] == "same" and told["forced"] and told["differs"]


def slower(data, value=10.0, **changes):
    gate(data, "kl").update(value=0.0041)
    data["performance"][0].update(value=value, **changes)


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({"value": 10.0}, "worse"),
        ({"value": 30.0}, "better"),
        ({"value": 20.5}, "noise: within the deviation"),
        ({"value": 10.0, "n": 5}, "noise: fewer than 9 repeats"),
        ({"value": 10.0, "median_absolute_deviation": None}, "not judged: no deviation"),
    ],
)
def test_times_are_compared_on_one_machine_and_decide_nothing(study_report, edited, changes, verdict, capsys):
    other = edited(lambda d: slower(d, **changes))
    found = compare(load(study_report), load(other))
    assert found.code == 0 and found.measurements[0]["verdict"] == verdict and not found.machine
    assert found.measurements[0]["ratio"] == changes["value"] / 20
    moved = edited(lambda d: (slower(d, **changes), d["run"]["machine"].update(cpu="another")))
    found = compare(load(study_report), load(moved))
    assert found.code == 0 and not found.measurements and "machines differ: cpu" in found.machine
    assert "machines differ: cpu" in as_text(found)


def test_the_page_says_what_the_text_says(study_report, edited, tmp_path, capsys):
    worse = edited(lambda d: (gate(d, "kl").update(status="fail", evidence="<i>x</i>"), shift(d, 2)))
    assert cli.main(["diff", str(study_report), str(worse), "--html", str(tmp_path / "d" / "diff.html")]) == 1
    capsys.readouterr()
    page = Page((tmp_path / "d" / "diff.html").read_text())
    text = "".join(page.text)
    assert "✘ REGRESSED: 2 worse or missing, 0 better" in text and not page.all("i")
    assert ["new fail", "kl", "pass", "fail", "<i>x</i>"] in page.rows
    assert all(th.get("scope") for th in page.all("th")) and len(page.all("caption")) == len(
        page.all("table")
    )
    assert cli.main(["diff", str(study_report), str(worse), "--html", str(tmp_path)]) == 2


def test_reports_of_runs_without_a_study_are_compared_by_their_texts(edited):
    def bare(data, factor=1.0):
        data.update(study=None, workloads=[], decisions=[], comparisons=[], trajectories=[], performance=[])
        row = data["quality"]["arms"]["structured-turbo"][0]
        row["value"] *= factor
        row["interval"].update(low=row["interval"]["low"] * factor, high=row["interval"]["high"] * factor)

    found = compare(load(edited(bare, "a.json")), load(edited(lambda d: bare(d, 3))))
    assert found.code == 1 and [r["kind"] for r in found.rows if r["verdict"] != "same"] == ["all texts"]


def test_changes_that_nothing_judges_are_counted_and_listed_where_there_is_room(
    study_report, edited, tmp_path, capsys
):
    other = edited(ruin)
    assert cli.main(["diff", str(study_report), str(other), "--html", str(tmp_path / "d.html")]) == 0
    said = capsys.readouterr().out
    assert (
        said.startswith("SAME")
        and "1 values moved where nothing stored can judge it" in said
        and "kl_mean" not in said
    )
    row = next(r for r in Page((tmp_path / "d.html").read_text()).rows if r[0] == "changed")
    assert row[2:5] == ["chat", "kl_mean", "planted-bad"] and row[-1] == "a control: its gate judges it"


def test_what_is_no_whole_report_is_refused_in_one_line(study_report, edited, tmp_path, capsys):
    real = (study_report / "report.json").read_text()
    page = (study_report / "report.html").read_text()
    deep = "[" * 100_000 + "]" * 100_000
    bad = {
        "tampered.json": edited(lambda d: decide(d, bound=0.001), "tampered.json", seal=False).read_text(),
        "digest.json": edited(lambda d: d.update(result_digest="0" * 64), "digest.json", seal=False).read_text(),
        "old.json": real.replace('"version": 2', '"version": 1', 1),
        "version.json": real.replace('"version": 2', '"version": [2]', 1),
        "other.json": '{"schema": {"name": "tq-bench"}}',
        "list.json": "[1, 2]",
        "text.json": "not json",
        "bytes.json": "",
        "deep.json": deep,
        "nested.json": real.replace('"seeds": {', '"seeds": {"x": ' + "[" * 99 + "]" * 99 + ",", 1),
        "nan.json": real.replace('"loss": 0.004', '"loss": NaN', 1),
        "huge-number.json": real.replace('"loss": 0.004', '"loss": 1e999', 1),
        "long-number.json": real.replace('"loss": 0.004', '"loss": ' + "9" * 9999, 1),
        "twice.json": real.replace('"status": "incomplete"', '"status": "pass", "status": "incomplete"', 1),
        "more.json": real.replace('"incomplete": ""', '"incomplete": "", "extra": 1', 1),
        "cut.json": real[: len(real) // 2],
        "empty.html": "<html></html>",
        "two.html": page + page,
        "cut.html": page[: page.index("tq-report") + 5000],
        "deep.html": loading.OPENING.decode() + deep + "</script>",
        "notes.txt": "mine",
    }  # fmt: skip
    for name, text in bad.items():
        (tmp_path / name).write_text(text)
        assert cli.main(["diff", str(study_report), str(tmp_path / name)]) == 2, name
        said = capsys.readouterr()
        assert said.out == "" and said.err.count("\n") == 1 and "Traceback" not in said.err, name
        assert len(said.err) < 700, name
    (tmp_path / "latin.json").write_bytes(b'{"a": "\xff"}')
    for absent in ("latin.json", "nothing.json", "nothing"):
        assert cli.main(["diff", str(tmp_path / absent), str(study_report)]) == 2, absent
        assert capsys.readouterr().err.count("\n") == 1


def test_a_file_above_the_limit_is_not_even_parsed(study_report, monkeypatch):
    monkeypatch.setattr(reading, "MOST_BYTES", 1000)
    with pytest.raises(report.ReportError, match="at most 1,000 bytes"):
        load(study_report / "report.json")


def test_a_folder_with_wrong_sums_is_refused_and_named(study_report, tmp_path, capsys):
    shutil.copytree(study_report, tmp_path / "r")
    (tmp_path / "r" / "report.html").write_text("<html>all is well</html>")
    assert cli.main(["diff", str(study_report), str(tmp_path / "r")]) == 2
    assert "others for report.html" in capsys.readouterr().err
    sums = files.sums_of({n: (tmp_path / "r" / n).read_bytes() for n in (folder.HTML, folder.JSON, folder.SAMPLES)})  # fmt: skip
    (tmp_path / "r" / "SHA256SUMS").write_bytes(sums)
    assert cli.main(["diff", str(study_report), str(tmp_path / "r")]) == 2
    assert ".complete" in capsys.readouterr().err


def test_names_from_a_report_cannot_drive_the_terminal(study_report, edited, capsys):
    odd = "\x1b]0;owned\x07 \udc80\u202e"
    other = edited(lambda d: gate(d, "kl").update(status="fail", evidence=odd))
    assert cli.main(["diff", str(study_report), str(other)]) == 1
    said = capsys.readouterr().out
    assert "\x1b" not in said and "\\x1b]0;owned\\x07" in said and "\\udc80" in said
    assert printable("naïve ✘") == "naïve ✘"
