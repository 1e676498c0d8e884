"""A gate passes, fails or is not exercised; and every rule of a run can do each."""

import numpy as np
import pytest

from validation import gates, rules
from validation.gates import Gate, Measured, count, overall
from validation.parity_report import Certificate, ParityRow

pytestmark = pytest.mark.slow  # a study of the tiny model comes first


def gate(value, op="<=", limit=1.0):
    return Gate("g", "claim", lambda facts: Measured(value, "seen"), op, limit, "unit", "why")


@pytest.mark.parametrize(
    ("value", "op", "status"),
    [(1.0, "<=", "pass"), (1.1, "<=", "fail"), (1.0, "<", "fail"), (1.0, ">=", "pass"), (0.9, ">=", "fail"),
     (1.1, ">", "pass"), (1.0, ">", "fail"), (1.0, "==", "pass"), (1.0 + 1e-12, "==", "fail")],
)  # fmt: skip
def test_the_claim_holds_or_not(value, op, status):
    assert gate(value, op).judge(None).status == status


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_value_that_is_not_finite_fails_whatever_the_direction(value):
    for op in gates._HOLDS:
        verdict = gate(value, op).judge(None)
        assert verdict.status == "fail" and verdict.as_dict()["value"] is None


def test_nothing_measured_is_not_a_pass():
    verdict = gate(None).judge(None)
    assert verdict.status == "not exercised" and overall([verdict]) == "incomplete"


def test_overall_and_count():
    good, bad, absent = (gate(v).judge(None) for v in (0.0, 2.0, None))
    assert overall([good]) == "pass" and overall([good, absent]) == "incomplete"
    assert overall([good, absent, bad]) == "fail" and overall([]) == "incomplete"
    assert count([good, bad, absent, good]) == {"total": 4, "pass": 2, "fail": 1, "not_exercised": 1}


def certificate(bits=0, missing=(), compared=100):
    rows = (ParityRow("rotate", "native-scalar", 3, compared, bits, 0),)
    return Certificate("subset", 3, 10, ("numpy", "native-scalar"), tuple(missing), rows, (), {})


def judge(findings, name):
    return next(g for g in rules.gates_for(findings.plan, findings) if g.name == name).judge(findings)


def _breakages():
    """name of a gate -> (a change of the findings that must make it fail, one after which it has nothing to see)."""

    def put(name, value):
        def change(f):
            f.tested.ledger[name] = value

        return change

    def scores(**arrays):
        def change(f):
            for d in f.tested.documents:
                for name, value in arrays.items():
                    getattr(d, name)[:] = value

        return change

    def drop(f):
        f.tested.documents = []
        for workload in f.workloads.values():
            del workload.readings[f.plan.arm]

    def no_ledger(f):
        f.tested.ledger = {}

    return {
        "tokens-compressed": (put("tokens_compressed", 0), no_ledger),
        "output-changed": (scores(max_difference=0.0), drop),
        "window-exact": (scores(max_difference=1e-6), drop),
        "ledger": (put("total", 1), no_ledger),
        "memory": (put("total", 10**9), no_ledger),
        "kl": (scores(kl=9.0), drop),
        "top1": (scores(same_top=False), drop),
        "negative-control": (
            lambda f: [d.kl.fill(0) for d in f.planted_bad.documents],
            lambda f: f.planted_bad.documents.clear(),
        ),
        "no-op": (
            lambda f: f.no_op.documents[0].max_difference.__setitem__(3, 1e-9),
            lambda f: f.no_op.documents.clear(),
        ),
        "no-shadow": (lambda f: setattr(f.tested, "unaccounted", 10**7), no_ledger),
    }


@pytest.mark.parametrize("name", _breakages())
def test_each_rule_passes_fails_and_notices_that_it_saw_nothing(findings, name):
    import copy

    fail, blind = _breakages()[name]
    if name not in ("kl", "top1", "negative-control"):  # these depend on how good the tiny model is
        assert judge(findings, name).status == "pass"
    broken, empty = copy.deepcopy(findings), copy.deepcopy(findings)
    fail(broken)
    assert judge(broken, name).status == "fail"
    blind(empty)
    assert judge(empty, name).status == "not exercised"


def test_a_nan_in_the_scores_fails_the_budget(findings):
    findings.tested.documents[0].kl[5] = np.nan
    assert judge(findings, "kl").status == "fail"


def test_parity_rules(findings):
    for made, bits, coverage in (
        (certificate(), "pass", "pass"),
        (certificate(bits=1), "fail", "pass"),
        (certificate(missing=[{"name": "native-avx2", "reason": "gone"}]), "pass", "not exercised"),
        (certificate(compared=0), "not exercised", "pass"),
        (None, "not exercised", "not exercised"),
    ):
        findings.certificate = made
        assert judge(findings, "parity").status == bits
        assert judge(findings, "parity-coverage").status == coverage


def answers(right, n=160):
    return [np.arange(n) < right]


def test_retrieval_at_the_floor_is_no_information(findings):
    findings.reference.answers, findings.tested.answers = answers(30), answers(30)
    assert judge(findings, "retrieval").status == "not exercised"


@pytest.mark.parametrize(("right", "status"), [(150, "pass"), (143, "pass"), (110, "fail"), (0, "fail")])
def test_retrieval_stops_a_collapse(findings, right, status):
    findings.reference.answers, findings.tested.answers = answers(150), answers(right)
    verdict = judge(findings, "retrieval")
    assert verdict.status == status and f"{150 - right} lost" in verdict.evidence


def test_one_answer_lost_of_eight_decides_nothing(findings):
    findings.reference.answers, findings.tested.answers = answers(8, 8), answers(7, 8)
    assert judge(findings, "retrieval").status == "pass"


def test_a_run_too_short_to_compress_most_tokens_is_not_exercised(findings):
    for d in findings.tested.documents:
        d.max_difference[: int(0.7 * len(d))] = 0
    assert judge(findings, "output-changed").status == "not exercised"


def test_the_planted_bad_arm_is_worse_on_every_document_and_more_so_than_the_tested_arm(findings):
    for bad, good in zip(findings.planted_bad.documents, findings.tested.documents, strict=True):
        assert bad.kl.mean() > 5 * good.kl.mean()
