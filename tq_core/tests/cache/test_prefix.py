"""A prefix is reused only when its tokens are the prompt's: a digest that collides changes nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tq_core.cache import prefix as prefix_module
from tq_core.cache.prefix import PrefixIndex, PrefixRecord, match_prefix
from tq_core.codecs.arms import get_arm
from tq_core.errors import DTypeError, IdentityMismatch, ValueRangeError
from tq_core.tests.cache.savings import identity_of
from tq_core.tests.cache.worlds import SHAPE

IDENTITY = identity_of(SHAPE, get_arm("structured-turbo"))


def record(*tokens: int) -> PrefixRecord:
    return PrefixRecord(IDENTITY.with_tokens(tokens), tokens)


@pytest.mark.parametrize(
    "saved, prompt, want",
    [([], [], 0), ([1, 2, 3], [], 0), ([1, 2, 3], [1, 2, 3], 3), ([1, 2, 3], [1, 2, 4, 3], 2), ([1, 2], [1, 2, 3], 2),
     ([2, 1], [1, 2], 0), ([1, 2, 3], [1], 1)],
)  # fmt: skip
def test_the_common_tokens_are_counted(saved: list[int], prompt: list[int], want: int) -> None:
    assert match_prefix(saved, prompt) == want == match_prefix(np.array(saved, np.int64), prompt)


@pytest.mark.parametrize(
    "bad, error",
    [([1.5], DTypeError), ([[1]], DTypeError), ([-1], ValueRangeError), ([2**31], ValueRangeError)],
)
def test_what_is_not_a_row_of_ids_is_refused(bad: list, error: type[Exception]) -> None:
    with pytest.raises(error, match="^tokens: expected "):
        match_prefix([1], bad)


def test_the_longest_stored_prefix_is_found() -> None:
    index = PrefixIndex()
    for r in (record(1, 2), record(1, 2, 3, 4), record(9), record(1, 2, 3, 4, 5, 6)):
        index.add(r)
    assert index.longest(IDENTITY, [1, 2, 3, 4, 5]) == record(1, 2, 3, 4)
    assert index.longest(IDENTITY, [1, 2, 3]) == record(1, 2)
    assert index.longest(IDENTITY, [2, 1]) is None
    assert index.longest(IDENTITY, []) is None


def test_another_identity_finds_nothing_and_matches_nothing() -> None:
    index = PrefixIndex()
    index.add(record(1, 2))
    other = replace(IDENTITY, model_digest="ff" * 32)
    assert index.longest(other, [1, 2]) is None
    with pytest.raises(IdentityMismatch, match="^model_digest: expected "):
        record(1, 2).match(other, [1, 2])
    assert record(1, 2).match(IDENTITY, [1, 2, 3]) == 2


def test_a_planted_collision_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a digest that is the same for all tokens, only the comparison of the tokens stands in between."""
    monkeypatch.setattr(prefix_module, "token_digest", lambda tokens: "00" * 32)
    index = PrefixIndex()
    index.add(record(1, 2, 3))
    assert index._found[index._key(IDENTITY, np.array([7, 8, 9], np.int32))] == record(
        1, 2, 3
    )  # it does collide
    assert index.longest(IDENTITY, [7, 8, 9]) is None
    assert index.longest(IDENTITY, [1, 2, 4]) is None
    assert index.longest(IDENTITY, [1, 2, 3, 4]) == record(1, 2, 3)
    monkeypatch.setattr(
        prefix_module, "match_prefix", lambda saved, prompt: len(saved)
    )  # the fault that it prevents
    assert index.longest(IDENTITY, [7, 8, 9]) == record(1, 2, 3)
