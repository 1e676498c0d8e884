"""How inputs are changed: blindly, field by field, and by writing files from images that lie."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tq_core.cache.fields import Field, Record
from tq_core.cache.identity import token_digest
from tq_core.cache.page import HEADER
from tq_core.cache.saved_format import SUPER, Image
from tq_core.cache.saved_write import chunks
from tq_core.errors import TqError
from validation.fuzz.forge import places, repair

Mutator = Callable[[random.Random, bytearray, bytes], None]
MAX_BYTES = 1 << 16


def _span(rng: random.Random, size: int) -> tuple[int, int]:
    """A place and a length in ``size`` bytes, short ones more often; the tables in front more often than the pages."""
    at = rng.randrange(size) if rng.random() < 0.4 else rng.randrange(min(size, 3000))
    return at, min(size - at, 1 << rng.randrange(8))


def flip_bits(rng: random.Random, raw: bytearray, other: bytes) -> None:
    """Flip one to eight bits."""
    for _ in range(rng.randint(1, 8) if raw else 0):
        raw[_span(rng, len(raw))[0]] ^= 1 << rng.randrange(8)


def set_bytes(rng: random.Random, raw: bytearray, other: bytes) -> None:
    """Overwrite a run with one value or with noise."""
    if raw:
        at, n = _span(rng, len(raw))
        raw[at : at + n] = (
            rng.randbytes(n) if rng.random() < 0.5 else bytes([rng.choice((0, 1, 127, 128, 255))]) * n
        )


def cut(rng: random.Random, raw: bytearray, other: bytes) -> None:
    """Drop the end, or a run inside."""
    if raw:
        at, n = _span(rng, len(raw))
        del raw[at : len(raw) if rng.random() < 0.5 else at + n]


def grow(rng: random.Random, raw: bytearray, other: bytes) -> None:
    """Insert or append a run."""
    at = len(raw) if rng.random() < 0.5 else rng.randrange(len(raw) + 1)
    raw[at:at] = rng.randbytes(1 << rng.randrange(9))


def splice(rng: random.Random, raw: bytearray, other: bytes) -> None:
    """Overwrite a run with one of another file, or with one from elsewhere in this file."""
    source = other if rng.random() < 0.5 else bytes(raw)
    if raw and source:
        at, n = _span(rng, len(source))
        to = rng.randrange(len(raw))
        raw[to : to + n] = source[at : at + n]


def odd_value(rng: random.Random, field: Field, now: int) -> int:
    """A number of the field's range: an edge, near the present one, or anything."""
    edges = [0, 1, 63, 64, 65, 2**16 - 1, 2**31, 2**32 - 64, field.limit, field.limit - 63, field.limit // 2]
    near = [now + d for d in (-64, -16, -8, -1, 1, 8, 16, 64)] + [
        now * 2,
        now // 2,
        now ^ 1 << rng.randrange(32),
    ]
    value = rng.choice(edges) if rng.random() < 0.4 else rng.choice(near)
    return rng.randrange(field.limit + 1) if rng.random() < 0.1 else value % (field.limit + 1)


def set_field(rng: random.Random, raw: bytearray, other: bytes) -> None:
    """Give a field of a record another value."""
    found = list(places(raw))
    if found:
        place = rng.choice(found)
        set_record_field(rng, raw, place.record, place.at)


def set_record_field(rng: random.Random, raw: bytearray, record: Record, at: int) -> None:
    """Give one field of the record at byte ``at`` another value."""
    field = rng.choice(record.fields)
    if field.limit:
        record.put(raw, field.name, odd_value(rng, field, record.get(raw, field.name, at)), at)
    else:
        record.put(raw, field.name, rng.randbytes(field.nbytes), at)


def swap_records(rng: random.Random, raw: bytearray, other: bytes) -> None:
    """Exchange two records of one kind."""
    found = list(places(raw))
    if found:
        a = rng.choice(found)
        b = rng.choice([place for place in found if place.record is a.record])
        n = a.record.nbytes
        first, second = bytes(raw[a.at : a.at + n]), bytes(raw[b.at : b.at + n])
        raw[a.at : a.at + n], raw[b.at : b.at + n] = second, first


def dirty_padding(rng: random.Random, raw: bytearray, other: bytes) -> None:
    """Write into the zeros between the tables and the pages."""
    ends = [place.at + place.record.nbytes for place in places(raw) if place.record is not HEADER]
    end, pages_at = max(ends, default=0), SUPER.get(raw, "pages_at") if ends else 0
    if end < pages_at <= len(raw):
        raw[rng.randrange(end, pages_at)] ^= 1 << rng.randrange(8)


BLIND: tuple[Mutator, ...] = (flip_bits, set_bytes, cut, grow, splice)
AWARE: tuple[Mutator, ...] = (set_field,) * 6 + (swap_records, dirty_padding)


def mutated(rng: random.Random, raw: bytes, other: bytes) -> bytes:
    """One to four changes, after which the checksums often fit again."""
    out = bytearray(raw)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        rng.choice(AWARE if rng.random() < 0.6 else BLIND)(rng, out, other)
    del out[MAX_BYTES:]
    if rng.random() < 0.7:
        repair(out)
    return bytes(out)


def lying(rng: random.Random, image: Image) -> bytes:
    """The file of an image in which one to three numbers, tokens or identity fields were changed.

    Lengths and checksums are right by construction, so only the meaning can be wrong.
    """
    stores, tokens, identity = list(image.stores), image.tokens.copy(), image.identity
    for _ in range(rng.randint(1, 3)):
        kind = rng.randrange(5)
        index = rng.randrange(len(stores))
        store = stores[index]
        if kind == 0:
            layers = list(store.layers)
            which = rng.randrange(len(layers))
            name = rng.choice(("n_pages", "first", "end", "dropped", "position", "valid"))
            layers[which] = replace(
                layers[which], **{name: max(0, getattr(layers[which], name) + rng.choice((-1, 1, 32)))}
            )
            stores[index] = replace(store, layers=tuple(layers))
        elif kind == 1:
            name, change = rng.choice((("page_bytes", 64), ("page_tokens", 1), ("page_tokens", 32)))
            stores[index] = replace(
                store, **{name: max(0, getattr(store, name) + rng.choice((-1, 1)) * change)}
            )
        elif kind == 2:
            stores[index] = replace(store, pages=store.pages[: rng.randrange(len(store.pages) + 1)])
        elif kind == 3:
            tokens = tokens[: rng.randrange(len(tokens) + 1)]
            if rng.random() < 0.7:
                identity = replace(identity, context_tokens=token_digest(tokens))
        else:
            name = rng.choice(list(vars(identity)))
            value = getattr(identity, name)
            odd: Any = value + 1 if isinstance(value, int) else value[::-1] + "x"
            identity = replace(identity, **{name: odd})
    try:
        return b"".join(chunks(Image(identity, tokens, tuple(stores))))
    except TqError:  # a number that its field cannot hold: there is no such file
        return b""
