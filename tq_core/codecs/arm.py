"""An arm: a key codec, a value codec, a recent window and sink tokens, under a name."""

from __future__ import annotations

import hashlib
import json
import numbers
from dataclasses import dataclass
from typing import Any

from tq_core.codecs.base import KeyCodec, ValueCodec, describe
from tq_core.codecs.fp16 import HalfKeys, HalfValues
from tq_core.errors import CodecError, check
from tq_core.math.books import BOOK_VERSION

WINDOW = 128


@dataclass(frozen=True)
class Arm:
    """A named pair of codecs with its cache policy.

    window: newest tokens kept in float16 (the current one included); None keeps all of them, which only
    an arm without coded tokens may ask for. sinks: first tokens kept in float16 for good. Raises CodecError
    for a count that is not 0 or more, and for codecs that cannot share a page.
    """

    name: str
    key_codec: KeyCodec
    value_codec: ValueCodec
    window: int | None
    sinks: int

    def __post_init__(self) -> None:
        coded = not (isinstance(self.key_codec, HalfKeys) and isinstance(self.value_codec, HalfValues))
        for label, value in (("window", self.window), ("sinks", self.sinks)):
            count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31
            ok = count or (value is None and label == "window" and not coded)
            check(ok, label, "a count of tokens, 0 or more", repr(value), CodecError)
        pages = (self.key_codec.page_tokens, self.value_codec.page_tokens)
        check(
            pages[0] == pages[1],
            "value_codec",
            f"pages of {pages[0]} tokens as the key codec",
            pages[1],
            CodecError,
        )
        whole = all(self.flush_tokens % c.flush_tokens == 0 for c in (self.key_codec, self.value_codec))
        check(
            whole and pages[0] % self.flush_tokens == 0,
            "flush_tokens",
            "groups that divide each other",
            self.flush_tokens,
            CodecError,
        )

    @property
    def flush_tokens(self) -> int:
        """Tokens that leave the window together: the larger of what the two codecs need."""
        return max(self.key_codec.flush_tokens, self.value_codec.flush_tokens)

    def describe(self) -> dict[str, Any]:
        """The effective configuration as plain data."""
        return {
            "arm": self.name,
            "keys": describe(self.key_codec),
            "values": describe(self.value_codec),
            "window": self.window,
            "sinks": self.sinks,
            "flush_tokens": self.flush_tokens,
            "codebooks": BOOK_VERSION,
        }

    @property
    def digest(self) -> str:
        """SHA-256 of the effective configuration in canonical JSON."""
        text = json.dumps(self.describe(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def one_of(label: str, value: Any, allowed: tuple[Any, ...]) -> Any:
    """The entry of ``allowed`` that equals value. Raises CodecError naming the option when there is none."""
    plain = isinstance(value, (numbers.Real, str)) and not isinstance(value, bool)
    check(plain and value in allowed, label, f"one of {allowed}", repr(value), CodecError)
    return allowed[allowed.index(value)]
