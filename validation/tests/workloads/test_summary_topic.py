"""Summaries and repeated topics: seeded, fitted, and with one right alternative that the prompt states."""

import json

import pytest

from tq_core.errors import ValueRangeError
from validation.tests.workloads.conftest import CharacterModel
from validation.workloads import summary, topic
from validation.workloads.replies import invented_numbers, named, string_match_all
from validation.workloads.summary import ALTERED, KINDS, MONTHS, NAMES, PLACES
from validation.workloads.topic import topics
from validation.workloads.workload import digest_of

COUNT = 2 * 12  # every topic with both values
LENGTH = 3000


def text_of(ids):
    return CharacterModel().detokenize(ids)


@pytest.fixture(scope="module")
def summaries():
    return summary.WORKLOAD.prompts(CharacterModel(), 8, LENGTH)


@pytest.fixture(scope="module")
def repeated():
    return topic.WORKLOAD.prompts(CharacterModel(), COUNT, LENGTH)


@pytest.mark.parametrize("workload", [summary.WORKLOAD, topic.WORKLOAD], ids=["summary", "topic"])
def test_the_first_prompts_depend_on_nothing_but_their_place(workload):
    model = CharacterModel()
    few, many = workload.prompts(model, 2, LENGTH), workload.prompts(model, 5, LENGTH)
    assert digest_of(few) == digest_of(many[:2]) and len({p.digest for p in many}) == 5
    for prompt in many:
        json.dumps(prompt.describe())
        assert prompt.workload == workload.name and prompt.scored_from == len(prompt.tokens)


@pytest.mark.parametrize("workload", [summary.WORKLOAD, topic.WORKLOAD], ids=["summary", "topic"])
def test_lengths_are_reached_and_never_exceeded(workload):
    for n_tokens in (2400, 5000, 20_000):
        for prompt in workload.prompts(CharacterModel(), 4, n_tokens):
            assert n_tokens - 300 <= prompt.longest <= n_tokens
    with pytest.raises(ValueRangeError, match=f"length of {workload.name}-000"):
        workload.prompts(CharacterModel(), 1, workload.least)


def test_every_fact_is_told_once_and_the_summary_tells_all(summaries):
    for prompt in summaries:
        text, answer = text_of(prompt.tokens), text_of(prompt.answer)
        assert len(prompt.accept) == 8 == len(set(prompt.accept))
        assert all(text.count(value) == 1 for value in prompt.accept)
        assert string_match_all(answer, prompt.accept) == 1.0
        assert not invented_numbers(answer, prompt.facts["numbers"])
        assert len(prompt.facts["numbers"]) == 4 and invented_numbers(text, prompt.facts["numbers"]) == []


def test_one_alternative_of_a_summary_is_right_and_one_belongs_to_the_other_place(summaries):
    for prompt in summaries:
        text = text_of(prompt.tokens)
        right, swapped, *altered = (text_of(a) for a in prompt.alternatives)
        assert len(altered) == ALTERED and len({right, swapped, *altered}) == 2 + ALTERED
        assert len(named(right, prompt.accept)) == len(named(swapped, prompt.accept)) == 1
        assert all(not named(a, prompt.accept) for a in altered)
        place = prompt.facts["place"]
        assert text.endswith(f"says that the {place}") and place in PLACES
        reports = [KINDS[prompt.facts["asked"]].report.format(p=place, v=v) for v in prompt.accept]
        assert (
            sum(r in text and named(right, [v]) != [] for r, v in zip(reports, prompt.accept, strict=True))
            == 1
        )
    assert {p.facts["asked"] for p in summaries} == set(KINDS)


def test_the_floor_of_a_summary_tells_no_fact(summaries):
    for prompt in summaries:
        floor = text_of(prompt.floor)
        assert not named(floor, [*prompt.accept, *NAMES, *MONTHS]) and any(p in floor for p in PLACES)


