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
    ("The colour of the lighthouse door", "red green blue yellow white black".split()),
    ("The closing day of the museum", "Monday Tuesday Wednesday Thursday Friday Saturday".split()),
    ("The month of the regatta", "April May June July August September".split()),
    ("The material of the new bridge", "steel wood stone brick concrete glass".split()),
    ("The animal on the school's emblem", "lion horse fish bear dog bird".split()),
    ("The city of the choir's next concert", "Paris Rome London Berlin Vienna Madrid".split()),
)
AUTHORITIES = ("official register", "letter of a visitor", "village newsletter")
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
    heads = [f"From the {a}, year {y}" for a, y in zip(authorities, years, strict=True)]
    # The statement ends in what the rule goes by, so that the right one can be found by it.
    told = [
        f"{attribute} in the year {y}:" if kind == "date" else f"{attribute} by the {a}:"
        for a, y in zip(authorities, years, strict=True)
    ]
    stream = sentences(random)
    filler: list[str] = []
    question = f"{RULES[kind]} What is right? Repeat it from the document that counts: {attribute} ..."

    def messages(amount: int) -> list[Message]:
        filler.extend(islice(stream, max(0, amount - len(filler))))
        parts = []
        for n, (head, stated, claim) in enumerate(zip(heads, told, claims, strict=True)):
            mine = filler[n:amount:3]
            half = len(mine) // 2
            body = [*mine[:half], f"{stated} {claim}.", *mine[half:]]
            parts.append(f"{head}. {' '.join(body)}")
        return [Message("user", f"{RULES[kind]}\n\n" + "\n\n".join(parts) + f"\n\n{question}")]

    return Task(
        messages,
        (right, *wrong),
        opening=told[right_at],
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
    cannot_show="Judgement of sources: small models do not work out which document counts, so the reply's opening names it.",
    make=maker(NAME, VERSION, _task),
    least=256,
)
