"""Current-turn precedence: a value is set, talked over, set anew, and asked for. The newer one counts."""

from __future__ import annotations

from random import Random

from tq_core.codecs.arm import WINDOW
from tq_core.model.chat import Message
from tq_core.model.interface import LanguageModel
from validation.workloads.conversation import conversation
from validation.workloads.filler import turns
from validation.workloads.task import Task, maker
from validation.workloads.workload import Workload

NAME, VERSION = "precedence", 1
FLUSH_TOKENS = 32  # the largest group in which tokens leave the window
AFTER_TOKENS = WINDOW + FLUSH_TOKENS  # turns after the new value, so that it has left the window for certain
SETTINGS = (
    ("the password of the boathouse", "walnut silver harbour candle meadow thunder pebble violin".split()),
    ("the colour of my new car", "red green blue yellow white black".split()),
    ("the city where we meet", "Paris Rome London Berlin Vienna Madrid".split()),
    ("the day of the meeting", "Monday Tuesday Wednesday Thursday Friday Saturday".split()),
    ("the name of my dog", "Oscar Bella Max Luna Charlie Rosie".split()),
    ("the dish for the party", "soup pizza salad curry pasta fish".split()),
    ("the instrument that I play", "piano violin guitar flute drum harp".split()),
    ("the month of our holiday", "April May June July August September".split()),
)


def _task(random: Random, index: int, model: LanguageModel) -> Task:
    both = index % 2 == 1
    what, values = SETTINGS[random.randrange(len(SETTINGS))]
    old, new = random.sample(values, 2)
    stream = turns(random)
    filler: list[Message] = []
    first = Message("user", f"Please remember: {what} is {old}.")
    second = Message("user", f"Please remember the change: {what} is now {new}.")
    agreed = Message("assistant", "I will remember that.")
    late: list[Message] = []
    if both:
        while len(conversation(model, [second, *late]).ids) < AFTER_TOKENS + len(
            conversation(model, [second]).ids
        ):
            late.extend(next(stream))
    question = Message("user", f"Please repeat what {what} is now, after the change.")

    def messages(amount: int) -> list[Message]:
        while len(filler) < 2 * amount:
            filler.extend(next(stream))
        return [first, agreed, *filler[: 2 * amount], second, agreed, *late, question]

    return Task(
        messages,
        (new, old),
        opening=f"{what[0].upper()}{what[1:]} is now",
        bare=(question,),
        accept=(new,),
        distractors=(old,),
        new_tokens=8,
        facts={"compressed": "both values" if both else "the old value"},
        marks={"old": first, "new": second},
    )


WORKLOAD = Workload(
    name=NAME,
    version=VERSION,
    title="Current-turn precedence",
    shows="Whether the newer of two settings still wins when the older one is compressed, and when both are. "
    f"Even prompts keep the newer one inside a window of {WINDOW} tokens, odd ones put {AFTER_TOKENS} or more between.",
    cannot_show="What happens with another window: the distances in tokens are among the facts of each prompt.",
    make=maker(NAME, VERSION, _task),
    least=400,
)
