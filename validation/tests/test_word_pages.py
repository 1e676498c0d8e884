"""Glossary, family and claims: what is committed is what the command writes, and nothing is left out."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace

import pytest

from tq_core.codecs.arms import arm_names, calibrated_arm_names
from tq_core.errors import ValueRangeError
from tq_core.paths import ROOT
from validation.budget.published import check_all
from validation.compare.claims import read_claims
from validation.pages import claims, family, first_slider, glossary, tree
from validation.pages.__main__ import HERE, PAGES, differing, main, write
from validation.pages.markdown import cell, link

# The names that code and text of this repository use, and those of the judgement.
TERMS = """query heads, KV heads, head_dim, padded_dim, token, position, codec, arm, codes, codebook, centroid, boundary,
norm, scale, zero point, rotation, signs, FWHT, sketch, residual, recent window, sink tokens, group, page, slot, page pool,
block table, stream, bits per channel, nominal, all-in, identity record, digest, target, backend, host, gate, verdict,
Lloyd-Max, matched norm, unbiased scale, distortion, KL divergence, top-1 agreement, rank agreement, non-inferiority, budget,
floor, ceiling, negative control, no-op, numpy twin, lane contract, parity, golden vectors, break-even, ledger, shadow copy,
calibration, key offset, outlier channel, RoPE, prefill, decode step, teacher forcing, workload, study, exhibit"""
PUBLISHED = """DRIVE EDEN HIGGS RaBitQ TurboQuant_mse TurboQuant_prod Fast-TurboQuant QJL PolarQuant KIVI KVQuant QuaRot SpinQuant
QServe FlexGen turbovec aither-kvcache""".split()


def words(text: str) -> str:
    return " ".join(text.split())


def test_committed_pages_are_what_the_command_writes():
    assert differing() == []
    assert main(["--check"]) == 0


@pytest.mark.parametrize("name", list(PAGES))
def test_an_edited_or_missing_page_is_found(name, tmp_path, monkeypatch, capsys):
    for other in PAGES:
        shutil.copyfile(HERE / other, tmp_path / other)
    assert differing(tmp_path) == []
    text = (tmp_path / name).read_text()
    (tmp_path / name).write_text(text.replace("a", "b", 1))
    assert differing(tmp_path) == [name]
    (tmp_path / name).unlink()
    assert differing(tmp_path) == [name]


def test_command_writes_every_file(tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text(f"![old words](validation/pages/{first_slider.PICTURE})\n\nmore\n")
    names = {path.name for path in write(tmp_path, readme)}
    assert names == {*PAGES, family.PICTURE, first_slider.PICTURE, "README.md"}
    assert differing(tmp_path) == []
    assert readme.read_text() == f"![{first_slider.alt()}](validation/pages/{first_slider.PICTURE})\n\nmore\n"
    with pytest.raises(ValueRangeError, match="once, got 0 times"):
        first_slider.readme("no picture")


def test_every_term_is_explained():
    have = {part.strip() for entry in glossary.entries() for part in re.split(r",| and ", entry.term)}
    wanted = {term.strip() for term in words(TERMS).split(",")}
    assert wanted - have == set()


def test_glossary_text_holds_no_measured_number():
    found = {e.term: re.findall(r"\d+\.\d+|\d+ ?%", e.text) for e in glossary.entries()}
    assert {term: numbers for term, numbers in found.items() if numbers} == {}


def with_entry(tmp_path, monkeypatch, module, change):
    entries = json.loads(module.FILE.read_text())
    change(entries)
    (tmp_path / "planted.json").write_text(json.dumps(entries))
    monkeypatch.setattr(module, "FILE", tmp_path / "planted.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda e: e[0].update(text="One. Two. Three. Four."), "1 to 3 sentences"),
        (lambda e: e.append(e[0]), "each term once"),
        (lambda e: e[0].update(link="tq_core/no_such_file.py"), "a file of the repository"),
    ],
)
def test_planted_glossary_fault_is_found(change, message, tmp_path, monkeypatch):
    with_entry(tmp_path, monkeypatch, glossary, change)
    glossary.entries.cache_clear()
    try:
        with pytest.raises(ValueRangeError, match=message):
            glossary.text()
    finally:
        monkeypatch.undo()
        glossary.entries.cache_clear()


def test_every_arm_stands_in_the_family_once():
    arms = [arm for method in family.methods() for arm in method.arms]
    assert sorted(arms) == sorted(arm_names() + calibrated_arm_names())
    page = family.text()
    assert [arm for arm in arms if f"`{arm}`" not in page] == []


def test_published_methods_and_their_order():
    by_name = {method.name: method for method in family.methods()}
    assert [name for name in PUBLISHED if name not in by_name] == []
    before = {tie.of for tie in by_name["TurboQuant_mse"].ties if tie.kind == "came before"}
    assert before == {"EDEN", "HIGGS", "RaBitQ"} and by_name["EDEN"].ties[0].of == "DRIVE"
    for name in ("DRIVE", "EDEN", "HIGGS", "RaBitQ"):
        assert by_name[name].year < by_name["TurboQuant_mse"].year
        assert re.search(r"arXiv \d{4}\.\d{5}", by_name[name].source)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda e: e[0].update({"from": [{"of": "EDEN", "kind": "builds on", "how": "x"}]}),
            "ties to methods above it",
        ),
        (lambda e: e[0].update(lane="magic"), "a lane of"),
        (lambda e: e[6]["from"][0].update(kind="resembles"), "a tie of"),
        (
            lambda e: e[4].update(year=2027) or e[6]["from"][0].update(kind="came before"),
            "came before and is younger",
        ),
    ],
)
def test_planted_family_fault_is_found(change, message, tmp_path, monkeypatch):
    with_entry(tmp_path, monkeypatch, family, change)
    family.methods.cache_clear()
    try:
        with pytest.raises(ValueRangeError, match=message):
            family.methods()
    finally:
        monkeypatch.undo()
        family.methods.cache_clear()


def test_picture_shows_every_method_and_says_so():
    drawn = (HERE / family.PICTURE).read_text()
    for text in (drawn, tree.svg()):
        shown = re.findall(r"<text[^>]*>([^<]+)</text>", text)
        assert [m.name for m in family.methods() if m.name not in shown] == []
        assert family.alt() in text.replace("&amp;", "&")
    ties = [(m.name, tie.of) for m in family.methods() for tie in m.ties]
    assert [tie for tie in ties if not (tie[0] in family.alt() and tie[1] in family.alt())] == []
    assert f"![{family.alt()}]({family.PICTURE})" in family.text()


def test_no_box_lies_on_another():
    centres = sorted(tree.places()[0].values())
    crowded = [
        (a, b)
        for i, a in enumerate(centres)
        for b in centres[i + 1 :]
        if abs(a[0] - b[0]) < tree.WIDTH and abs(a[1] - b[1]) < tree.HEIGHT
    ]
    assert crowded == []


def test_every_claim_stands_with_source_value_and_command():
    page = claims.text()
    assert "tq compare --claims" in page and "tq plan --published" in page
    for claim in read_claims():
        assert f"| {cell(f'{claim.subject}: {claim.quantity}')} |" in page
        for said in claim.said.values():
            assert cell(said.source) in page and cell(said.text) in page
    for name, result in claims.comparisons().items():
        assert result["run"]["command"] in page
        measured = [c for c in result["claims"] if c["measured"] is not None]
        assert measured and all(f"{c['measured']:.4g}" in page for c in measured), name
        assert all(f"| {row['label']} | {row['kl_mean']:.4f} |" in page for row in result["rows"])
    wrong = [c for c in check_all() if c.verdict != "agrees"]
    assert wrong and all(cell(c.why) in page for c in wrong)


def test_results_of_other_claims_are_refused(monkeypatch):
    first, *rest = read_claims()
    monkeypatch.setattr(claims, "read_claims", lambda: (replace(first, quantity="something else"), *rest))
    claims.comparisons.cache_clear()
    try:
        with pytest.raises(ValueRangeError, match="the claims of claims.json"):
            claims.comparisons()
    finally:
        monkeypatch.undo()
        claims.comparisons.cache_clear()


def test_links_and_cells():
    assert link("validation/plan.py") == "[validation/plan.py](../plan.py)"
    assert cell("a | b\n<c>") == r"a \| b &lt;c>" and cell("") == "-"


def test_picture_of_the_first_slider_is_small_and_described():
    data = (HERE / first_slider.PICTURE).read_bytes()
    assert data.startswith(b"\x89PNG") and len(data) < first_slider.MAX_BYTES
    assert first_slider.png().startswith(b"\x89PNG")
    text = (ROOT / "README.md").read_text()
    assert first_slider.readme(text) == text


def test_readme_leads_to_the_dial():
    """The heading that the README names stands right above the cell with the dial."""
    cells = json.loads((ROOT / "notebooks/00_start_here.ipynb").read_text())["cells"]
    sources = ["".join(c["source"]) for c in cells]
    heading = re.search(r"scroll to \*(.+?)\*", (ROOT / "README.md").read_text())[1]
    at = next(i for i, text in enumerate(sources) if re.search(rf"^## .*{heading}$", text, flags=re.M))
    assert "DialPanel(" in sources[at + 1]
