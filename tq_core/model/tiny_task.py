"""The synthetic retrieval task that the tiny transformer is trained on, and its word tokenizer.

An episode is a text of short statements, one word per token:

    <bos> note red fox lamp river . the mill was quiet . note blue fox oak drum . find red fox lamp river .

A *binding* (`note`) ties a two-word key to a two-word value, *filler* separates bindings, and a *query*
(`find`) repeats a key and the value that was bound to it. Keys of one episode are drawn from a small grid of adjectives
and nouns, so that every key has neighbours which differ in one word only: telling them apart is what a
coarse key cache gets wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tq_core.errors import ValueRangeError, check

ADJECTIVES = "red blue green grey black white warm cold loud calm tall tiny".split()
NOUNS = "fox hen cat dog owl bee ant elk crow frog goat hare".split()
VALUE_WORDS = (
    "lamp river oak drum salt bell rope coin kite moon sand brick glass plum cloud stone "
    "torch wheel flute honey paper ring silk sugar tea vase wool axe bread cork dice egg"
).split()
FILLER_WORDS = (
    "the a old mill was quiet and then rain fell on hills while people slept by roads near town at dusk"
).split()
BOS, BINDS, ASKS, STOP = "<bos>", "note", "find", "."
VOCABULARY: tuple[str, ...] = (BOS, BINDS, ASKS, STOP, *ADJECTIVES, *NOUNS, *VALUE_WORDS, *FILLER_WORDS)

ANSWER_LENGTH = 2
STATEMENT_LENGTH = 1 + 2 + ANSWER_LENGTH + 1  # mark, key, value, stop; the same for bindings and queries
# Share of the key grid in use: of n keys, each has about sqrt(n / 2) neighbours in either word.
GRID_DENSITY = 0.5
_ID = {word: index for index, word in enumerate(VOCABULARY)}


def tokenize(text: str) -> list[int]:
    """Ids of the blank-separated words of `text`. Raises ValueRangeError for a word outside the vocabulary."""
    ids = []
    for word in text.split():
        check(word in _ID, "text", "words of the tiny model's vocabulary", repr(word), ValueRangeError)
        ids.append(_ID[word])
    return ids


def detokenize(ids: Sequence[int]) -> str:
    """The words of `ids`, joined by blanks. Raises ValueRangeError for an id outside the vocabulary."""
    for index in ids:
        check(0 <= int(index) < len(VOCABULARY), "ids", f"0..{len(VOCABULARY) - 1}", index, ValueRangeError)
    return " ".join(VOCABULARY[int(index)] for index in ids)


@dataclass(frozen=True)
class Query:
    """One question of an episode.

    position: index of the key's last word, whose logits predict answer[0]; position + 1 predicts answer[1].
    answer:   the two value ids. distance: tokens back to the same word of the binding.
    """

    position: int
    answer: tuple[int, ...]
    distance: int


@dataclass(frozen=True)
class Episode:
    """tokens: int32 (n_tokens,), starting with `<bos>` and with the answers written in; queries in order."""

    tokens: NDArray[np.int32]
    queries: tuple[Query, ...]

    @property
    def text(self) -> str:
        """The whole episode as words."""
        return detokenize(self.tokens.tolist())


def make_episode(
    seed: int,
    n_tokens: int,
    n_bindings: int,
    n_queries: int = 8,
    queries_at_end: bool = True,
    grid: tuple[int, int] | None = None,
    n_value_words: int = len(VALUE_WORDS),
) -> Episode:
    """A seeded episode of exactly `n_tokens` tokens.

    With `queries_at_end` all questions come last, so their distances spread over the whole length; without it
    they are strewn among the bindings (the dense supervision of training). `grid` is the number of adjectives
    and nouns that keys are made of: a square about twice as large as needed, while the words suffice. In a grid
    of one row or one column the other word alone tells keys apart. With few `n_value_words`, values repeat more.
    Raises ValueRangeError when the statements do not fit or there are not enough different keys.
    """
    check(n_bindings >= 1, "n_bindings", "1 or more", n_bindings, ValueRangeError)
    side = ceil(sqrt(n_bindings / GRID_DENSITY))
    n_adjectives, n_nouns = grid or (min(side, len(ADJECTIVES)), min(side, len(NOUNS)))
    ok = 1 <= n_adjectives <= len(ADJECTIVES) and 1 <= n_nouns <= len(NOUNS)
    limits = f"1..{len(ADJECTIVES)} adjectives, 1..{len(NOUNS)} nouns"
    check(ok, "grid", limits, (n_adjectives, n_nouns), ValueRangeError)
    most = n_adjectives * n_nouns
    check(
        n_bindings <= most, "n_bindings", f"at most the {most} keys of the grid", n_bindings, ValueRangeError
    )
    ok = 1 <= n_value_words <= len(VALUE_WORDS)
    check(ok, "n_value_words", f"1..{len(VALUE_WORDS)}", n_value_words, ValueRangeError)
    check(n_queries >= 1, "n_queries", "1 or more", n_queries, ValueRangeError)
    n_filler = n_tokens - 1 - STATEMENT_LENGTH * (n_bindings + n_queries)
    least = 1 + STATEMENT_LENGTH * (n_bindings + n_queries)
    check(n_filler >= 0, "n_tokens", f">= {least} for these statements", n_tokens, ValueRangeError)

    rng = np.random.Generator(np.random.PCG64([seed, n_tokens, n_bindings, n_queries, int(queries_at_end)]))
    adjectives, nouns = rng.permutation(len(ADJECTIVES))[:n_adjectives], rng.permutation(len(NOUNS))[:n_nouns]
    cells = rng.permutation(n_adjectives * n_nouns)[:n_bindings]
    keys = [(_ID[ADJECTIVES[adjectives[c // n_nouns]]], _ID[NOUNS[nouns[c % n_nouns]]]) for c in cells]
    values = rng.permutation(len(VALUE_WORDS))[:n_value_words] + _ID[VALUE_WORDS[0]]
    values = values[rng.integers(n_value_words, size=(n_bindings, ANSWER_LENGTH))]

    fillers = _filler_lengths(rng, n_filler)
    asks = ["ask"] * n_queries
    body = ["bind"] * (n_bindings - 1) + ["fill"] * len(fillers) + ([] if queries_at_end else asks)
    order = ["bind", *(body[i] for i in rng.permutation(len(body)))] + (asks if queries_at_end else [])

    tokens: list[int] = [_ID[BOS]]
    queries: list[Query] = []
    bound_at: list[int] = []
    pool: list[int] = []
    next_filler = 0
    for kind in order:
        if kind == "fill":
            words = rng.integers(len(FILLER_WORDS), size=fillers[next_filler] - 1) + _ID[FILLER_WORDS[0]]
            tokens += [*words.tolist(), _ID[STOP]]
            next_filler += 1
            continue
        if kind == "bind":
            which, mark = len(bound_at), _ID[BINDS]
            bound_at.append(len(tokens) + 2)
        else:
            pool = pool or rng.permutation(len(bound_at)).tolist()  # ask each key once before any twice
            which, mark = pool.pop(), _ID[ASKS]
            position = len(tokens) + 2
            queries.append(Query(position, tuple(values[which].tolist()), position - bound_at[which]))
        tokens += [mark, *keys[which], *values[which].tolist(), _ID[STOP]]
    return Episode(np.asarray(tokens, np.int32), tuple(queries))


def _filler_lengths(rng: np.random.Generator, n_filler: int) -> list[int]:
    """Lengths (with the stop) of filler sentences that add up to n_filler."""
    lengths = []
    while n_filler > 0:
        length = min(int(rng.integers(3, 9)), n_filler)
        lengths.append(length)
        n_filler -= length
    return lengths


@dataclass(frozen=True)
class RetrievalScore:
    """accuracy: share of queries with every answer token at rank 1; mean_log_prob: nats per answer token;
    distances, correct: one entry per query, in order."""

    accuracy: float
    mean_log_prob: float
    distances: tuple[int, ...]
    correct: tuple[bool, ...]


def score_retrieval(
    model: Any, cache_factory: Callable[[], Any], episodes: Sequence[Episode]
) -> RetrievalScore:
    """Runs each episode through `model.forward` with a fresh cache and scores its answers.

    Answers are teacher-forced. Raises ValueRangeError when there is no query to score.
    """
    distances, correct, log_probs = [], [], []
    for episode in episodes:
        logits = model.forward(episode.tokens, cache_factory()).astype(np.float64)
        for query in episode.queries:
            rows = logits[query.position : query.position + ANSWER_LENGTH]
            correct.append(tuple(rows.argmax(axis=1).tolist()) == query.answer)
            distances.append(query.distance)
            top = rows.max(axis=1)
            log_sum = top + np.log(np.exp(rows - top[:, None]).sum(axis=1))
            log_probs.extend(rows[np.arange(ANSWER_LENGTH), list(query.answer)] - log_sum)
    check(len(correct) > 0, "episodes", "at least one query", 0, ValueRangeError)
    return RetrievalScore(
        float(np.mean(correct)), float(np.mean(log_probs)), tuple(distances), tuple(correct)
    )
