"""The design study's formulas for memory, bandwidth and break-even, each a function with units.

Symbols: L n_layers, H n_kv_heads, d head_dim, T tokens, W window, b_K and b_V bits per channel of keys and values.
They count the codes alone. What a real cache adds to them is in `breakdown`; the tests compare both to the byte.
"""

from __future__ import annotations

from fractions import Fraction

from tq_core.cache.breakdown import layouts, stream_line
from tq_core.cache.planned import split_tokens
from tq_core.codecs.arms import Arm
from tq_core.errors import ValueRangeError, check
from tq_core.shapes import ModelShape

HALF_PAIR_BYTES = 4  # a key channel and a value channel as float16


def _positive(**numbers: float) -> None:
    for name, value in numbers.items():
        check(value > 0, name, "a positive number", value, ValueRangeError)


def _pair_bytes(key_bits: float, value_bits: float) -> Fraction:
    """Bytes of a key channel and a value channel: (b_K + b_V) / 8."""
    _positive(key_bits=key_bits, value_bits=value_bits)
    return (Fraction(key_bits) + Fraction(value_bits)) / 8


def channel_pairs(shape: ModelShape) -> int:
    """L H d: key channels, each with its value channel, of one token."""
    return shape.n_layers * shape.n_kv_heads * shape.head_dim


def bytes_per_token(shape: ModelShape, bytes_per_value: float = 2) -> Fraction:
    """Bytes that one token adds at ``bytes_per_value`` s: 2 L H d s."""
    _positive(bytes_per_value=bytes_per_value)
    return 2 * channel_pairs(shape) * Fraction(bytes_per_value)


def payload_bytes(shape: ModelShape, n_tokens: int, key_bits: float, value_bits: float) -> Fraction:
    """Bytes of the codes of T tokens at mixed rates: L H d T (b_K + b_V) / 8."""
    return channel_pairs(shape) * n_tokens * _pair_bytes(key_bits, value_bits)


def windowed_bytes(
    shape: ModelShape, n_tokens: int, key_bits: float, value_bits: float, window: int, extra_bytes: int = 0
) -> Fraction:
    """Bytes with the newest W tokens in float16: L H d (max(T-W, 0) (b_K+b_V)/8 + 4 min(T, W)) + M_page + M_scratch.

    ``extra_bytes`` is M_page + M_scratch: page headers, scales, padding, tables and workspace.
    """
    old, new = max(n_tokens - window, 0), min(n_tokens, window)
    pairs = channel_pairs(shape)
    return pairs * (old * _pair_bytes(key_bits, value_bits) + HALF_PAIR_BYTES * new) + extra_bytes


def bits_all_in(
    nominal: float,
    norm_bits: float,
    aux_bits: float,
    head_dim: int,
    page_tokens: int,
    n_kv_heads: int,
    tensors: int = 1,
) -> Fraction:
    """Bits per channel of one tensor: b_nominal + (b_norm + b_aux) / d + 64 * 8 / (P H d).

    ``norm_bits`` and ``aux_bits`` are per vector. The study charges the 64-byte header of a page of P tokens to each
    tensor (``tensors=1``); a page that holds keys and values shares it between them (``tensors=2``).
    """
    header = Fraction(64 * 8, tensors * page_tokens * n_kv_heads * head_dim)
    return Fraction(nominal) + (Fraction(norm_bits) + Fraction(aux_bits)) / head_dim + header


def compression_factor(key_bits: float, value_bits: float) -> Fraction:
    """How many times smaller than float16 the codes are: R_mem = 4 / ((b_K + b_V) / 8)."""
    return HALF_PAIR_BYTES / _pair_bytes(key_bits, value_bits)


