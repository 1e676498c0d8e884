"""Scoring of free replies, as text and as token ids. Nothing here knows which model or arm wrote them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tq_core.errors import ValueRangeError, check

# A list's own numbering says nothing about the text.
LIST_MARKER = re.compile(r"^\s*\d+[.)]\s", re.M)
NUMBER = re.compile(r"(?<!\w)(?<!\d\.)\d+(?:,\d{3}(?!\d))*(?:\.\d+)?(?=\D|$)")
LOOP_TURNS = 3
LOOP_TOKENS = 8


def _plain(text: str) -> str:
    """Lower case, one space between words, no comma inside a number."""
    return re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", " ".join(text.casefold().split()))


def _pattern(term: str) -> str:
    """Matches the term where it is no part of a longer word or number: "12" is not in 120, 12.5, 3:12 or B12."""
    term = _plain(term)
    check(term != "", "term", "some text", "nothing", ValueRangeError)
    before = r"(?<!\w)(?<!\d[.:/])" if term[0].isdigit() else r"(?<!\w)"
    after = r"(?!\w)(?![.:/]\d)" if term[-1].isdigit() else r"(?!\w)"
    return before + re.escape(term) + after


def named(reply: str, terms: Iterable[str]) -> list[str]:
    """The terms that a reply contains as whole words or numbers, in any case. Raises ValueRangeError for an empty term."""
    text = _plain(reply)
    return [t for t in terms if re.search(_pattern(t), text)]


def string_match_all(reply: str, accept: Sequence[str]) -> float:
    """Share of ``accept`` that a reply contains. Raises ValueRangeError without anything to accept.

    After ``string_match_all`` of RULER (Hsieh et al., arXiv 2404.06654), but with whole words: there "12" is found in "120".
    """
    check(len(accept) > 0, "accept", "one text or more", 0, ValueRangeError)
    return len(named(reply, accept)) / len(accept)


def verdict(reply: str, accept: Sequence[str], distractors: Sequence[str]) -> str:
    """One of "right", "wrong", "both", "neither". Right: all of ``accept`` is there; wrong: any of the distractors is."""
    right, wrong = string_match_all(reply, accept) == 1.0, bool(named(reply, distractors))
    return ("both" if wrong else "right") if right else ("wrong" if wrong else "neither")


def numbers(text: str) -> list[str]:
    """Numbers written in digits, in order, without commas for thousands; the numbering of a list is none."""
    return [m.group().replace(",", "") for m in NUMBER.finditer(LIST_MARKER.sub("", text))]


def invented_numbers(reply: str, known: Iterable[str]) -> list[str]:
    """Numbers in a reply that are not among the ``known`` ones, in order. Numbers in words are not seen."""
    told = {float(k.replace(",", "")) for k in known}
    return [n for n in numbers(reply) if float(n) not in told]


def distinct_ngrams(ids: Sequence[int], n: int = 4) -> float:
    """Share of a reply's n-grams of token ids that differ from each other; 1.0 when it has fewer than n ids: nothing is said twice.

    Raises ValueRangeError for n < 1.
    """
    check(n >= 1, "n", "1 or more", n, ValueRangeError)
    grams = [tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)]
    return len(set(grams)) / len(grams) if grams else 1.0


def loop_rate(ids: Sequence[int]) -> float:
    """Share of a reply taken up by a loop at its end: the same tokens LOOP_TURNS times or more, LOOP_TOKENS ids at least.

    0.0 without one. A greedy reply that has fallen into a loop stays in it, so loops are looked for at the end alone.
    """
    longest = 0
    for period in range(1, len(ids) // LOOP_TURNS + 1):
        same = 0
        while same + period < len(ids) and ids[-1 - same] == ids[-1 - same - period]:
            same += 1
        length = same + period
        if length >= max(LOOP_TURNS * period, LOOP_TOKENS):
            longest = max(longest, length)
    return longest / len(ids) if longest else 0.0
