"""Damage done to pages on purpose, and what the reader says to it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_core.cache.page import HEADER, VERSION, verify_page
from tq_core.errors import TqError
from tq_core.kernels.layout import HEADER_BYTES

U8 = npt.NDArray[np.uint8]
ACCEPTED = "accepted"


def answer(call: Callable[[], Any]) -> str:
    """What a call says: its typed error with the reason, or "accepted"."""
    try:
        call()
    except TqError as error:
        return f"{type(error).__name__}: {error}"
    return ACCEPTED


def with_field(page: U8, name: str, value: Any) -> U8:
    """A copy of the page with one header field overwritten."""
    made = page.copy()
    HEADER.put(made, name, value)
    return made


# One wrong value for a header field of a full page of 128 tokens with one query head and one KV head.
HARM: dict[str, Any] = {
    "magic": b"GGUF",
    "version": VERSION + 1,
    "used": 129,
    "head_dim": 33,
    "page_tokens": 0,
    "n_kv_heads": 2,
    "key_codec": 200,
    "reserved_a": 1,
    "flags": 0,
    "checksum": 0,
}


def harm_rows(page: U8) -> list[list[object]]:
    """(changed, answer of the reader) for every entry of HARM."""
    return [
        [f"{name} = {value}", answer(partial(verify_page, with_field(page, name, value)))]
        for name, value in HARM.items()
    ]


def flip_every_byte(page: U8, mask: int = 0x01) -> Counter[tuple[str, str]]:
    """Flip the bits of ``mask`` in each byte of a page in turn: how often (place, answer without its numbers) came."""
    counts: Counter[tuple[str, str]] = Counter()
    for at in range(len(page)):
        made = page.copy()
        made[at] ^= mask
        said = answer(partial(verify_page, made))
        place = "header" if at < HEADER_BYTES else "streams"
        counts[place, re.split(r": expected|, got", said)[0]] += 1
    return counts
