"""The real model through the whole run, on little text; the default run reads ten times as much."""

import pytest

from tq_core.model.zoo import load_model
from validation.plan import make_plan
from validation.runner import examine
from validation.study_file import find_study

pytestmark = [pytest.mark.model, pytest.mark.slow]


def test_smollm2_on_one_short_document():
    plan = make_plan(
        "smollm2",
        prompts=1,
        length=224,
        options={"window": 64},
        workloads=["text"],
        study=find_study("smollm2-text"),
        parity="off",
        trials=False,
    )
    record, _ = examine(plan, load_model("smollm2"))
    gates = {g["name"]: g for g in record.gates}
    for name in ("tokens-compressed", "output-changed", "window-exact", "no-shadow", "ledger", "no-op"):
        assert gates[name]["status"] == "pass", gates[name]
    assert gates["negative-control"]["status"] == "pass", "the planted bad arm must not meet the budget"
    assert gates["kl"]["status"] == "not exercised", "one prompt cannot meet a budget"
    by_name = {c["control"]: c["kl_mean"] for c in record.controls}
    planted, rounding = by_name["planted-bad"], by_name["fp16 against float32"]
    assert rounding < 1e-5 < record.summary["kl_mean"] < planted / 10
    assert not any("Real model" in reason for reason in record.not_exercised)
    assert "NOT exercised" not in " ".join(record.verdict)
