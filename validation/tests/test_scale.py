"""What the studies and the README say of losses is what scale.json holds."""

from __future__ import annotations

import json
import re

import pytest

from tq_core.paths import ROOT
from validation.study_file import find_study

SCALE = json.loads((ROOT / "validation" / "studies" / "scale.json").read_text(encoding="utf-8"))
QUOTING = ("tiny-episodes", "smollm2-text", "gemma-text", "any-model", "smollm2-chat")
# A decimal number or a percentage; bit rates, and what the budget's metric is not, are left out by the words after it.
_NUMBER = re.compile(r"(\d+\.\d+|\d+(?= %))(?! bits)(?! bit\b)")


def unknown_numbers(workload: str, metric: str, why: str) -> list[str]:
    """Numbers of a reason that are no rounded mean of the scale."""
    means = [arm[metric]["mean"] for arm in SCALE["workloads"][workload]["arms"].values()]
    wrong = []
    for text in _NUMBER.findall(why):
        places = len(text.partition(".")[2])
        known = {f"{m:.{places}f}" for m in means} if "." in text else {f"{m:.0%}"[:-1] for m in means}
        wrong += [] if text in known else [text]
    return wrong


def quotes(study: str) -> list[tuple[str, str, str]]:
    return [(b.workload, b.metric, b.why) for b in find_study(study).budgets if "scale.json" in b.why]


@pytest.mark.parametrize("study", QUOTING)
def test_reasons_quote_the_scale(study: str) -> None:
    found = quotes(study)
    assert found
    for workload, metric, why in found:
        assert unknown_numbers(workload, metric, why) == [], why


def test_a_wrong_number_is_found() -> None:
    workload, metric, why = quotes("smollm2-text")[0]
    assert unknown_numbers(workload, metric, why.replace("0.027", "0.026")) == ["0.026"]
    assert unknown_numbers("episodes", "top1_agreement", "the planted bad arm changed 18 %") == ["18"]


def test_prompts_of_the_scale_are_read_by_no_study() -> None:
    for workload, about in SCALE["workloads"].items():
        for study in QUOTING:
            used = [u.prompts for u in find_study(study).workloads if u.name == workload]
            assert all(prompts <= about["first"] for prompts in used), (workload, study)


def test_the_table_of_the_readme() -> None:
    text = (ROOT / "validation" / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ((?:structured|kivi|planted)[^|]*?) \|((?: [\d.]+ \|){3})$", text, re.M)
    assert len(rows) >= 8
    for name, cells in rows:
        arm = name.removesuffix(" (3.5/3)")
        means = [SCALE["workloads"][w]["arms"][arm]["kl_mean"]["mean"] for w in ("chat", "text", "episodes")]
        assert cells.replace("|", " ").split() == [f"{mean:.3f}" for mean in means], name
