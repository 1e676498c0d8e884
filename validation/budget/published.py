"""Published memory figures, computed again: what agrees to the printed digit, what does not, and the right value.

published.json holds each figure as it was printed, with its source and table, and the formula and arguments that
give it. Sources: the design study (2026-07-18), and the README of aither-kvcache 2.4.0, which writes GB and MB for
2^30 and 2^20 bytes. A figure that is wrong carries the right one and the reason; the verdict itself is computed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from tq_core.cache import capacity
from tq_core.errors import ValueRangeError, check
from tq_core.math.lloyd_max import lloyd_max
from tq_core.model.outline import known

FILE = Path(__file__).with_name("published.json")
AGREES, WRONG, UNEXPLAINED = "agrees", "wrong", "not explained"
_UNITS = {"KiB": 2.0**10, "MB": 2.0**20, "GB": 2.0**30, "GiB": 2.0**30, "K": 1e3, "M": 1e6, "": 1.0}
_FIGURE = re.compile(r"(\d+(?:\.(\d+))?)(?:([KM])| (KiB|MB|GB|GiB)\b)?")
_PEER_NORM_BYTES = 4  # a float32 norm per vector


@dataclass(frozen=True)
class Figure:
    """A printed number with its unit: ``low``..``high`` is what rounds to it, ``form`` prints another in its way."""

    value: float
    low: float
    high: float
    unit: float
    decimals: int
    words: str

    @classmethod
    def read(cls, text: str) -> Figure:
        """Parse "4.0 GB", "1.26M tokens", "3.8x". Raises ValueRangeError for anything else."""
        found = _FIGURE.match(text)
        if found is None:
            raise ValueRangeError(f"figure: expected a number with a known unit, got {text!r}")
        unit = _UNITS[found[3] or found[4] or ""]
        decimals = len(found[2] or "")
        half = 0.5 * 10**-decimals * unit
        value = float(found[1]) * unit
        return cls(value, value - half, value + half, unit, decimals, text[found.end(1) :])

    def form(self, value: float) -> str:
        """``value`` with the digits and unit of this figure."""
        return f"{value / self.unit:.{self.decimals}f}{self.words}"

    def holds(self, value: float, slack: float = 0.0) -> bool:
        """Whether ``value``, known to ``slack`` of itself, rounds to this figure, either way at a half."""
        error = value * (slack + 1e-9)
        return self.low - error <= value <= self.high + error


@dataclass(frozen=True)
class Checked:
    """A published figure beside the computed one; ``right`` is printed like the published one."""

    source: str
    table: str
    item: str
    published: str
    right: str
    verdict: str
    why: str


def vector_bytes(split: list[list[float]], scale_bytes: float = 0) -> float:
    """Bytes of a vector whose channels are split into [channels, bits] groups."""
    return sum(channels * bits for channels, bits in split) / 8 + scale_bytes


def mean_bits(split: list[list[float]]) -> float:
    """Bits per channel of [channels, bits] groups."""
    return 8 * vector_bytes(split) / sum(channels for channels, _ in split)


def format_bytes(form: str, head_dim: int) -> float:
    """Bytes of a vector as FP16, FP8, or the peer's TQ4, TQ3, TQ2: codes and a float32 norm."""
    plain = {"FP16": 2.0 * head_dim, "FP8": 1.0 * head_dim}
    return plain[form] if form in plain else vector_bytes([[head_dim, int(form[2:])]], _PEER_NORM_BYTES)


def model_bytes(model: str, tokens: int, format: str) -> float:
    """Bytes of ``tokens`` tokens of a known model."""
    shape = known(model).shape
    return float(
        tokens * capacity.bytes_per_token(shape, format_bytes(format, shape.head_dim) / shape.head_dim)
    )


def _distortion(split: list[list[float]]) -> float:
    """Mean squared error of unit-variance normal channels, [share, bits] groups with the best scalar codebooks."""
    shares = sum(share for share, _ in split)
    return sum(share * lloyd_max(2 ** int(bits)).distortion for share, bits in split) / shares


