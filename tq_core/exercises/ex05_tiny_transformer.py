"""Exercises of notebook 05: which tokens are still exact, and how the attention of two pages becomes one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tq_core.exercises.draw import Drawing, bars_beside, maps
from tq_core.exercises.exercise import Exercise

State = tuple[float, float, np.ndarray]


def exact_tokens(n_tokens: int, window: int, sinks: int) -> np.ndarray:
    """(n_tokens, n_tokens) bool: whether the step of token t reads token j in float16."""
    t, j = np.arange(n_tokens)[:, None], np.arange(n_tokens)[None, :]
    return (j <= t) & ((j > t - window) | (j < sinks))


def state_of(logits: np.ndarray, values: np.ndarray) -> State:
    """(peak, total, weighted sum) of tokens with logits (n,) and values (n, d): what a page's attention leaves behind."""
    peak = float(logits.max())
    weights = np.exp(logits - peak)
    return peak, float(weights.sum()), weights @ values


def merge(a: State, b: State) -> State:
    """The state of both pages' tokens together (online softmax, Milakov and Gimelshein, 1805.02867)."""
    peak = max(a[0], b[0])
    left, right = np.exp(a[0] - peak), np.exp(b[0] - peak)
    return peak, a[1] * left + b[1] * right, a[2] * left + b[2] * right


def _draw_mask(run: Callable[..., np.ndarray]) -> Drawing:
    n, window, sinks = 24, 6, 2
    found = np.asarray(run(n, window, sinks)).astype(bool)
    before = np.tri(n, dtype=bool)
    picture = found.astype(np.int64) + 2 * (before & ~found) + 2 * (found & ~before)
    alt = "Matrix of steps and tokens: a diagonal band and the first columns are read in float16, the rest below it as codes."
    figure = maps(
        {"window 6, 2 sinks; dark: float16, light: codes, red: too early": np.clip(picture, 0, 3)},
        ("token read", "step"),
        alt,
        ("#eeeeee", "#0072B2", "#8fb8d8", "#D55E00"),
    )
    steps = (0, 5, 6, 12, 23)
    rows = [
        [
            f"step {t}",
            int(found[t].sum()),
            int((before[t] & ~found[t]).sum()),
            int((found[t] & ~before[t]).sum()),
        ]
        for t in steps
    ]
    return Drawing(figure, alt, ["", "read in float16", "read as codes", "read too early"], rows)


def _pages(seed: int, gap: float, sizes: tuple[int, int] = (5, 7)) -> tuple[State, State]:
    rng = np.random.default_rng(seed)
    first, second = (
        state_of(rng.standard_normal(n) + g, rng.standard_normal((n, 4))) for n, g in zip(sizes, (0, gap))
    )
    return first, second


def _draw_merge(run: Callable[..., State]) -> Drawing:
    def shares(function: Callable[..., State]) -> list[float]:
        """Weight of the second page's tokens in the output, from values that are 0 in the first page and 1 in the second."""
        out = []
        for gap in gaps:
            a, b = _pages(1, gap)
            state = function((a[0], a[1], np.zeros(1)), (b[0], b[1], np.full(1, b[1])))
            out.append(round(float(np.asarray(state[2])[0] / state[1]), 6))
        return out

    gaps = (-4.0, 0.0, 4.0, 40.0)
    names = [f"logits of page 2 raised by {gap:g}" for gap in gaps]
    alt = "Bars: share of the attention that page 2 gets after merging; it grows with its logits and never exceeds 1."
    return bars_beside(names, shares(run), shares(merge), "share of page 2 in the output", alt)


EXERCISES = (
    Exercise(
        number="5.1",
        name="window and sinks",
        attempt="my_exact_tokens",
        difficulty=2,
        importance=4,
        minutes=10,
        task=(
            "Which tokens does each step read in float16? The newest `window` of them, its own included, and the first `sinks`; "
            "all others behind it are read as codes, and none ahead of it at all."
        ),
        hint="`np.arange(n)[:, None]` and `np.arange(n)[None, :]` compare every step with every token at once.",
        spec=exact_tokens,
        cases=lambda: [(8, 3, 0), (8, 3, 2), (8, 0, 0), (5, 9, 1), (24, 6, 2)],
        draw=_draw_mask,
    ),
    Exercise(
        number="5.2",
        name="two pages, one softmax",
        attempt="my_merge",
        difficulty=4,
        importance=5,
        minutes=20,
        task=(
            "A page's attention leaves behind three things: its largest logit (peak), the total of $e^{s_t - peak}$, and the sum "
            "of values with those weights. Merge the states of two pages into the state of all their tokens, without going back "
            "to the tokens. Logits may be hundreds apart: nothing may overflow."
        ),
        hint="The new peak is the larger one. A state that was made with a smaller peak is too large by $e^{new - old}$, in total and sum alike.",
        spec=merge,
        cases=lambda: [_pages(1, 0.0), _pages(2, 3.0), _pages(3, -700.0), _pages(4, 800.0, (1, 1))],
        draw=_draw_merge,
        tolerance=1e-12,
    ),
)
