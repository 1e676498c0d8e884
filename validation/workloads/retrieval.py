"""Long retrieval: one number among near-identical ones, stated once, somewhere in a long text.

After the needle tests of RULER (Hsieh et al., arXiv 2404.06654, tasks niah_single and niah_multikey), with filler that
does not repeat and with keys that share a word with each other.
"""

from __future__ import annotations

from itertools import islice
from random import Random

from tq_core.model.chat import Message
from tq_core.model.interface import LanguageModel
from validation.workloads.filler import sentences
from validation.workloads.task import Task, maker
from validation.workloads.workload import Workload

NAME, VERSION = "retrieval", 1
ADJECTIVES = "amber brisk copper dusty eager frozen gentle hollow ivory jolly lonely mellow narrow polite rusty silent".split()
NOUNS = "anchor basket canyon dragon engine falcon garden harbour island jacket kettle lantern market needle orchard pillow".split()  # fmt: skip
DEPTHS = (0.1, 0.5, 0.9, 0.3, 0.7)
DIGITS = 7
SINGLE_EVERY = 4  # small models find a lone number almost always, so most prompts have four keys


def statement(key: str, number: str) -> str:
    """The sentence that is looked for."""
    return f"The special magic number for {key} is: {number}."


def _near(number: str, random: Random) -> str:
    """Another number that differs in one digit."""
    where = random.randrange(1, len(number))
    digit = random.choice([d for d in "0123456789" if d != number[where]])
    return number[:where] + digit + number[where + 1 :]


def _task(random: Random, index: int, model: LanguageModel) -> Task:
    single = index % SINGLE_EVERY == 0
    depth = DEPTHS[index % len(DEPTHS)]
    adjectives, nouns = random.sample(ADJECTIVES, 2), random.sample(NOUNS, 4)
    keys = [
        f"{adjectives[n // 2]}-{noun}" for n, noun in enumerate(nouns)
    ]  # two and two share their first word
    numbers = [str(n) for n in random.sample(range(10 ** (DIGITS - 1), 10**DIGITS), len(keys))]
    others = [random.uniform(0, 1) for _ in keys[1:]]
    told = [(depth, keys[0], numbers[0])] + (
        [] if single else list(zip(others, keys[1:], numbers[1:], strict=True))
    )
    wrong = (
        tuple(dict.fromkeys(_near(numbers[0], random) for _ in range(3))) if single else tuple(numbers[1:])
    )
    stream = sentences(random)
    filler: list[str] = []
    intro = "A text follows. Some special magic numbers are hidden in it; remember them."
    question = f"What is the special magic number for {keys[0]}?"

    def messages(amount: int) -> list[Message]:
        filler.extend(islice(stream, max(0, amount - len(filler))))
        text = list(filler[:amount])
        for place, key, number in sorted(told, reverse=True):
            text.insert(round(place * amount), statement(key, number))
        return [Message("user", f"{intro}\n\n{' '.join(text)}\n\n{question}")]

    return Task(
        messages,
        (numbers[0], *wrong),
        opening=f"The special magic number for {keys[0]} is:",
        bare=(Message("user", question),),
        accept=(numbers[0],),
        distractors=() if single else wrong,
        new_tokens=12,
        facts={"kind": "single" if single else "multikey", "depth": depth},
    )


WORKLOAD = Workload(
    name=NAME,
    version=VERSION,
    title="Long retrieval with distractors",
    shows="Whether one of several nearly identical keys is still told from the others after its text was compressed, by depth.",
    cannot_show="Understanding of a long text: the question repeats the words of the statement. "
    "A lone number is found almost always by the small models here, so those prompts warn of gross damage only.",
    make=maker(NAME, VERSION, _task),
    least=256,
)
