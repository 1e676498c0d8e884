"""Summarization: a report on two places, eight facts among sentences that matter to nobody, to be told in short."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from random import Random

from tq_core.model.chat import Message
from tq_core.model.interface import LanguageModel
from validation.workloads.conversation import literal_ids
from validation.workloads.filler import sentences
from validation.workloads.prompt import Prompt
from validation.workloads.replies import numbers
from validation.workloads.task import Task, as_tokens, make_prompt, random_of
from validation.workloads.workload import Workload

NAME, VERSION = "summary", 1
NEW_TOKENS = 64
ALTERED = 2
PLACES = "library hospital castle cinema stadium zoo airport brewery gallery courthouse".split()
NAMES = "Martin Helen Oscar Clara Victor Emily George Alice Robert Julia Samuel Laura Peter Nora Simon Irene".split()
MONTHS = "January February March April May June July August September October November December".split()
ASK = "Write a short summary of this report. Say what it tells about visitors, costs, opening months and persons."
OPENING = "The report says that the {p}"
SUMMARY = "had {visitors} visitors and is run by {head}. Its roof cost {cost} euros, and its new rooms open in {opening}."


@dataclass(frozen=True)
class Kind:
    """A kind of fact: how a record says that it is {v} for the place {p}, how a summary goes on after "the {p}", and a random value."""

    report: str
    short: str
    draw: Callable[[Random], str]


# The place comes before its value everywhere: that is the order in which a small model finds it again.
KINDS = {
    "visitors": Kind(
        "Last year the {p} had {v} visitors.",
        "had {v} visitors",
        lambda r: str(r.randrange(120, 980)),
    ),
    "head": Kind(
        "At present the {p} is run by {v}.",
        "is run by {v}",
        lambda r: r.choice(NAMES),
    ),
    "cost": Kind(
        "The {p} had its roof repaired for {v} euros.",
        "had its roof repaired for {v} euros",
        lambda r: str(r.randrange(2100, 9900, 10)),
    ),
    "opening": Kind(
        "The {p} will open new rooms in {v}.",
        "will open new rooms in {v}",
        lambda r: r.choice(MONTHS),
    ),
}


def draw(random: Random, kind: str, taken: list[str]) -> str:
    """A value that is not taken yet; it is taken afterwards."""
    while (value := KINDS[kind].draw(random)) in taken:
        pass
    taken.append(value)
    return value


def _prompt(model: LanguageModel, index: int, n_tokens: int) -> Prompt:
    random = random_of(NAME, VERSION, index)
    taken: list[str] = []
    places = random.sample(PLACES, 2)
    record = {(p, k): draw(random, k, taken) for k in KINDS for p in places}
    asked, place = list(KINDS)[index % len(KINDS)], places[index // len(KINDS) % 2]
    other = next(p for p in places if p != place)
    # What is said of the other place is the likeliest mistake: the small model tells the places apart in most prompts, not in all.
    wrong = [record[other, asked], *(draw(random, asked, taken) for _ in range(ALTERED))]
    facts = [KINDS[k].report.format(p=p, v=v) for (p, k), v in record.items()]
    spots = [random.uniform(0, 0.5) + 0.5 * (p == places[1]) for p, _ in record]
    stream = sentences(random)
    filler: list[str] = []

    def messages(amount: int) -> list[Message]:
        filler.extend(islice(stream, max(0, amount - len(filler))))
        text = list(filler[:amount])
        for spot, fact in sorted(zip(spots, facts, strict=True), reverse=True):
            text.insert(round(spot * amount), fact)
        return [
            Message("user", f"Report on the {places[0]} and the {places[1]}\n\n{' '.join(text)}\n\n{ASK}")
        ]

    bare = Message("user", f"{ASK} It is about the {places[0]} and the {places[1]}.")
    task = Task(
        messages,
        tuple(KINDS[asked].short.format(v=v) for v in (record[place, asked], *wrong)),
        opening=OPENING.format(p=place),
        bare=(bare,),
        accept=tuple(record.values()),
        new_tokens=NEW_TOKENS,
        facts={
            "asked": asked,
            "place": place,
            "numbers": sorted({n for f in facts for n in numbers(f)}, key=float),
        },
    )
    told, rest = (SUMMARY.format(**{k: record[p, k] for k in KINDS}) for p in (place, other))
    answer = as_tokens(literal_ids(model, f" {told} The {other} {rest}"))
    longest = max(NEW_TOKENS, *(len(literal_ids(model, f" {a}")) for a in task.alternatives))
    prompt = make_prompt(model, NAME, VERSION, index, n_tokens - max(0, len(answer) - longest), task)
    return replace(prompt, answer=answer)


def _make(model: LanguageModel, count: int, n_tokens: int) -> list[Prompt]:
    return [_prompt(model, index, n_tokens) for index in range(count)]


WORKLOAD = Workload(
    name=NAME,
    version=VERSION,
    title="Summarization",
    shows="How far an arm moves a written summary of eight facts; whether a fact is preferred to the same kind of fact of the "
    "other place and to altered ones; how many facts and invented numbers a free reply contains.",
    cannot_show="How well a model summarizes: the summary that is scored is given. Free replies of a model with 135 million "
    "parameters name one or two of the facts without any compression, and numbers in words are not seen.",
    make=_make,
    least=400,
)
