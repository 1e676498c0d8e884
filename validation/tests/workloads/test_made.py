"""What every workload promises: the same prompts again, the first ones whatever the count, no longer than asked, right first."""

import re

import numpy as np
import pytest

from tq_core.codecs.arm import WINDOW
from tq_core.errors import ValueRangeError
from validation.scenarios import text_entries
from validation.workloads import catalogue, precedence, refusal, retrieval
from validation.workloads.catalogue import WORKLOADS, get, prompts_of
from validation.workloads.code import FAR_CHARACTERS
from validation.workloads.filler import sentences, turns
from validation.workloads.task import fit, random_of
from validation.workloads.workload import digest_of

LENGTH = 2400  # characters
TALKS = ("retrieval", "conflict", "precedence", "refusal")
READS = (*TALKS, "code", "text", "boundary")


@pytest.mark.parametrize("name", READS)
def test_prompts_repeat_and_do_not_depend_on_the_count(characters, name):
    many, few = prompts_of(characters, name, 6, LENGTH), prompts_of(characters, name, 3, LENGTH)
    assert digest_of(many[:3]) == digest_of(few) and len(many) == 6
    assert [p.describe() for p in many[:3]] == [p.describe() for p in few]
    assert len({p.digest for p in many}) == len({p.name for p in many}) == 6
    assert all(p.longest <= LENGTH and p.workload == name and p.source and p.licence for p in many)


def test_prompts_of_the_tiny_model_repeat(tiny):
    for name in ("episodes", "boundary"):
        many = prompts_of(tiny, name, 6, 200)
        assert digest_of(many[:3]) == digest_of(prompts_of(tiny, name, 3, 200)) != digest_of(many[3:])


@pytest.mark.parametrize("name", TALKS)
def test_generated_prompts_are_about_as_long_as_asked(characters, name):
    for n_tokens in (LENGTH, 4 * LENGTH):
        assert all(p.longest > 0.85 * n_tokens for p in prompts_of(characters, name, 8, n_tokens))


@pytest.mark.parametrize("name", (*TALKS, "code"))
def test_the_right_alternative_comes_first_and_is_the_answer(characters, name):
    for p in prompts_of(characters, name, 8, LENGTH):
        told = [characters.detokenize(a).strip() for a in p.alternatives]
        assert len(set(told)) == len(told) >= 2 and p.scored_from == len(p.tokens)
        answer = characters.detokenize(p.answer).strip()
        assert answer == told[0] or (name == "code" and re.match(rf"{told[0]}\b", answer))
        assert 0 < len(p.floor) < len(p.tokens) / 2
        if p.accept:
            assert (
                p.new_tokens > 0 and p.accept[0].startswith(told[0]) and len(p.distractors) <= len(told) - 1
            )
            assert not any(a in d or d in a for a in p.accept for d in p.distractors)


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_limits_are_said(tiny, characters, name):
    workload = WORKLOADS[name]
    assert workload.name == name and workload.shows.endswith(".") and workload.cannot_show.endswith(".")
    model = tiny if name == "episodes" else characters
    for n_tokens in (workload.least - 1, model.context_length + 1):
        with pytest.raises(ValueRangeError, match=f"workload {name}: length"):
            workload.prompts(model, 1, n_tokens)
    with pytest.raises(ValueRangeError, match="prompts"):
        workload.prompts(model, 0, 1000)


@pytest.mark.parametrize("name", (*TALKS, "code", "text"))
def test_the_tiny_model_is_told_that_it_reads_no_sentences(tiny, name):
    with pytest.raises(ValueRangeError, match=r"model: expected|text: expected words"):
        prompts_of(tiny, name, 1, 400)


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(ValueRangeError, match="did you mean 'retrieval'"):
        get("retreival")
    assert get("text") is WORKLOADS["text"]
    assert list(WORKLOADS) == [w.name for w in WORKLOADS.values()] and catalogue.FILE == "file:"


def test_as_many_texts_as_the_manifest_has():
    assert WORKLOADS["text"].most == len(text_entries())


def test_code_says_how_many_prompts_there_are(characters):
    with pytest.raises(ValueRangeError, match=r"workload code: prompts: expected 1\.\.\d+ at 2400"):
        prompts_of(characters, "code", 500, LENGTH)
    assert len(prompts_of(characters, "code", 30, 4 * LENGTH)) == 30


def test_code_continues_its_file_and_names_what_stands_far_above(characters):
    for p in prompts_of(characters, "code", 12, LENGTH):
        text, name = characters.detokenize(p.tokens), p.facts["name"]
        assert p.facts["distance"] >= FAR_CHARACTERS - 1 and re.search(rf"\b{name}\b", text)
        assert not re.search(rf"\b{name}\b", text[-FAR_CHARACTERS + 20 :]), "mentioned again, close by"
        others = [characters.detokenize(a).strip() for a in p.alternatives[1:]]
        assert all(re.search(rf"\b{o}\b", text) or len(text) < 3500 for o in others)


def test_numbers_are_stated_once_at_their_depth(characters):
    for p in prompts_of(characters, "retrieval", 20, LENGTH):
        text = characters.detokenize(p.tokens)
        assert text.count(p.accept[0]) == 1, "the right number stands in the text once"
        stated = re.findall(r"number for (\S+) is: (\d+)\.", text)
        asked = re.search(r"number for (\S+)\?", text).group(1)
        assert dict(stated)[asked] == p.accept[0]
        assert len(stated) == (1 if p.facts["kind"] == "single" else 4)
        assert {n for k, n in stated if k != asked} == set(p.distractors)
        assert abs(text.index(p.accept[0]) / len(text) - p.facts["depth"]) < 0.15
    kinds = {(p.facts["kind"], p.facts["depth"]) for p in prompts_of(characters, "retrieval", 20, LENGTH)}
    assert len(kinds) == 2 * len(retrieval.DEPTHS), "every kind at every depth"