def _pairs_bytes(pairs: int, bits: int) -> float:
    """Two coefficients of ``bits`` bits and an index byte per kept pair, and a float16 scale."""
    return 2 * pairs * bits / 8 + pairs + 2


_FORMULAS: dict[str, Callable[..., float]] = {
    "tokens_bytes": lambda pairs, tokens, bytes_per_value: 2.0 * pairs * tokens * bytes_per_value,
    "mean_bits": mean_bits,
    "vector_bits": lambda bits, head_dim: bits / head_dim,
    "header_bits": lambda **page: float(capacity.bits_all_in(0, 0, 0, **page)),
    "compression": lambda key_bits, value_bits: float(capacity.compression_factor(key_bits, value_bits)),
    "vector_bytes": vector_bytes,
    "vector_ratio": lambda split, scale_bytes, plain: plain * sum(c for c, _ in split) / vector_bytes(split, scale_bytes),
    "model_bytes": model_bytes,
    "pairs_bytes": _pairs_bytes,
    "pairs_ratio": lambda pairs, bits, head_dim: 2 * head_dim / _pairs_bytes(pairs, bits),
    "split_distortion": _distortion,
    "lower_bound": lambda bits: 4.0**-bits,
    "upper_bound": lambda bits: math.sqrt(3) * math.pi / 2 * 4.0**-bits,
    "over_lower_bound": lambda bits: _distortion([[1, bits]]) * 4.0**bits,
    "tokens_fit": lambda model, format, budget: budget // model_bytes(model, 1, format),
    "tokens_scaled": lambda tokens, source, target, head_dim: (
        tokens * format_bytes(source, head_dim) / format_bytes(target, head_dim)
    ),
    "quotient": lambda of, by: of / by,
}  # fmt: skip


def check_entry(entry: dict[str, Any]) -> Checked:
    """Compute one figure again and judge it by its rule: equal to the printed digit, or a bound that it must keep."""
    figure, value = Figure.read(entry["published"]), _FORMULAS[entry["formula"]](**entry["arguments"])
    rule = entry.get("rule", "equal")
    fine = {
        "equal": figure.holds(value, entry.get("slack", 0.0)),
        "at least": figure.high >= value,
        "at most": figure.low <= value,
    }[rule]
    verdict = AGREES if fine else UNEXPLAINED if "unexplained" in entry else WRONG
    right = Figure.read(entry["right"]) if verdict == WRONG and "right" in entry else figure
    text = f"{'' if rule == 'equal' else rule + ' '}{right.form(value)}"
    why = entry.get("unexplained" if verdict == UNEXPLAINED else "why", "") if verdict != AGREES else ""
    return Checked(entry["source"], entry["table"], entry["item"], entry["published"], text, verdict, why)


@lru_cache(maxsize=1)
def entries() -> tuple[dict[str, Any], ...]:
    """The figures as published."""
    return tuple(json.loads(FILE.read_text(encoding="utf-8")))


@lru_cache(maxsize=1)
def check_all() -> tuple[Checked, ...]:
    """Every figure, computed again, in the order of the file."""
    return tuple(check_entry(entry) for entry in entries())


def unexpected() -> list[Checked]:
    """Figures whose verdict is not the recorded one: a reason is recorded for those that do not agree, and only those."""
    return [
        made
        for made, entry in zip(check_all(), entries(), strict=True)
        if made.verdict != (WRONG if "right" in entry else UNEXPLAINED if "unexplained" in entry else AGREES)
    ]


def select(verdict: str | None = None) -> list[Checked]:
    """The figures with this verdict, or all. Raises ValueRangeError for an unknown verdict."""
    words = (AGREES, WRONG, UNEXPLAINED)
    check(verdict is None or verdict in words, "verdict", f"one of {words}", verdict, ValueRangeError)
    return [made for made in check_all() if verdict in (None, made.verdict)]
