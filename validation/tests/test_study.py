"""Studies: read strictly, hashed by what they say, and every departure of a run named."""

import textwrap

import pytest
import yaml

from tq_core.errors import ValueRangeError
from validation import faults
from validation.plan import make_plan
from validation.study_file import StudyError, default_study, find_study, parse_study, read_study, shipped

SMALL = {
    "name": "mine", "version": 1, "question": "Is it good enough?", "model": "tiny",
    "arms": ["structured-turbo", "planted-bad"],
    "workloads": [{"name": "episodes", "prompts": 20, "tokens": 320}],
    "budgets": [{"workload": "episodes", "metric": "kl_mean", "limit": 0.02, "why": "a guess"}],
}  # fmt: skip


def changed(**given):
    return {**SMALL, **given}


@pytest.mark.parametrize("name", sorted(shipped()))
def test_shipped_studies_are_valid_and_can_decide(name):
    study = find_study(name)
    assert study.name == name and study.file == f"{name}.yaml"
    assert (
        "planted-bad" in study.arms
        and "planted-bad" in study.controls.names
        and "no-op" in study.controls.names
    )
    judged = {b.workload for b in study.budgets}
    for use in study.workloads:
        if use.name in judged:
            assert use.prompts >= study.least_prompts, (
                f"{use.name} has a budget and too few prompts to meet it"
            )
    assert {study.budget("kl_mean").workload, study.budget("top1_agreement").workload} == {study.primary.name}


def test_the_digest_is_of_what_is_said_and_not_of_the_layout(tmp_path):
    first = tmp_path / "a.yaml"
    first.write_text(yaml.safe_dump(SMALL))
    second = tmp_path / "b.yaml"
    second.write_text("# another layout\n" + yaml.safe_dump(SMALL, sort_keys=False, default_flow_style=True))
    assert read_study(first).sha256 == read_study(second).sha256
    for other in (
        changed(version=2),
        changed(question="?"),
        changed(least_prompts=19),
        changed(confidence=0.9),
    ):
        assert parse_study(other).sha256 != parse_study(SMALL).sha256
    tighter = changed(budgets=[{**SMALL["budgets"][0], "limit": 0.01}])
    assert parse_study(tighter).sha256 != parse_study(SMALL).sha256


@pytest.mark.parametrize(
    ("wrong", "names"),
    [
        ({"arms": ["structured-turb"]}, "did you mean structured-turbo"),
        ({"arms": []}, "arms"),
        ({"arms": ["fp16", "fp16"]}, "every name once"),
        ({"beside": "fp16"}, "beside"),
        ({"model": 7}, "model"),
        ({"version": True}, "version"),
        ({"workloads": [{"name": "episode", "prompts": 20, "tokens": 320}]}, "did you mean episodes"),
        ({"workloads": [{"name": "episodes", "prompts": 0, "tokens": 320}]}, r"workloads\[0\].prompts"),
        (
            {"workloads": [{"name": "episodes", "prompts": 19, "tokens": 320}]},
            "at least 20, since it has a budget",
        ),
        ({"workloads": [{"name": "episodes", "prompts": 20}]}, r"workloads\[0\]"),
        ({"workloads": SMALL["workloads"] * 2}, "every workload once"),
        ({"budgets": [{**SMALL["budgets"][0], "metric": "kl"}]}, r"budgets\[0\].metric"),
        ({"budgets": [{**SMALL["budgets"][0], "workload": "text"}]}, r"budgets\[0\].workload"),
        ({"budgets": [{**SMALL["budgets"][0], "limit": float("nan")}]}, r"budgets\[0\].limit"),
        ({"budgets": [{**SMALL["budgets"][0], "limit": -1}]}, r"budgets\[0\].limit"),
        ({"budgets": [{**SMALL["budgets"][0], "why": ""}]}, r"budgets\[0\].why"),
        ({"controls": {"prompts": 2, "arms": ["noop"]}}, "did you mean no-op"),
        ({"controls": {"prompts": 2}}, "controls"),
        ({"comparisons": [{"workload": "episodes", "metric": "kl_mean"}] * 21}, "small family"),
        ({"seeds": {"resampling": -1}}, "seeds.resampling"),
        ({"seeds": {"luck": 1}}, "seeds"),
        ({"confidence": 1.0}, "confidence"),
        ({"parity": "some"}, "parity"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_what_is_wrong_is_named(wrong, names):
    with pytest.raises(StudyError, match=names):
        parse_study(changed(**wrong))


def test_every_fault_of_a_file_is_told_at_once():
    with pytest.raises(StudyError) as told:
        parse_study(
            {
                "name": "",
                "arms": ["nobody"],
                "workloads": [{"name": "x", "prompts": 1, "tokens": 1}],
                "budgets": [],
            }
        )
    for part in (
        "name",
        "version",
        "question",
        "model",
        "arms",
        "workloads[0].tokens",
        "workloads[0].name",
        "budgets",
    ):
        assert part in str(told.value), part


@pytest.mark.parametrize(
    ("text", "names"),
    [("a: [", "YAML"), ("- 1", "a mapping"), ("", "a mapping"), ("!!python/object/apply:os.system [ls]", "YAML"), ("[" * 5000, "YAML|nesting")],
)  # fmt: skip
def test_files_that_are_no_study(tmp_path, text, names):
    path = tmp_path / "s.yaml"
    path.write_text(text)
    with pytest.raises(StudyError, match=names):
        read_study(path)


def test_large_missing_and_self_made_files(tmp_path):
    with pytest.raises(StudyError, match="nobody"):
        find_study("nobody")
    with pytest.raises(StudyError, match="did you mean tiny-episodes"):
        find_study("tiny-episode")
    (tmp_path / "large.yaml").write_text("#" * (faults.MAX_BYTES + 1))
    with pytest.raises(StudyError, match="at most"):
        read_study(tmp_path / "large.yaml")
    bomb = textwrap.dedent(
        """
        a: &a [x, x, x, x, x, x, x, x, x]
        b: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]
        c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b]
        d: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c]
        e: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d]
        f: &f [*e, *e, *e, *e, *e, *e, *e, *e, *e]
        arms: [*f, *f, *f, *f, *f, *f, *f, *f, *f]
        """
    )
    (tmp_path / "bomb.yaml").write_text(bomb)
    with pytest.raises(StudyError) as told:
        read_study(tmp_path / "bomb.yaml")
    assert len(str(told.value)) < 10_000


def test_departures_are_named_one_by_one():
    study = default_study("tiny")
    assert make_plan("tiny").exploratory == () and make_plan("tiny", ["planted-bad"]).exploratory == ()
    plan = make_plan(
        "tiny", ["eden"], prompts=5, length=200, kl_budget=0.5, parity="off", seed=3, options={"window": 64}, backend="numpy"
    )  # fmt: skip
    said = "; ".join(plan.exploratory)
    for part in (
        "arm eden",
        "window 64",
        "5 prompts of 200 tokens",
        "budget of kl_mean",
        "parity off",
        "seeds",
        "backend numpy",
    ):
        assert part in said, part
    assert plan.registered == study.sha256 != plan.study.sha256
    assert (
        "model tiny"
        in make_plan(
            "tiny", study=default_study("smollm2"), workloads=["text"] if False else None
        ).exploratory[0]
    )


def test_a_workload_that_is_not_in_the_study_cannot_be_picked():
    with pytest.raises(ValueRangeError, match="workload"):
        make_plan("tiny", workloads=["chat"])
