"""Conformance check of scores that are promised to be unbiased."""

from __future__ import annotations

import numpy as np

from tq_core.codecs.checkbench import Bench
from tq_core.codecs.checklist import _expect


def check_unbiased_scores(bench: Bench) -> None:
    """<x, x_hat> is ||x||^2 on average: a slope of 1 within four standard errors and half a percent."""
    n = 2 * bench.codec.page_tokens
    x = bench.tokens(n).astype(np.float64)
    decoded = bench.decode(bench.store(x.astype(np.float32)), n)
    slopes = np.einsum("thd,thd->th", x, decoded) / (x**2).sum(axis=2)
    limit = 0.005 + 4 * float(slopes.std()) / slopes.size**0.5
    _expect(abs(float(slopes.mean()) - 1) <= limit, bench, f"a slope of 1 within {limit}", slopes.mean())
