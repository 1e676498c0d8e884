"""Conformance checks of what comes back of a token along itself: <x, x_hat> over ||x||^2."""

from __future__ import annotations

import numpy as np

from tq_core.codecs.checkbench import Bench
from tq_core.codecs.checklist import _expect

LOSS = 1.5 * 2.7207  # times 4^-bits: half more than the high-rate error of a scalar book (Panter-Dite)


def _slopes(bench: Bench) -> np.ndarray:
    """One slope per token and head, over two pages of Gaussian tokens."""
    n = 2 * bench.codec.page_tokens
    x = bench.tokens(n).astype(np.float64)
    decoded = bench.decode(bench.store(x.astype(np.float32)), n)
    return np.einsum("thd,thd->th", x, decoded) / (x**2).sum(axis=2)


def check_gain(bench: Bench) -> None:
    """Whatever a codec promises, a token comes back neither shorter nor longer along itself than its rate explains.

    The best book at b bits shrinks by its own error, at most 2.72 times 4^-b. A transform that is no isometry, or a stage
    whose constant is wrong, shrinks by more, also where no bias is promised and no rate can be varied.
    """
    slopes = _slopes(bench)
    limit = (
        0.005
        + LOSS * 4.0 ** -bench.codec.nominal_bits(bench.head_dim)
        + 4 * float(slopes.std()) / slopes.size**0.5
    )
    _expect(abs(float(slopes.mean()) - 1) <= limit, bench, f"a slope of 1 within {limit}", slopes.mean())


def check_unbiased_scores(bench: Bench) -> None:
    """<x, x_hat> is ||x||^2 on average: a slope of 1 within four standard errors and half a percent."""
    slopes = _slopes(bench)
    limit = 0.005 + 4 * float(slopes.std()) / slopes.size**0.5
    _expect(abs(float(slopes.mean()) - 1) <= limit, bench, f"a slope of 1 within {limit}", slopes.mean())
