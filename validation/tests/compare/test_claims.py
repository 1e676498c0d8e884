"""Claims have sources, measures exist, and a wrong statement gets a verdict that says so."""

from dataclasses import replace

import pytest

from tq_core.errors import CodecError, ValueRangeError
from validation.compare.claim_measures import FROM_ROWS, SYNTHETIC, measure_claim, row_value
from validation.compare.claims import Said, check_claims, read_claims

CLAIMS = read_claims()
CHEAP = {"key_bits", "times_smaller"}


def test_every_claim_has_a_source_and_a_known_measure() -> None:
    assert len(CLAIMS) >= 40
    for claim in CLAIMS:
        assert claim.measure in {*SYNTHETIC, *FROM_ROWS}
        assert all(len(s.source) > 5 for s in claim.said.values()), claim.subject
    assert len({(c.subject, c.quantity) for c in CLAIMS}) == len(CLAIMS)


def test_ledger_claims_are_measured() -> None:
    chosen = tuple(c for c in CLAIMS if c.measure in CHEAP)
    checked = check_claims([], "tq compare", chosen)
    assert len(checked) > 10 and all(c.measured is not None for c in checked)
    by_subject = {c.subject: c for c in checked}
    assert by_subject['KIVI, "2 bits"'].measured == 3.0
    assert "1.50 times" in by_subject['KIVI, "2 bits"'].verdict
    assert by_subject["aither tq35"].measured == pytest.approx(4.0, rel=0.01)


def test_statements_are_compared_with_what_is_measured() -> None:
    claim = next(c for c in CLAIMS if c.subject == "QuaRot, 4 bits" and c.measure == "key_bits")
    right, wrong = (
        check_claims([], "", (replace(claim, said={"paper": Said("x", "somewhere", v)}),))[0].verdict
        for v in (4.25, 3.0)
    )
    assert right == "paper: agrees" and wrong == "paper: measured is 1.42 times that"


@pytest.mark.slow
@pytest.mark.parametrize(
    "claim",
    [c for c in CLAIMS if c.measure in set(SYNTHETIC) - CHEAP],
    ids=lambda c: f"{c.subject}-{c.quantity}",
)
def test_what_the_design_calculates_is_measured(claim) -> None:
    measured = measure_claim(claim.measure, claim.arguments, [])
    assert measured is not None and measured > 0
    said = claim.said.get("calculated")
    if said is not None and said.value is not None:
        assert measured == pytest.approx(said.value, rel=0.05)


def test_claims_about_models_read_the_rows(result) -> None:
    rows, options = result["rows"], {"key_bits": 3, "value_bits": 3}
    found = row_value(rows, "kivi-control", options, "kl_mean")
    assert found == next(r for r in rows if r["label"] == "kivi-control 3")["kl_mean"], (
        "defaults are filled in"
    )
    assert row_value(rows, "kivi-control", {"key_bits": 4, "value_bits": 4}, "kl_mean") is None
    ratio = {
        "first": {"arm": "turboquant-prod", "options": options},
        "second": {"arm": "kivi-control", "options": options},
    }
    over = measure_claim("row_ratio", {**ratio, "field": "kl_mean"}, rows)
    assert over is not None and over * found == pytest.approx(
        next(r for r in rows if r["label"] == "turboquant-prod 3")["kl_mean"]
    )
    unknown = check_claims([], "", tuple(c for c in CLAIMS if c.measure in FROM_ROWS))
    assert unknown and all(c.measured is None and "not measured" in c.verdict for c in unknown)


def test_unknown_measures_and_arms_are_refused() -> None:
    with pytest.raises(ValueRangeError, match="measure"):
        measure_claim("guess", {}, [])
    with pytest.raises(CodecError):
        measure_claim("key_bits", {"arm": "nothing", "options": {}}, [])
