"""Exercises of notebook 01: what a token costs, and how far a budget reaches."""

from __future__ import annotations

from collections.abc import Callable

from tq_core.exercises.draw import Drawing, bars_beside
from tq_core.exercises.exercise import Cases, Exercise

LLAMA = (32, 32, 8, 128, 2)  # layers, query heads, KV heads, head_dim, bytes per value
SMOL = (30, 9, 3, 64, 2)
_FIELDS = ("layers", "query heads", "KV heads", "head_dim", "bytes per value")
BUDGETS = (2**24, 2**28, 2**30, 2**32)


def bytes_per_token(
    n_layers: int, n_query_heads: int, n_kv_heads: int, head_dim: int, value_bytes: int
) -> int:
    """2 L H_kv d s: a key and a value per layer and KV head; query heads share them."""
    return 2 * n_layers * n_kv_heads * head_dim * value_bytes


def longest_context(budget: int, pairs: int, key_bits: float, value_bits: float, window: int) -> int:
    """Tokens in ``budget`` bytes: the newest ``window`` at 4 bytes per pair of channels, the others as codes."""
    held = 4 * pairs * window
    if budget < held:
        return budget // (4 * pairs)
    return window + int((budget - held) * 8 // (pairs * (key_bits + value_bits)))


def _draw_token(run: Callable[..., int]) -> Drawing:
    def growth(function: Callable[..., int]) -> list[float]:
        doubled = [tuple(2 * v if i == j else v for j, v in enumerate(LLAMA)) for i in range(len(LLAMA))]
        return [function(*case) / max(function(*LLAMA), 1) for case in doubled]

    alt = "Bars: by which factor the bytes of a token grow when one argument is doubled; a bar of 1 is not read."
    return bars_beside(
        _FIELDS,
        growth(run),
        growth(bytes_per_token),
        "growth of the bytes when this argument doubles",
        alt,
        1.0,
    )


def _draw_context(run: Callable[..., int]) -> Drawing:
    pairs, bits, window = 32 * 8 * 128, 6.5, 128

    def used(function: Callable[..., int]) -> list[float]:
        shares = []
        for budget in BUDGETS:
            tokens = function(budget, pairs, 3.5, 3.0, window)
            taken = pairs * (4 * min(tokens, window) + max(tokens - window, 0) * bits / 8)
            shares.append(100 * taken / budget)
        return shares

    names = [f"{budget >> 20} MiB" for budget in BUDGETS]
    alt = "Bars: share of each budget that the answered number of tokens takes, window included; above 100 % it does not fit."
    return bars_beside(
        names, used(run), used(longest_context), "% of the budget that these tokens take", alt, 100.0
    )


def _contexts() -> Cases:
    pairs = 32 * 8 * 128
    return [
        (b, pairs, k, v, w) for b in BUDGETS for k, v, w in ((3.5, 3.0, 128), (2.5, 2.0, 0), (4.0, 4.0, 4096))
    ]


EXERCISES = (
    Exercise(
        number="1.1",
        name="bytes per token with grouped queries",
        attempt="my_bytes_per_token",
        difficulty=1,
        importance=5,
        minutes=5,
        task=(
            "Write the formula of section 1 as a function. One of its arguments is a decoy.\n\n"
            "How exercises work: replace the `raise` by your code, run the cell, then the one below it. The picture shows "
            "what the code touches (of the specification, as long as there is none of yours), the line below it says "
            "NOT ATTEMPTED, PASS or FAIL. An error in your code is told, not raised; a loop that never ends you have to "
            "interrupt yourself. Nothing later depends on your code."
        ),
        hint="With grouped queries several query heads read one KV head, and only that is stored. Keys and values: twice.",
        spec=bytes_per_token,
        cases=lambda: [LLAMA, SMOL, (1, 1, 1, 16, 4), (80, 64, 8, 128, 2)],
        draw=_draw_token,
    ),
    Exercise(
        number="1.2",
        name="the longest context in a budget",
        attempt="my_longest_context",
        difficulty=2,
        importance=4,
        minutes=10,
        task=(
            "How many tokens fit, when the newest `window` of them stay in float16 and the rest are codes? Whole tokens only. "
            "Mind a budget that is smaller than the window."
        ),
        hint="Take the window's bytes off first. If nothing is left, every token that fits is a float16 one.",
        spec=longest_context,
        cases=_contexts,
        draw=_draw_context,
    ),
)
