"""How each claim is measured: by name, from plain arguments. No measured number is ever written down.

Synthetic measures encode seeded vectors with the arm's own codec into real pages and decode them; ledger measures read
the declared streams; row measures look up what the comparison measured on its model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from tq_core.codecs.arms import arm_options, get_arm
from tq_core.errors import ValueRangeError, check
from tq_core.kernels.backend import get_backend
from tq_core.shapes import ModelShape
from validation.compare.bits import bits_all_in, side_bits
from validation.compare.vectors import relative_error
from validation.simulate import CodedRows

SEED = 5
N_VECTORS = 4096  # a mean squared error of them is known to about 1 %
HEAD_DIM = 128
# Eight KV heads and pages of 128 tokens: the shape for which the sources state bits and ratios.
SHAPE = ModelShape(1, 32, 8, HEAD_DIM)
Rows = list[dict[str, Any]]
Options = Mapping[str, Any]


@lru_cache(maxsize=64)
def _coded(
    arm_name: str, options: tuple[tuple[str, Any], ...], side: str, unit: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Seeded N(0,1) vectors (n, head_dim), of length one with ``unit``, and what the codec makes of them."""
    x = np.random.default_rng(SEED).standard_normal((N_VECTORS, 1, HEAD_DIM)).astype(np.float32)
    if unit:
        x /= np.linalg.norm(x, axis=-1, keepdims=True)
    arm = get_arm(arm_name, **dict(options))
    coded = CodedRows(
        arm.key_codec if side == "key" else arm.value_codec,
        ModelShape(1, 1, 1, HEAD_DIM),
        0,
        0,
        get_backend(),
    )
    coded.extend(x)
    return x[:, 0].astype(np.float64), coded.rows[:, 0].astype(np.float64)


def _pair(arm: str, options: Options, side: str = "key", unit: bool = False) -> tuple[np.ndarray, np.ndarray]:
    return _coded(arm, tuple(sorted(options.items())), side, unit)


def squared_error(arm: str, options: Options, side: str = "key") -> float:
    """Relative squared error of N(0,1) vectors, head_dim 128."""
    return relative_error(*_pair(arm, options, side))


def error_times_4b(arm: str, options: Options, bits: float) -> float:
    """Relative squared error over the lower bound 4^-bits."""
    return squared_error(arm, options) * 4.0**bits


def score_variance(arm: str, options: Options) -> float:
    """head_dim times the variance of <q, x_hat>, x of length one, q of length one and orthogonal to it."""
    x, got = _pair(arm, options, unit=True)
    q = np.random.default_rng(SEED + 1).standard_normal(x.shape)
    q -= (q * x).sum(axis=1, keepdims=True) * x / (x * x).sum(axis=1, keepdims=True)
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    return float(HEAD_DIM * np.mean((q * got).sum(axis=1) ** 2))


def score_slope(arm: str, options: Options) -> float:
    """Slope of <x, x_hat> on <x, x>: what is left of a perfectly matching key's score."""
    x, got = _pair(arm, options)
    return float((x * got).sum() / (x * x).sum())


def key_bits(arm: str, options: Options) -> float:
    """Bits per channel of the streams declared for keys, head_dim 128."""
    return side_bits(SHAPE, get_arm(arm, **options))[0]


def times_smaller(arm: str, options: Options) -> float:
    """float16 bits over all-in bits of keys and values, head_dim 128, 8 KV heads."""
    return 16 / bits_all_in(SHAPE, get_arm(arm, **options))


def _row(rows: Rows, arm: str, options: Options) -> dict[str, Any] | None:
    """The row of this arm whose options, defaults filled in, are these; None when it was not run."""
    known = arm_options(arm)
    for row in rows:
        if row["codec"] == arm and {**known, **row["options"]} == {**known, **options}:
            return row
    return None


def row_value(rows: Rows, arm: str, options: Options, field: str) -> float | None:
    """A field of the comparison's row."""
    found = _row(rows, arm, options)
    return None if found is None or found[field] is None else float(found[field])


def row_ratio(rows: Rows, first: Options, second: Options, field: str) -> float | None:
    """A field of one row over the same field of another; both are {"arm": name, "options": {...}}."""
    a, b = (row_value(rows, x["arm"], x["options"], field) for x in (first, second))
    return None if a is None or b is None or b == 0 else a / b


SYNTHETIC: dict[str, Callable[..., float]] = {
    f.__name__: f
    for f in (squared_error, error_times_4b, score_variance, score_slope, key_bits, times_smaller)
}
FROM_ROWS: dict[str, Callable[..., float | None]] = {f.__name__: f for f in (row_value, row_ratio)}


def measure_claim(name: str, arguments: Mapping[str, Any], rows: Rows) -> float | None:
    """The measured number; None when the rows it needs are not there. Raises ValueRangeError for an unknown measure."""
    if name in FROM_ROWS:
        return FROM_ROWS[name](rows, **arguments)
    check(
        name in SYNTHETIC, "measure", f"one of {', '.join([*SYNTHETIC, *FROM_ROWS])}", name, ValueRangeError
    )
    return SYNTHETIC[name](**arguments)
