"""Source conflict: documents disagree about one thing, and a stated rule says which of them counts."""

from __future__ import annotations

from itertools import islice
from random import Random

from tq_core.model.chat import Message
from tq_core.model.interface import LanguageModel
from validation.workloads.filler import sentences
from validation.workloads.task import Task, maker
from validation.workloads.workload import Workload

NAME, VERSION = "conflict", 1
ATTRIBUTES = (
    ("the door of the lighthouse is painted", "red green blue yellow white black".split()),
    ("the museum stays closed every", "Monday Tuesday Wednesday Thursday Friday Saturday".split()),
    ("the regatta takes place in", "April May June July August September".split()),
    ("the new bridge is built of", "steel wood stone brick concrete glass".split()),
    ("the school's emblem shows a", "lion horse fish bear dog bird".split()),
    ("the choir's next concert will be given in", "Paris Rome London Berlin Vienna Madrid".split()),
)
AUTHORITIES = ("Official register", "Letter from a visitor", "Village newsletter")
RULES = {
    "date": "If documents disagree, the most recent document is right.",
    "authority": "If documents disagree, the official register is right.",
}
YEARS = range(1990, 2021)


def _task(random: Random, index: int, model: LanguageModel) -> Task:
    kind = ("date", "authority")[index % 2]
    right_at = (index // 2) % 3  # where the document that counts stands among three
    attribute, values = ATTRIBUTES[random.randrange(len(ATTRIBUTES))]
    right, *wrong = random.sample(values, 3)
    years = sorted(random.sample(YEARS, 3))
    if kind == "date":
        newest, authorities = years.pop(), random.sample(AUTHORITIES, 3)
        random.shuffle(years)
        years.insert(right_at, newest)
    else:
        random.shuffle(years)
        authorities = random.sample(AUTHORITIES[1:], 2)
        authorities.insert(right_at, AUTHORITIES[0])
    claims = list(wrong)
    claims.insert(right_at, right)
    heads = [f"{a}, year {y}" for a, y in zip(authorities, years, strict=True)]
    source = (
        f"the {heads[right_at].lower()}"
        if kind == "authority"
        else f"the document of the year {years[right_at]}"
    )
    stream = sentences(random)
    filler: list[str] = []
    question = f"{RULES[kind]} Complete the sentence according to the document that is right: {attribute} ..."

    def messages(amount: int) -> list[Message]:
        filler.extend(islice(stream, max(0, amount - len(filler))))
        parts = []
        for n, (head, claim) in enumerate(zip(heads, claims, strict=True)):
            mine = filler[n:amount:3]
            half = len(mine) // 2
            body = [*mine[:half], f"{attribute[0].upper()}{attribute[1:]} {claim}.", *mine[half:]]
            parts.append(f"{head}: {' '.join(body)}")
        return [Message("user", f"{RULES[kind]}\n\n" + "\n\n".join(parts) + f"\n\n{question}")]

    return Task(
        messages,
        (right, *wrong),
        opening=f"According to {source}, {attribute}",
        bare=(Message("user", question),),
        accept=(right,),
        distractors=tuple(wrong),
        new_tokens=8,
        facts={"rule": kind, "right_at": ("first", "middle", "last")[right_at]},
    )


WORKLOAD = Workload(
    name=NAME,
    version=VERSION,
    title="Source conflict under a stated rule",
    shows="Whether the value of the document that the rule prefers still outweighs the other two after compression.",
    cannot_show="Judgement of sources: the reply's opening names the document that counts.",
    make=maker(NAME, VERSION, _task),
    least=256,
)
