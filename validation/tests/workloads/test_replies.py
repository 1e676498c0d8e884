"""Scores of free replies: whole words and numbers, invented numbers, repeats and loops."""

import pytest

from tq_core.errors import ValueRangeError
from validation.workloads.replies import (
    distinct_ngrams,
    invented_numbers,
    loop_rate,
    named,
    numbers,
    string_match_all,
    verdict,
)


@pytest.mark.parametrize(
    ("reply", "term"),
    [
        ("There were 12.", "12"),
        ("It costs 12, or so", "12"),
        ("12", "12"),
        ("(12)", "12"),
        ("at 3:12 sharp", "3:12"),
        ("MARIA said so", "Maria"),
        ("on the\nthird  day", "third day"),
        ("1,200 euros", "1200"),
        ("1200 euros", "1,200"),
        ("exactly 12.5 litres", "12.5"),
        ("Straße", "STRASSE"),
        ("c++ (see above)", "C++"),
    ],
)
def test_what_a_reply_contains(reply, term):
    assert named(reply, [term]) == [term]


@pytest.mark.parametrize(
    ("reply", "term"),
    [
        ("There were 120.", "12"),
        ("There were 312.", "12"),
        ("There were 12.5", "12"),
        ("There were 3.12", "12"),
        ("at 3:12 sharp", "12"),
        ("There were 12,000", "12"),
        ("room B12", "12"),
        ("Mariana said so", "Maria"),
        ("Annamaria said so", "Maria"),
        ("", "Maria"),
        ("1,200", "200"),
    ],
)
def test_what_a_reply_does_not_contain(reply, term):
    assert named(reply, [term]) == []


def test_the_share_of_what_is_accepted():
    assert string_match_all("Clara came in May.", ["clara", "MAY", "1200", "June"]) == 0.5
    with pytest.raises(ValueRangeError, match="accept"):
        string_match_all("anything", [])
    with pytest.raises(ValueRangeError, match="term"):
        named("anything", [" "])


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("It is blue.", "right"),
        ("It is green.", "wrong"),
        ("Blue, not green.", "both"),
        ("I do not know.", "neither"),
    ],
)
def test_verdicts(reply, expected):
    assert verdict(reply, ["blue"], ["green", "red"]) == expected
    assert verdict(reply, ["blue"], []) in ("right", "neither")


def test_numbers_are_read_as_written():
    text = "1. The mill had 1,250 guests on 3 May.\n2) It cost 7.50, not .. 8; room B12, the 21st, 10-12."
    assert numbers(text) == ["1250", "3", "7.50", "8", "21", "10", "12"]
    assert numbers("none") == []
    assert numbers("the year 1998.") == ["1998"], "a full stop is no decimal point"
    assert numbers("12,34") == ["12", "34"]


def test_invented_numbers():
    known = ["1250", "7.5", "3"]
    assert invented_numbers("1,250 guests paid 7.50 on 3 May", known) == []
    assert invented_numbers("125 guests and 1250 more, 99 of them late", known) == ["125", "99"]
    assert invented_numbers("5", []) == ["5"]


def test_distinct_ngrams():
    assert distinct_ngrams(range(20)) == 1.0
    assert distinct_ngrams([7] * 20) == 1 / 17
    assert distinct_ngrams([1, 2, 3, 4] * 2, 4) == 4 / 5
    assert distinct_ngrams([1, 2, 3]) == distinct_ngrams([]) == 1.0
    with pytest.raises(ValueRangeError, match="n: "):
        distinct_ngrams([1, 2], 0)


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([], 0.0),
        ([5], 0.0),
        (list(range(48)), 0.0),
        ([5] * 48, 1.0),
        (list(range(100, 124)) + [1, 2, 3] * 8, 0.5),
        (list(range(100, 124)) + [1, 2, 3] * 2, 0.0),  # said twice is no loop
        ([*range(10), 4, 4, 4], 0.0),  # three equal tokens, such as dots, are none either
        ([1, 2, 3] * 8 + list(range(100, 124)), 0.0),  # the reply went on
        ([9, 1, 2, 1, 2, 1, 2, 1, 2, 1], 0.9),  # the last turn need not be complete
    ],
)
def test_loops(ids, expected):
    assert loop_rate(ids) == pytest.approx(expected)