def max_tokens(
    shape: ModelShape,
    budget_bytes: int,
    key_bits: float,
    value_bits: float,
    fixed_bytes: int = 0,
    window: int = 0,
) -> int:
    """Tokens that fit into C bytes: T_max = (C - M_fixed) / (L H d (b_K + b_V) / 8).

    The study puts the float16 window into M_fixed and does not count its tokens; with ``window`` its bytes are
    taken off and its tokens added. Not less than 0.
    """
    pairs = channel_pairs(shape)
    held = HALF_PAIR_BYTES * pairs * window
    left = budget_bytes - fixed_bytes - held
    if left < 0:
        return max((budget_bytes - fixed_bytes) // (HALF_PAIR_BYTES * pairs), 0)
    return window + int(left / (pairs * _pair_bytes(key_bits, value_bits)))


def bytes_saved_per_step(shape: ModelShape, n_tokens: int, key_bits: float, value_bits: float) -> Fraction:
    """Bytes that a decode step over T tokens reads less than with float16: T L H d (4 - (b_K + b_V) / 8)."""
    return n_tokens * channel_pairs(shape) * (HALF_PAIR_BYTES - _pair_bytes(key_bits, value_bits))


def step_bytes(shape: ModelShape, arm: Arm, n_tokens: int) -> int:
    """Bytes that a decode step of a real cache reads: codes, scales and sidecars of packed tokens, float16 rows of the rest."""
    sinks, packed, recent = split_tokens(arm, n_tokens)
    layout = layouts(shape, arm)[0]
    streams = sum(n * packed // layout.page_tokens for _, n in layout.streams)
    return shape.n_layers * shape.n_kv_heads * streams + HALF_PAIR_BYTES * channel_pairs(shape) * (
        sinks + recent
    )


def scale_bytes(shape: ModelShape, arm: Arm, n_tokens: int) -> int:
    """The part of ``step_bytes`` that is not codes or float16 rows: norms, steps, minima, sidecars."""
    packed = split_tokens(arm, n_tokens)[1]
    layout = layouts(shape, arm)[0]
    extra = sum(
        n * packed // layout.page_tokens for name, n in layout.streams if stream_line(name) != "codes"
    )
    return shape.n_layers * shape.n_kv_heads * extra


def steps_per_second(read_bytes: float, bandwidth: float) -> float:
    """Most decode steps per second when each reads ``read_bytes`` and memory delivers ``bandwidth`` bytes per second."""
    _positive(read_bytes=read_bytes, bandwidth=bandwidth)
    return bandwidth / read_bytes


def break_even_study(append_seconds: float, saved_bytes: float, bandwidth: float) -> float:
    """G* = (C_append tau_op) / (Delta B_step / BW_eff): future tokens that pay for the append of one token.

    ``append_seconds`` is C_append tau_op, the cost of encoding one token in all layers; ``saved_bytes`` is
    Delta B_step(T); ``bandwidth`` is BW_eff in bytes per second. The context counts as constant, and the tokens
    that follow as free to append: a prompt of T tokens needs T such payments, and so does every later token.
    """
    _positive(append_seconds=append_seconds, saved_bytes=saved_bytes, bandwidth=bandwidth)
    return append_seconds * bandwidth / saved_bytes


def break_even_tokens(
    prompt: int, append_seconds: float, plain_seconds: float, coded_seconds: float
) -> int | None:
    """Least number of generated tokens after which the codes have cost no more time than float16; None for never.

    ``append_seconds``: what encoding a token costs more than storing it; ``plain_seconds`` and ``coded_seconds``: a
    decode step per cached token, with float16 and with the codes; all measured, over all layers. Every token is
    encoded, the prompt's too, and step g reads prompt + g tokens:
        append (prompt + G) <= (plain - coded) (G prompt + G (G + 1) / 2).
    """
    check(prompt >= 0, "prompt", "a count of tokens, 0 or more", prompt, ValueRangeError)
    for name, value in (("append_seconds", append_seconds), ("coded_seconds", coded_seconds)):
        check(value >= 0, name, "0 or more", value, ValueRangeError)
    cost, gain = Fraction(append_seconds), Fraction(plain_seconds) - Fraction(coded_seconds)

    def paid(generated: int) -> bool:
        return cost * (prompt + generated) <= gain * (
            generated * prompt + Fraction(generated * (generated + 1), 2)
        )

    if cost == 0 or gain <= 0:
        return 0 if cost == 0 <= gain else None
    low, high = 0, 1
    while not paid(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if paid(middle) else (middle, high)
    return high
