"""Free replies in the tables: counted per cache beside the reference, and deciding nothing."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from validation import report
from validation.findings import WorkloadFindings
from validation.reply_rows import reply_rows
from validation.rules import gates_for
from validation.runner import make_record
from validation.schema import problem
from validation.tests.records import make_record as record_by_hand
from validation.workloads.prompt import Prompt

PROMPT = "The lamp 12 is red, the lamp 7 is blue. Which is the lamp 12?"


class Letters:
    """A model whose tokens are characters."""

    def detokenize(self, ids):
        return "".join(map(chr, ids))


@dataclass
class Said:
    generated: list[int] | None


@dataclass
class Few:
    """As much of findings as the rows look at."""

    workloads: dict[str, WorkloadFindings]
    arms: dict[str, Any] = field(default_factory=lambda: {"arm": None})
    controls: dict[str, Any] = field(default_factory=dict)


def ids(text):
    return [ord(c) for c in text]


def prompt(accept=("red",), distractors=("blue",)):
    tokens = np.array(ids(PROMPT), np.int32)
    return Prompt(
        "p", "s", "x", "x", "0", tokens, scored_from=len(tokens), new_tokens=99, accept=accept, distractors=distractors
    )  # fmt: skip


def rows(replies, **how):
    made = {label: [Said(None if t is None else ids(t)) for t in texts] for label, texts in replies.items()}
    few = Few({"w": WorkloadFindings("w", [prompt(**how) for _ in replies["reference"]], made)})
    return {r["arm"]: r for r in reply_rows(few, Letters())}


def test_answers_facts_numbers_and_loops_are_counted():
    found = rows(
        {
            "reference": ["It is red.", "Lamp 12 is red, lamp 7 blue.", "None."],
            "arm": ["It is blue, number 99 of 100.", "blue " * 20, ""],
        }
    )
    reference, arm = found["reference"], found["arm"]
    assert list(found) == ["reference", "arm"]
    assert reference["verdicts"] == {"right": 1, "wrong": 0, "both": 1, "neither": 1}
    assert arm["verdicts"] == {"right": 0, "wrong": 2, "both": 0, "neither": 1}
    assert (reference["recalled"], arm["recalled"]) == (pytest.approx(2 / 3), 0.0)
    assert (reference["invented_numbers"], reference["loops"], reference["empty"]) == (0, 0, 0)
    assert (arm["invented_numbers"], arm["replies_with_invented"]) == (2, 1), "99 and 100 stand nowhere"
    assert (arm["loops"], arm["empty"], arm["prompts"], arm["judged"]) == (1, 1, 3, 3)
    assert arm["distinct_ngrams"] < reference["distinct_ngrams"] <= 1.0 and arm["loop_rate"] > 0.3


def test_a_cache_that_did_not_reply_has_no_row_and_nothing_to_accept_is_not_judged():
    found = rows({"reference": ["So."], "arm": [None]}, accept=(), distractors=())
    assert list(found) == ["reference"]
    assert found["reference"]["verdicts"] is None and found["reference"]["recalled"] is None


def test_the_rows_are_in_the_report_and_its_schema(tmp_path):
    record = record_by_hand()
    data = report.check_folder(report.write(record, tmp_path / "out")["json"].parent)
    assert data["replies"] == record.replies and len(data["replies"]) == 3
    for edit in ({"recalled": 1.5}, {"verdicts": {"right": 1}}, {"loops": -1}, {"another": 0}):
        broken = record_by_hand().as_dict() | {"figures": [], "replies": [{**record.replies[0], **edit}]}
        assert "replies" in problem(broken), edit


@pytest.mark.slow
def test_replies_decide_nothing(findings, tiny):
    """The worst replies that there are leave every gate, and the status, as they were."""
    w = findings.workloads["episodes"]
    told = []
    for good in (True, False):
        words = [3, 4, 5, 6] if good else [3] * 40
        w.prompts = [replace(p, accept=("red",)) for p in w.prompts]
        for label in ("reference", findings.plan.arm):
            mine = words if label == findings.plan.arm else [3, 4, 5, 6]
            w.readings[label] = [replace(r, generated=mine) for r in w.readings[label]]
        record = make_record(findings, tiny, "test", "tq validate", "2000-01-01T00:00:00Z", 1.0)
        gates = [gate.judge(findings).as_dict() for gate in gates_for(findings.plan, findings)]
        told.append((record.status, gates, record.decisions, {r["arm"]: r["loops"] for r in record.replies}))
    assert told[0][:3] == told[1][:3]
    assert told[0][3][findings.plan.arm] == 0 and told[1][3][findings.plan.arm] == len(w.prompts)
