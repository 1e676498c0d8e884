"""Text that keeps what matters apart: many different sentences, none said twice in one prompt, no digit and no colour in any."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from tq_core.model.chat import Message

PEOPLE = (
    "the baker|the postman|a retired teacher|the ferry pilot|the librarian|a young carpenter|the beekeeper|"
    "the night nurse|a travelling actor|the clockmaker|the gardener|my neighbour|the station master|a tired student|"
    "the innkeeper|a visiting cousin|the choir leader|the fishmonger|an old sailor|the bookbinder"
).split("|")
PLACES = (
    "behind the station|by the old mill|near the market hall|at the edge of the park|along the canal|outside the school|"
    "under the bridge|in the back of the shop|on the upper road|next to the chapel|at the foot of the hill|"
    "beside the orchard|in the long corridor|across from the theatre|at the end of the pier|inside the boathouse"
).split("|")
TIMES = (
    "before sunrise|after lunch|on the first dry day|late in the evening|during the holidays|as the rain began|"
    "while the bells rang|when the last bus had left|in early spring|shortly after the harvest|over the weekend|"
    "just before closing|in the middle of the week|on a windy morning"
).split("|")
THINGS = (
    "a crate of apples|the broken gate|an old bicycle|a stack of newspapers|the kitchen table|a pair of boots|"
    "the wooden sign|a basket of eggs|the church ladder|a jar of honey|the torn sail|a roll of canvas|the garden chairs|"
    "a box of candles|the worn carpet|a sack of flour|the spare wheel|an iron kettle|the theatre curtain|a map of the valley"
).split("|")
ACTIONS = (
    "repaired|painted|carried home|photographed|measured|sold|borrowed|forgot|found|asked about|cleaned|weighed|"
    "hid|described|gave away|looked for"
).split("|")
SHAPES = (
    "{person} {action} {thing} {place} {time}.",
    "{time}, {person} {action} {thing} {place}.",
    "Nobody {place} noticed that {person} {action} {thing}.",
    "While {person} {action} {thing}, {other} waited {place}.",
    "There was talk {place} that {person} {action} {thing} {time}.",
    "It surprised {other} that {person} {action} {thing} {time}.",
    "{place}, {person} spoke at length with {other} and later {action} {thing}.",
    "According to {other}, {person} never {action} {thing} {place}.",
    "{person} promised to come back {time}, but {other} had already {action} {thing}.",
    "What {person} wanted most was to sit {place} {time} and say nothing.",
    "The whole street knew that {other} {action} {thing}, except for {person}.",
    "Because the path {place} was muddy, {person} took the longer way {time}.",
)
REMARKS = (
    "Bread that cools too quickly loses its crust.",
    "The tide left a line of weed along the sand.",
    "A letter without a stamp may still arrive, only later.",
    "Most of the benches had been moved into the shade.",
    "Good rope is stored dry and never in the sun.",
    "The choir practised the slow part until everyone could hum it.",
    "Frost had drawn ferns on the inside of the glass.",
    "Someone had left the radio on in an empty room.",
    "A well kept tool outlives the hand that bought it.",
    "The museum smelled of wax and cold stone.",
    "Swallows nested under the roof as they did each year.",
    "The soup needed salt, and everybody was too polite to say so.",
    "Trains were late, and the waiting room filled with stories.",
    "The river ran high after the thaw and carried branches along.",
    "Children drew a map of the world on the playground.",
    "Old maps show a road where there is now a meadow.",
    "The kettle whistled twice before anyone stood up.",
    "A cat had chosen the warmest windowsill in the house.",
    "The carpenter measured twice, cut once, and swore all the same.",
    "In the evening the wind turned and the smoke went inland.",
)
SMALL_TALK = (
    ("How do I keep bread fresh?", "Wrap it in a cloth and keep it in a tin. It stays soft for a few days."),
    ("What makes a good walking stick?", "Straight ash or hazel, dried slowly, and about as high as your hip."),
    ("Why do leaves fall in autumn?", "Trees save water in winter, so they let go of what would lose it."),
    ("Is it worth repairing an old chair?", "Usually, yes. Glue the joints first and worry about the varnish later."),
    ("How does a tide table work?", "It lists when the sea is high and low, worked out from the moon and the sun."),
    ("What should I read on a long journey?", "Something with short chapters, so that you can stop at any station."),
    ("Why does my door stick in the rain?", "Wood swells when it takes up water. Plane the edge on a dry day."),
    ("How can I learn the names of birds?", "Start with the ones you hear every morning, and add one each week."),
    ("What is a sourdough starter?", "Flour and water in which wild yeast has settled. Feed it and it lives for years."),
    ("Do plants need talking to?", "They need light and water. The talking helps the gardener."),
    ("Why is the sea salty?", "Rivers carry dissolved minerals from rocks, and only the water evaporates."),
    ("How do I sharpen a kitchen knife?", "Hold a steady shallow angle on a wet stone, and take your time."),
    ("What is the best way to fold a map?", "Along the creases it came with, however much it resists."),
    ("Why do cats purr?", "Often because they are content, and sometimes to calm themselves."),
    ("Can I store apples in a cellar?", "Yes, if it is cool, and if no apple touches another."),
    ("How do bees find their way home?", "They learn landmarks and use the sun as a compass."),
)  # fmt: skip


def sentences(random: Random) -> Iterator[str]:
    """Endless filler sentences; in one stream none comes twice."""
    said: set[str] = set()
    while True:
        text = random.choice(REMARKS) if random.random() < 0.2 else _sentence(random)
        if text not in said:
            said.add(text)
            yield text


def _sentence(random: Random) -> str:
    person, other = random.sample(PEOPLE, 2)
    text = random.choice(SHAPES).format(
        person=person,
        other=other,
        place=random.choice(PLACES),
        time=random.choice(TIMES),
        thing=random.choice(THINGS),
        action=random.choice(ACTIONS),
    )
    return text[0].upper() + text[1:]


def turns(random: Random) -> Iterator[tuple[Message, Message]]:
    """Endless pairs of a user's and an assistant's turn, in varied order: questions of every day, then lines for a diary."""
    for asked, told in random.sample(SMALL_TALK, len(SMALL_TALK)):
        yield Message("user", asked), Message("assistant", told)
    lines = sentences(random)
    while True:
        yield Message("user", f"For the diary: {next(lines)}"), Message("assistant", f"Noted. {next(lines)}")
