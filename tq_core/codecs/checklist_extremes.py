"""A conformance check of inputs at the ends of what a cache accepts; see ``checklist``."""

from __future__ import annotations

import numpy as np

from tq_core.codecs.checkbench import Bench
from tq_core.codecs.checklist import _expect


def check_extreme_tokens(bench: Bench) -> None:
    """One huge channel, huge alternating ones, the least float16, and a channel of another size: all stay finite."""
    x = np.zeros_like(bench.tokens(bench.some))
    x[0::4, :, 1] = 65000
    x[1::4] = np.where(np.arange(bench.head_dim) % 2, -1.0, 1.0) * 65000 / np.sqrt(bench.head_dim)
    x[2::4] = 6e-8
    x[3::4], x[3::4, :, 0] = 6e-8, 300
    pages = bench.store(x)
    read, decoded = bench.read(pages, len(x), bench.question(len(x))), bench.decode(pages, len(x))
    finite = bool(np.isfinite(read).all() and np.isfinite(decoded).all())
    _expect(finite, bench, "finite tokens and reads", (decoded, read))