def test_the_rule_decides_the_conflict_and_its_place_is_balanced(characters):
    places = {}
    for p in prompts_of(characters, "conflict", 12, LENGTH):
        text = characters.detokenize(p.tokens).split("\n\n", 1)[1]
        heads = re.findall(r"^From the ([a-z ]+), year (\d+)\. (.*)$", text, re.M)
        assert len(heads) == 3
        body = [b for _, _, b in heads]
        at = max(range(3), key=lambda n: int(heads[n][1])) if p.facts["rule"] == "date" else [h[0] for h in heads].index("official register")  # fmt: skip
        assert f" {p.accept[0]}." in body[at]
        assert ("first", "middle", "last")[at] == p.facts["right_at"]
        assert not any(f" {p.accept[0]}." in b for n, b in enumerate(body) if n != at)
        places.setdefault(p.facts["rule"], []).append(at)
    assert all(sorted(v) == [0, 0, 1, 1, 2, 2] for v in places.values())


def test_the_newer_value_is_in_the_window_or_out_of_it(characters):
    for p in prompts_of(characters, "precedence", 8, LENGTH):
        old, new = p.facts["old_distance"], p.facts["new_distance"]
        text = characters.detokenize(p.tokens)
        assert text.index(p.distractors[0]) < text.index(p.accept[0])
        assert old > new + WINDOW
        if p.facts["compressed"] == "both values":
            assert new >= precedence.AFTER_TOKENS


def test_forbidden_and_allowed_share_request_and_talk_and_have_opposite_answers(characters):
    prompts = prompts_of(characters, "refusal", len(refusal.ROUND), LENGTH)
    assert [(p.facts["kind"], p.facts["case"]) for p in prompts] == list(refusal.ROUND)
    by = {(p.facts["kind"], p.facts["case"]): p for p in prompts}
    for kind in refusal.KINDS:
        texts = [
            characters.detokenize(by[kind, case].tokens).split("\n\n") for case in ("forbidden", "allowed")
        ]
        a, b = (
            [characters.detokenize(x) for x in by[kind, case].alternatives]
            for case in ("forbidden", "allowed")
        )
        assert a == b[::-1] and texts[0][0] != texts[1][0]
        assert texts[0][-2:] == texts[1][-2:] and texts[0][9:11] == texts[1][9:11], "request and talk"
        assert by[kind, "forbidden"].facts["rule_distance"] > WINDOW
    for kind in ("secret", "weather"):
        assert [characters.detokenize(a) for a in by[kind, "unrelated"].alternatives] == [" can", " cannot"]
        assert characters.detokenize(by[kind, "unrelated"].tokens).split("\n\n")[0] == characters.detokenize(by[kind, "forbidden"].tokens).split("\n\n")[0]  # fmt: skip


def test_filler_does_not_repeat_itself():
    stream = sentences(random_of("x", 1, 0))
    made = [next(stream) for _ in range(500)]
    assert len(set(made)) == 500 and not any(c.isdigit() for s in made for c in s)
    pairs = turns(random_of("x", 1, 1))
    asked = [next(pairs)[0].content for _ in range(200)]
    assert len(set(asked)) == 200


def test_fitting_is_exact_and_refuses_what_cannot_fit():
    assert [fit(lambda n: 10 + 3 * n, room, "length") for room in (10, 12, 13, 99, 100)] == [0, 0, 1, 29, 30]
    with pytest.raises(ValueRangeError, match="length: expected at least 10 tokens"):
        fit(lambda n: 10 + n, 9, "length")


def test_a_prompt_that_is_too_long_for_the_model_is_refused(characters):
    class Short:
        name, context_length = "short", 700

        def tokenize(self, text):
            return characters.tokenize(text)

    with pytest.raises(ValueRangeError, match="length of refusal-000: expected at least"):
        prompts_of(Short(), "refusal", 1, 400)
    with pytest.raises(ValueRangeError, match="workload retrieval: length"):
        prompts_of(Short(), "retrieval", 1, 701)


@pytest.mark.model
@pytest.mark.parametrize("name", TALKS)
def test_alternatives_continue_the_prompt_as_one_text(name):
    """Cut between prompt and alternative, the text has the same tokens as uncut: no word is spelled in an odd way."""
    model = catalogue_model()
    for p in prompts_of(model, name, 4, 480):
        text = model.detokenize(p.tokens) + model.detokenize(p.alternatives[0])
        assert model.tokenize(text)[-len(p.answer) :] == list(p.answer)
        assert 380 < len(p.tokens) and p.longest <= 480 and p.stop_ids
        if name == "precedence" and p.facts["compressed"] == "the old value":
            assert p.facts["new_distance"] < WINDOW < p.facts["old_distance"]


@pytest.mark.model
def test_code_alternatives_continue_their_line():
    model = catalogue_model()
    for p in prompts_of(model, "code", 12, 480):
        text = model.detokenize(p.tokens) + model.detokenize(p.answer)
        assert np.array_equal(model.tokenize(text), [*p.tokens, *p.answer])


def catalogue_model():
    from tq_core.model.zoo import load_model

    return load_model("smollm2")
