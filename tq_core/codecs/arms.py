"""Arms: a key codec, a value codec, a recent window and sink tokens, under a name.

An arm is what is compared with another arm. All tokens first enter the recent window as float16; those
that leave it are encoded from their float16 form.
"""

from __future__ import annotations

import hashlib
import json
import numbers
from dataclasses import dataclass
from typing import Any

from tq_core.codecs.base import KeyCodec, ValueCodec, describe
from tq_core.codecs.fp16 import HalfKeys, HalfValues
from tq_core.codecs.kivi import KIVI_BITS, KiviKeys, KiviValues
from tq_core.codecs.registry import Registry
from tq_core.codecs.turboquant import TurboKeys, TurboValues
from tq_core.errors import CodecError, check
from tq_core.math.books import BOOK_VERSION, RATES
from tq_core.math.prng import check_seed
from tq_core.math.quantize import NormMode

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


def _one_of(label: str, value: Any, allowed: tuple[Any, ...]) -> Any:
    """The entry of ``allowed`` that equals value. Raises CodecError naming the option when there is none."""
    plain = isinstance(value, (numbers.Real, str)) and not isinstance(value, bool)
    check(plain and value in allowed, label, f"one of {allowed}", repr(value), CodecError)
    return allowed[allowed.index(value)]


def _fp16(sinks: int = 0) -> Arm:
    return Arm("fp16", HalfKeys(), HalfValues(), None, sinks)


def _turbo(
    name: str,
    code: str,
    bits: tuple[float, float],
    policy: tuple[int, int],
    seed: int,
    norms: tuple[str, str],
    arithmetic: str,
    key_centre: str,
) -> Arm:
    """Structured TurboQuant on both sides; the values' rotation has the seed after the keys'."""
    check_seed(seed)
    rules = tuple(NormMode.__members__)
    key_rule, value_rule = _one_of("key_norm", norms[0], rules), _one_of("value_norm", norms[1], rules)
    key_bits, value_bits = _one_of("key_bits", bits[0], RATES), _one_of("value_bits", bits[1], RATES)
    keys = TurboKeys(key_bits, int(seed), key_rule, arithmetic, code, key_centre)
    values = TurboValues(value_bits, (int(seed) + 1) % 2**64, value_rule, arithmetic, code)
    return Arm(name, keys, values, *policy)


def _structured_turbo(
    key_bits: float = 3.5,
    value_bits: float = 3.0,
    window: int = WINDOW,
    sinks: int = 0,
    seed: int = 1,
    key_norm: str = "matched",
    value_norm: str = "min_mse",
    arithmetic: str = "exact",
    key_centre: str = "none",
) -> Arm:
    bits, norms = (key_bits, value_bits), (key_norm, value_norm)
    return _turbo("structured-turbo", "split", bits, (window, sinks), seed, norms, arithmetic, key_centre)


def _pair_turbo(
    key_bits: float = 3.5,
    value_bits: float = 2.5,
    window: int = WINDOW,
    sinks: int = 0,
    seed: int = 1,
    key_norm: str = "matched",
    value_norm: str = "min_mse",
    arithmetic: str = "exact",
    key_centre: str = "none",
) -> Arm:
    bits, norms = (key_bits, value_bits), (key_norm, value_norm)
    return _turbo("pair-turbo", "pair", bits, (window, sinks), seed, norms, arithmetic, key_centre)


def _kivi_control(key_bits: int = 3, value_bits: int = 3, window: int = WINDOW, sinks: int = 0) -> Arm:
    keys = KiviKeys(_one_of("key_bits", key_bits, KIVI_BITS))
    values = KiviValues(_one_of("value_bits", value_bits, KIVI_BITS))
    return Arm("kivi-control", keys, values, window, sinks)


_ARMS: Registry[Arm] = Registry("arm")
_ARMS.register("fp16", _fp16)
_ARMS.register("structured-turbo", _structured_turbo)
_ARMS.register("pair-turbo", _pair_turbo)
_ARMS.register("kivi-control", _kivi_control)
_ARMS.freeze()


def arm_names() -> tuple[str, ...]:
    """Names of the known arms, the uncompressed one first."""
    return _ARMS.names()


def get_arm(name: str, **options: Any) -> Arm:
    """The arm called ``name`` with options such as key_bits, value_bits, window, sinks, seed.

    Raises CodecError for an unknown name, option or value, ValueRangeError for a seed outside 0..2^64-1.
    """
    factory = _ARMS.get(name)
    known = factory.__code__.co_varnames[: factory.__code__.co_argcount]  # type: ignore[attr-defined]
    unknown = sorted(set(options) - set(known))
    check(
        not unknown, "options", f"some of {', '.join(known)} for arm {name}", ", ".join(unknown), CodecError
    )
    return factory(**options)
