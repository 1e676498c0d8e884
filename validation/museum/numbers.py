"""Kind D: numbers that are none, and numbers that do not fit."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tq_core.codecs.arms import get_arm
from tq_core.codecs.base import F32
from tq_core.codecs.checklist import check_zero_tokens
from tq_core.codecs.checklist_extremes import check_extreme_tokens
from tq_core.codecs.int8 import Int8Keys
from tq_core.codecs.rows import Parts, half_bytes
from tq_core.errors import DTypeError, ValueRangeError
from validation.logit_scores import Reference
from validation.museum.exhibit import Exhibit, always
from validation.museum.maths import read_keys
from validation.museum.stops import conformance, refusal
from validation.museum.study import Layer, fixture_layer, paged, reference


class UnguardedKeys(Int8Keys):
    """int8 whose scale is divided by without a look at it."""

    def encode(self, x: F32, pages: Any, position: int | None) -> Parts:
        scale = np.abs(x).max(axis=2, keepdims=True) / np.float32(127)
        with np.errstate(invalid="ignore", divide="ignore"):
            codes = np.rint(x / scale)  # 0 / 0
            # What a NaN becomes as an int8 is undefined in C; here it is the least number, on every machine.
            stored = np.where(np.isnan(codes), -128, codes).astype(np.int8)
            offset = np.where(scale > 0, scale, np.float32(1))
        return {"scales": half_bytes(offset), "codes": stored.view(np.uint8)}


class SquaringKeys(Int8Keys):
    """int8 with a root mean square scale, the squares taken in float16."""

    def encode(self, x: F32, pages: Any, position: int | None) -> Parts:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            squares = (x.astype(np.float16) ** 2).mean(axis=2, keepdims=True, dtype=np.float16)
            scale = 4 * np.sqrt(squares.astype(np.float32)) / 127
            codes = np.where(scale > 0, np.clip(np.rint(x / scale), -127, 127), 0).astype(np.int8)
            return {"scales": half_bytes(scale), "codes": codes.view(np.uint8)}

    def expand(self, parts: Parts, head_dim: int, pages: Any) -> F32:
        with np.errstate(invalid="ignore"):
            return super().expand(parts, head_dim, pages)


def _append(change: Any) -> Any:
    """A call that appends the layer's tokens after ``change`` touched their keys."""

    def made(layer: Layer) -> Any:
        keys = layer.keys.copy()
        change(keys)
        return partial(paged(layer, get_arm("structured-turbo", window=8)).append, 0, keys, layer.values)

    return made


def _put(value: float) -> Any:
    return lambda keys: keys.__setitem__((5, 1, 7), value)


def _compare(dtype: Any) -> Any:
    """A call that compares logits with a base that was stored as ``dtype``."""

    def made(layer: Layer) -> Any:
        sound = reference(layer)[0]
        return lambda: Reference(sound.logits.astype(dtype), sound.targets).compare(sound.logits)

    return made


_plain = partial(fixture_layer, n_tokens=48)
_checked = "tq_core.cache.tokens.check_tokens"

EXHIBITS = (
    Exhibit(
        "D2", "A NaN in one channel", "aither-kvcache 2.4.1 (repeated here)",
        "One value that is not a number is packed; every query that reads the page gets noise or NaN.",
        "Refused by name and place before anything is written.",
        _plain, _append(_put(1.0)), _append(_put(float("nan"))), refusal(ValueRangeError, _checked),
    ),
    Exhibit(
        "D2b", "An infinity in one channel", "aither-kvcache 2.4.1 (repeated here)",
        "An infinite value makes an infinite scale.",
        "Refused by name and place before anything is written.",
        _plain, _append(_put(0.0)), _append(_put(float("-inf"))), refusal(ValueRangeError, _checked),
    ),
    Exhibit(
        "D2c", "One per cent beyond float16", "aither-kvcache 2.4.1 (repeated here)",
        "A vector whose norm is 65504 * 1.01: each channel fits, the stored norm is infinite.",
        "Norms up to 65504 are stored, longer ones refused.",
        _plain, _append(lambda k: k.__setitem__((5, 1), np.float32(65504 * 0.99 / 8))),
        _append(lambda k: k.__setitem__((5, 1), np.float32(65504 * 1.01 / 8))), refusal(ValueRangeError, _checked),
        note="No channel is larger than 8,270, so a look at the largest value finds nothing.",
    ),
    Exhibit(
        "D3", "Zero divided by zero", "torchao 4713, USearch 758",
        "A token of zeros has scale 0; the quotient is cast to int8, which is undefined.",
        "Zeros are stored as zeros.",
        lambda: _with_zero(), always(Int8Keys()), always(UnguardedKeys()), conformance(check_zero_tokens), read_keys,
        "Cosine skips vectors without a direction, so it stays 1.",
    ),
    Exhibit(
        "D3b", "Squares that overflow float16", "kind of torchao 4713",
        "A norm is summed up from float16 squares: 300 in a channel is infinite, and 1e-4 is zero.",
        "Norms are taken in 32 bits or more.",
        _plain, always(Int8Keys()), always(SquaringKeys()), conformance(check_extreme_tokens), read_keys,
    ),
    Exhibit(
        "D5", "Base logits kept in 16 bits", "ik_llama.cpp 325",
        "The reference's logits are stored as float16, which puts a floor under every divergence.",
        "Base logits are float32; anything else is refused.",
        _plain, _compare(np.float32), _compare(np.float16), refusal(DTypeError, "validation.logit_scores.check_logits"),
    ),
)  # fmt: skip


def _with_zero() -> Layer:
    """A layer with one key of zeros."""
    plain = fixture_layer(n_tokens=48)
    keys = plain.keys.copy()
    keys[7] = 0
    return Layer(plain.queries, keys, plain.values, plain.seed)
