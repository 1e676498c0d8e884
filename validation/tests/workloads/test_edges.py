"""Boundary lengths, episodes and texts."""

import numpy as np
import pytest

from tq_core.codecs.arm import WINDOW
from tq_core.errors import ValueRangeError
from tq_core.model.tiny_task import detokenize
from validation.scenarios import episode_documents, text_documents
from validation.workloads.boundary import EDGES, lengths
from validation.workloads.catalogue import WORKLOADS, prompts_of
from validation.workloads.episodes import prompt_of_episode
from validation.workloads.prompt import Prompt


def test_every_edge_is_read_from_before_to_behind(tiny):
    top = tiny.context_length
    made = [n for n, _ in lengths(top, top)]
    assert len(set(made)) == len(made) and made[:2] == [top, top - 1]
    for at in EDGES.values():
        assert {at - 1, at, at + 1} <= set(made)
    assert [n for n, _ in lengths(top, 200)] == [n for n in made if n <= 200]
    assert all(edge != "context" for _, edge in lengths(top, top - 1))


def test_lengths_and_what_they_ask_for(tiny, characters):
    for model in (tiny, characters):
        edges = lengths(model.context_length, 300)
        prompts = prompts_of(model, "boundary", len(edges) + 2, 300)
        assert [len(p.tokens) for p in prompts[: len(edges)]] == [n for n, _ in edges]
        assert all(p.facts["exact"] == (len(p.tokens) <= WINDOW) for p in prompts)
        assert not np.array_equal(prompts[0].tokens[:100], prompts[len(edges)].tokens[:100]), "another text"
        assert all(p.n_scored == len(p.tokens) - 1 for p in prompts)


def test_the_context_is_filled_and_never_passed(tiny):
    top = tiny.context_length
    assert [len(p.tokens) for p in prompts_of(tiny, "boundary", 2, top)] == [top, top - 1]
    with pytest.raises(ValueRangeError, match="workload boundary: length: expected 3..1024 tokens, got 1025"):
        prompts_of(tiny, "boundary", 2, top + 1)


def test_a_prompt_behind_the_context_is_refused_whoever_made_it(tiny):
    from dataclasses import replace

    def make(model, count, n_tokens):
        ids = np.zeros(model.context_length + 1, np.int32)
        return [Prompt("long", "x", "x", "x", "0", ids)]

    with pytest.raises(ValueRangeError, match="prompt long: expected at most 1024 tokens"):
        replace(WORKLOADS["boundary"], make=make).prompts(tiny, 1, 300)


def test_the_last_question_of_an_episode_is_asked_again_with_other_values(tiny):
    documents = episode_documents(4, 200)
    for document, p in zip(documents, prompts_of(tiny, "episodes", 4, 200), strict=True):
        assert np.array_equal(np.concatenate([p.tokens, p.answer]), document.tokens)
        assert p.n_scored == document.n_scored and len(p.answers) == 8 and p.scored_from == 1
        asked = detokenize(p.tokens[-2:].tolist())
        text = detokenize(p.tokens.tolist())
        right, *wrong = (detokenize(a.tolist()) for a in p.alternatives)
        assert f"note {asked} {right} ." in text and len(set(wrong)) == len(wrong) == 3
        assert all(f"{w} ." in text and f"note {asked} {w} ." not in text for w in wrong)
        assert detokenize(p.floor.tolist()) == f"<bos> find {asked}"
        assert text.split().index("note") >= 0 and p.facts["distance"] > 0
        at = len(p.tokens) - 1 - p.facts["distance"]
        assert (
            p.tokens[at] == p.tokens[-1] and detokenize(p.tokens[at - 2 : at + 1].tolist()) == f"note {asked}"
        )


def test_wrong_values_of_neighbouring_keys_come_first(tiny):
    p = prompt_of_episode(episode_documents(1, 240)[0])
    words = detokenize(p.tokens.tolist()).split()
    asked = words[-2:]
    key_of = {}
    for at, word in enumerate(words):
        if word == "note":
            key_of.setdefault(" ".join(words[at + 3 : at + 5]), []).append(words[at + 1 : at + 3])
    near = [
        any(k[0] == asked[0] or k[1] == asked[1] for k in key_of[detokenize(a.tolist())])
        for a in p.alternatives[1:]
    ]
    assert near == sorted(near, reverse=True) and near[0]


def test_episodes_are_for_the_tiny_model(characters):
    with pytest.raises(ValueRangeError, match="model: expected tiny"):
        prompts_of(characters, "episodes", 1, 300)


def test_texts_are_the_documents(characters):
    prompts, documents = prompts_of(characters, "text", 5, 400), text_documents(characters, 5, 400)
    assert all(
        np.array_equal(p.tokens, d.tokens) and p.name == d.name
        for p, d in zip(prompts, documents, strict=True)
    )
    assert all(p.scored_from == 1 and p.workload == "text" for p in prompts)


@pytest.mark.model
def test_the_real_context_can_be_filled():
    from tq_core.model.zoo import load_model

    model = load_model("smollm2")
    assert [len(p.tokens) for p in prompts_of(model, "boundary", 3, model.context_length)] == [
        8192,
        8191,
        128,
    ]