def test_topics_are_complete_and_no_phrase_is_said_twice():
    every = topics()
    assert len(every) == 12
    for t in every:
        assert len(set(t.questions)) == 10 and len(set(t.values)) == 2
        assert all(s.count("{v}") == 1 for s in (*t.statements, t.doubt[1], t.closing))
        assert t.claim.count("{w}") == 1 and not any("{" in q for q in (*t.questions, t.doubt[0]))
        assert t.closing.endswith("{v}") and t.closing not in {s.rstrip(".") for s in t.statements}
    questions = [q for t in every for q in t.questions]
    assert len(set(questions)) == 120


def test_the_answer_was_given_before_and_the_contradiction_comes_from_the_user(repeated):
    for prompt in repeated:
        turns = text_of(prompt.tokens).split("\n\n")
        told = [t for t in turns if t.startswith("Assistant:") and named(t, prompt.accept)]
        claimed = [n for n, t in enumerate(turns) if named(t, prompt.distractors)]
        assert len(told) >= 3 and len(claimed) == 1 and turns[claimed[0]].startswith("User:")
        assert (claimed[0] == len(turns) - 2) == prompt.facts["pressed"], "in the last question, or earlier"
        right, wrong = (text_of(a) for a in prompt.alternatives)
        assert named(right, prompt.accept) and named(wrong, prompt.distractors)
        assert right.replace(*prompt.accept, "") == wrong.replace(*prompt.distractors, "")
        assert right not in text_of(prompt.tokens)
        assert not named(text_of(prompt.floor), prompt.accept)


def test_every_topic_takes_both_values_and_half_of_the_questions_press(repeated):
    said = {(p.facts["topic"], *p.accept) for p in repeated}
    assert len(said) == COUNT
    assert sum(p.facts["pressed"] for p in repeated) == COUNT // 2
    by_value = {v: {p.accept[0] == t.values[v] for p in repeated for t in topics() if t.name == p.facts["topic"] and p.facts["pressed"]} for v in (0, 1)}  # fmt: skip
    assert by_value == {0: {True, False}, 1: {True, False}}


def test_long_prompts_repeat_all_phrasings_and_keep_every_filler():
    prompt = topic.WORKLOAD.prompts(CharacterModel(), 1, 20_000)[0]
    text = text_of(prompt.tokens)
    assert all(text.count(q) == 1 for q in topics()[0].questions)
    turns = text.split("\n\n")
    between = [n for n, t in enumerate(turns) if t.startswith("Assistant:") and named(t, prompt.accept)]
    assert min(b - a for a, b in zip(between, between[1:], strict=False)) >= 4, (
        "something stands between two answers"
    )
    assert len(turns) - between[-1] >= 4, "and before the last question"


@pytest.mark.model
@pytest.mark.slow
def test_smollm2_finds_what_was_told():
    from tq_core.cache.paged_cache import PagedCache
    from tq_core.codecs.arms import get_arm
    from tq_core.kernels.backend import get_backend
    from tq_core.model.zoo import load_model
    from validation.engine.continuations import log_probability

    model = load_model("smollm2")

    def chances(prompt):
        cache = PagedCache(model.shape, get_arm("fp16"), get_backend())
        last = model.forward(prompt.tokens, cache)[-1]
        return [log_probability(model, cache, last, a) for a in prompt.alternatives]

    easy, pressed = (
        next(p for p in topic.WORKLOAD.prompts(model, 2, 360) if p.facts["pressed"] == x)
        for x in (False, True)
    )
    right, wrong = chances(easy)
    assert right > wrong + 1, "nobody disagrees at the end"
    right, wrong = chances(pressed)
    assert abs(right - wrong) < 5, "there is something to lose where somebody does"
    right, swapped, *altered = chances(summary.WORKLOAD.prompts(model, 1, 420)[0])
    assert max(right, swapped) > max(altered) + 1, (
        "values that the report does not contain are far less likely"
    )
