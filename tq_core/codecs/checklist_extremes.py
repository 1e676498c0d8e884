"""Conformance checks of inputs at the ends of what a cache accepts, and beyond; see ``checklist``."""

from __future__ import annotations

import numpy as np

from tq_core.codecs.base import F32
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


def _degenerate(bench: Bench, n: int) -> dict[str, F32]:
    """(n, n_kv_heads, head_dim) tokens in which a group's range, norm or spread vanishes."""
    shape, some = (n, bench.n_kv_heads, bench.head_dim), bench.tokens(n)
    token, channel = np.arange(n)[:, None, None], np.arange(bench.head_dim)
    signs = np.where(channel % 2, np.float32(-1), np.float32(1))
    most = 65504 / np.sqrt(np.float32(bench.head_dim)) * np.float32(0.99)
    made = {
        "zeros": np.zeros(shape),
        "negative zeros": np.full(shape, -0.0),
        "one constant": np.full(shape, 1.0),
        "the largest constant": np.full(shape, most),
        "the largest with both signs": most * signs,
        "least float16": np.full(shape, 6e-8),
        "least float32": np.full(shape, 1e-45),
        "subnormals of both signs": 1e-39 * signs,
        "zeros among others": np.where(token % 3 == 1, 0, some),
        "one token among zeros": np.where(token == 0, some, 0),
        "one channel": np.where(channel == 3, some, 0),
        "channels that never change": np.where(channel % 2, some, 5),
        "steps below float16": 100 + some * 1e-6,
        "largest tokens that change sides": np.where(token < n // 2, most * signs, -most * signs),
        "one large token": np.where(token == 0, most * signs, some * 1e-6),
    }
    return {name: np.broadcast_to(x, shape).astype(np.float32) for name, x in made.items()}


def check_degenerate_groups(bench: Bench) -> None:
    """Groups without range, norm or spread, down to one token or group: finite bytes, tokens and reads of their size."""
    n = int(bench.codec.flush_tokens)
    for count in (n, max(bench.some, 2 * n)):
        for name, x in _degenerate(bench, count).items():
            pages = bench.store(x)
            decoded = bench.decode(pages, count)
            read = bench.read(pages, count, bench.question(count))
            finite = bool(np.isfinite(read).all() and np.isfinite(decoded).all())
            _expect(finite, bench, f"finite tokens and reads of {name}", (decoded, read))
            if bench.codec.tags.scale_free:
                longest = float(np.linalg.norm(x, axis=2).max())
                worst = float(np.linalg.norm(decoded, axis=2).max())
                _expect(worst <= 4 * longest + 1e-3, bench, f"{name} no longer than {4 * longest:g}", worst)
