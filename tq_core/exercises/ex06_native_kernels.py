"""Exercises of notebook 06: two kernels in C++, compared with numpy bit for bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tq_core.exercises import cpp
from tq_core.exercises.draw import Drawing, maps
from tq_core.exercises.exercise import Cases, Exercise
from tq_core.kernels.table import Arg, Kernel
from tq_core.math import lanes

DOT = Kernel(
    "dot_codes",
    (
        Arg("codes", "u1", "in", ("d",)),
        Arg("query", "i2", "in", ("d",)),
        Arg("levels", "u1", "in", (16,)),
        Arg("out", "i4", "out", (1,)),
    ),
    ("d",),
    (),
    "exact_bytes",
)
SCORE = Kernel(
    "score_4bit",
    (
        Arg("packed", "u1", "in", ("n", "b")),
        Arg("scale", "f4", "in", ("n",)),
        Arg("table", "f4", "in", (16,)),
        Arg("query", "f4", "in", ("d",)),
        Arg("out", "f4", "out", ("n",)),
    ),
    ("n", "d"),
    (),
    "exact_floats",
)


def dot_codes(codes: np.ndarray, query: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """(1,) int32: sum of query * (2 u - 255) over channels, u = levels[code]: exact, in any order."""
    weights = 2 * levels.astype(np.int32)[codes] - 255
    return np.array([(query.astype(np.int32) * weights).sum()], np.int32)


def score_4bit(packed: np.ndarray, scale: np.ndarray, table: np.ndarray, query: np.ndarray) -> np.ndarray:
    """(n,) float32 scores of packed 4-bit codes, low half of a byte first, added in lane order."""
    codes = np.stack([packed & 15, packed >> 4], axis=-1).reshape(len(packed), -1)
    return lanes.dot(query[None], table[codes]) * scale


def dot_in(compiled: Callable[..., None]) -> Callable[..., np.ndarray]:
    """A compiled ``dot_codes`` as a function like the specification."""

    def run(codes: np.ndarray, query: np.ndarray, levels: np.ndarray) -> np.ndarray:
        out = np.zeros(1, np.int32)
        compiled(codes, query, levels, out, len(codes))
        return out

    return run


def score_in(compiled: Callable[..., None]) -> Callable[..., np.ndarray]:
    """A compiled ``score_4bit`` as a function like the specification."""

    def run(packed: np.ndarray, scale: np.ndarray, table: np.ndarray, query: np.ndarray) -> np.ndarray:
        out = np.zeros(len(packed), np.float32)
        compiled(packed, scale, table, query, out, len(packed), len(query))
        return out

    return run


def dot_cases() -> Cases:
    """Sizes 1 to 256, extreme codes and queries among them."""
    rng = np.random.default_rng(6)
    levels = np.sort(rng.integers(0, 256, 16)).astype(np.uint8)
    drawn: Cases = [
        (rng.integers(0, 16, d, np.uint8), rng.integers(-32639, 32640, d).astype(np.int16), levels)
        for d in (1, 16, 80, 256)
    ]
    return [*drawn, (np.zeros(256, np.uint8), np.full(256, -32639, np.int16), np.zeros(16, np.uint8))]


def score_cases() -> Cases:
    """Token counts and head sizes with and without whole groups of 16 lanes."""
    rng = np.random.default_rng(7)
    return [
        (
            rng.integers(0, 256, (n, d // 2), np.uint8),
            rng.random(n, np.float32),
            np.sort(rng.standard_normal(16)).astype(np.float32),
            rng.standard_normal(d).astype(np.float32),
        )
        for n, d in ((1, 16), (3, 64), (5, 128), (2, 80))
    ]


def _draw_dot(run: Callable[..., np.ndarray]) -> Drawing:
    """Which channels move the answer, found by changing one code at a time."""
    levels, d = np.arange(16, dtype=np.uint8) * 17, 32
    query = np.arange(1, d + 1, dtype=np.int16)
    base, moved = int(run(np.zeros(d, np.uint8), query, levels)[0]), np.zeros((1, d), np.int64)
    for channel in range(d):
        codes = np.zeros(d, np.uint8)
        codes[channel] = 1
        change = int(run(codes, query, levels)[0]) - base
        moved[0, channel] = 1 if change == 34 * int(query[channel]) else 2 if change else 0
    alt = "A row of 32 channels: marked where a changed code moves the sum as it should."
    figure = maps({"channels read": moved}, ("channel", ""), alt, ("#eeeeee", "#0072B2", "#D55E00"))
    figure.axes[0].set_yticks([])
    rows = [[word, int((moved == i).sum())] for i, word in enumerate(("not read", "right", "wrong weight"))]
    return Drawing(figure, alt, ["channels", "count"], rows)


def lane_of_channel(run: Callable[..., np.ndarray], d: int = 64) -> np.ndarray:
    """(d, d) int: 1 where two channels are added into one lane, 0 where they meet only when lanes are folded.

    A huge number, then a small one, then the huge one's negative: in one lane the small number is lost. Channel i
    holds 2^30 and -2^30 sits in the last channel of the same lane, so the pair cancels wherever the small one is.
    """
    table = np.zeros(16, np.float32)
    table[1] = 1
    same = np.zeros((16, d), np.int64)
    for lane in range(16):
        for channel in range(16, d - 16):
            query = np.zeros(d, np.float32)
            query[lane], query[d - 16 + lane], query[channel] = 2.0**30, -(2.0**30), 1
            score = run(np.full((1, d // 2), 0x11, np.uint8), np.ones(1, np.float32), table, query)
            same[lane, channel] = int(score[0] == 0)
    return same


def draw_lanes(run: Callable[..., np.ndarray]) -> Drawing:
    """Which lane each channel is added to."""
    found = lane_of_channel(run)[:, 16:48]
    alt = "Matrix of 16 lanes and channels 16 to 47: in lane order channel i is added to lane i modulo 16, two diagonals."
    figure = maps({"channel is added to lane": found}, ("channel", "lane"), alt)
    figure.axes[0].set_xticks([0, 8, 16, 24, 31], ["16", "24", "32", "40", "47"])
    right = sum(int(found[c % 16, c] == 1 and found[:, c].sum() == 1) for c in range(32))
    return Drawing(figure, alt, ["channels of 32", "count"], [["in their lane, and in no other", right]])


EXERCISES = (
    Exercise(
        number="6.1",
        name="a dot product with a lookup, in C++",
        attempt="dot_source",
        difficulty=2,
        importance=4,
        minutes=10,
        task=(
            "The integer score of section 4: look up each code's grid position $u$, multiply $2u - 255$ by the query's integer, "
            "add up. Write the body; Cling compiles the text when the cell below runs, and a compiler's complaint is shown there. "
            "The picture changes one code at a time. Stay inside the arrays: in this process nothing else stops C++."
        ),
        hint="`levels[codes[j]]` is a byte; C++ turns it into an `int` before it multiplies, so `2 * levels[codes[j]] - 255` is exact.",
        spec=dot_codes,
        cases=dot_cases,
        draw=_draw_dot,
        adapt=lambda source: dot_in(cpp.native(source, DOT)),
    ),
    Exercise(
        number="6.2",
        name="scores of packed 4-bit codes, in C++",
        attempt="score_source",
        difficulty=4,
        importance=4,
        minutes=25,
        task=(
            "Two codes share a byte: channel `2 i` in the low half, `2 i + 1` in the high half. Compute a float score per token, "
            "in lane order (section 1), so that it has numpy's bits. The picture finds out by numbers that cancel which "
            "channels share a lane: two diagonals when the order is kept."
        ),
        hint="An array `float lane[16] = {}` per token; after the channels fold it 8, 4, 2, 1 apart; multiply by the scale last.",
        spec=score_4bit,
        cases=score_cases,
        draw=draw_lanes,
        adapt=lambda source: score_in(cpp.native(source, SCORE)),
    ),
)
