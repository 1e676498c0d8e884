"""The retrieval task: what an episode promises, checked by reading its text."""

from __future__ import annotations

import numpy as np
import pytest

from tq_core.errors import ValueRangeError
from tq_core.model.tiny_task import VOCABULARY, detokenize, make_episode, score_retrieval, tokenize

CASES = [
    (97, 5, 3, True, None),
    (97, 5, 10, False, None),
    (1024, 80, 16, True, None),
    (151, 7, 7, False, (1, 7)),
    (151, 7, 7, True, (7, 1)),
    (13, 1, 1, True, None),
]


@pytest.mark.parametrize("n_tokens, n_bindings, n_queries, at_end, grid", CASES)
def test_an_episode_answers_its_own_questions(n_tokens, n_bindings, n_queries, at_end, grid) -> None:
    episode = make_episode(3, n_tokens, n_bindings, n_queries, at_end, grid)
    words = episode.text.split()
    assert len(words) == n_tokens and episode.tokens.dtype == np.int32
    assert words.count("note") == n_bindings and len(episode.queries) == n_queries == words.count("find")
    bound = {tuple(words[i + 1 : i + 3]): i for i, word in enumerate(words) if word == "note"}
    assert len(bound) == n_bindings, "keys differ"
    for query in episode.queries:
        p = query.position
        at = bound[tuple(words[p - 1 : p + 1])]
        assert words[p - 2] == "find" and at < p
        assert words[at + 3 : at + 5] == words[p + 1 : p + 3] == detokenize(query.answer).split()
        assert query.distance == p - (at + 2)
    if grid:
        assert len({key[0] for key in bound}) <= grid[0] and len({key[1] for key in bound}) <= grid[1]


def test_same_seed_same_episode() -> None:
    first, again, other = (make_episode(seed, 97, 5, 3) for seed in (1, 1, 2))
    assert first.queries == again.queries and np.array_equal(first.tokens, again.tokens)
    assert not np.array_equal(first.tokens, other.tokens)


def test_keys_have_neighbours_that_share_a_word() -> None:
    words = make_episode(4, 1024, 48).text.split()
    keys = [tuple(words[i + 1 : i + 3]) for i, word in enumerate(words) if word == "note"]
    near = [sum((a[0] == b[0]) != (a[1] == b[1]) for b in keys) for a in keys]
    assert np.mean(near) > 4


def test_tokenizer_round_trip_and_unknown_words() -> None:
    assert len(set(VOCABULARY)) == len(VOCABULARY)
    assert tokenize(detokenize(range(len(VOCABULARY)))) == list(range(len(VOCABULARY)))
    assert tokenize("") == [] and detokenize([]) == ""
    with pytest.raises(ValueRangeError, match="'zebra'"):
        tokenize("note red zebra")
    for bad in (-1, len(VOCABULARY)):
        with pytest.raises(ValueRangeError, match="ids"):
            detokenize([bad])


class Oracle:
    """A stand-in model that knows the next token of every episode, except where told to be wrong."""

    def __init__(self, wrong: set[int]) -> None:
        self.wrong = wrong

    def forward(self, tokens: np.ndarray, cache: list) -> np.ndarray:
        cache.append(len(tokens))
        assert len(cache) == 1, "a fresh cache for every episode"
        logits = np.zeros((len(tokens), len(VOCABULARY)), np.float32)
        logits[np.arange(len(tokens) - 1), tokens[1:]] = 50.0
        for position in self.wrong:
            logits[position] = 0.0
        return logits


def test_score_counts_a_query_right_only_if_every_token_is() -> None:
    episode = make_episode(5, 97, 5, 4)
    right = score_retrieval(Oracle(set()), list, [episode, episode])
    assert right.accuracy == 1.0 and right.mean_log_prob == pytest.approx(0.0, abs=1e-9)
    half = score_retrieval(Oracle({episode.queries[2].position + 1}), list, [episode])
    assert half.correct == (True, True, False, True) and half.accuracy == 0.75
    assert half.mean_log_prob == pytest.approx(-np.log(len(VOCABULARY)) / 8)
    assert half.distances == tuple(query.distance for query in episode.queries)
    with pytest.raises(ValueRangeError, match="episodes"):
        score_retrieval(Oracle(set()), list, [])


@pytest.mark.parametrize(
    "argument, arguments",
    [
        ("n_tokens", {"n_tokens": 48, "n_bindings": 5, "n_queries": 3}),
        ("n_bindings", {"n_tokens": 99, "n_bindings": 0}),
        ("n_bindings", {"n_tokens": 99, "n_bindings": 5, "grid": (2, 2)}),
        ("n_queries", {"n_tokens": 99, "n_bindings": 5, "n_queries": 0}),
        ("n_value_words", {"n_tokens": 99, "n_bindings": 5, "n_value_words": 33}),
        ("grid", {"n_tokens": 99, "n_bindings": 5, "grid": (1, 13)}),
    ],
)
def test_bad_arguments_are_named(argument: str, arguments: dict) -> None:
    with pytest.raises(ValueRangeError, match=argument):
        make_episode(1, **arguments)
