"""Exercises of notebook 07: arrays placed in linear memory, and one C++ text on three machines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tq_core.exercises import cpp
from tq_core.exercises.draw import Drawing, maps
from tq_core.exercises.ex06_native_kernels import SCORE, draw_lanes, score_4bit, score_cases, score_in
from tq_core.exercises.exercise import Exercise
from tq_core.kernels.wasm_memory import place

ROW = 64
SIZES = (100, 4, 200, 64)


def addresses(sizes: Sequence[int], heap_base: int) -> list[int]:
    """Addresses, multiples of 64, of arrays in a row with at least 64 free bytes before each."""
    return list(place(list(sizes), heap_base).addresses)


def twice(
    packed: np.ndarray, scale: np.ndarray, table: np.ndarray, query: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The scores that the text must give as native code, and as wasm."""
    score = score_4bit(packed, scale, table, query)
    return score, score


def on_both(source: str) -> Callable[..., Any]:
    """The text compiled for this process and for the Wasmer host, both run."""
    machines = [score_in(make(source, SCORE)) for make in (cpp.native, cpp.in_wasm)]
    return lambda *arguments: tuple(run(*arguments) for run in machines)


def _draw_addresses(run: Callable[..., Sequence[int]]) -> Drawing:
    base = 1040
    found = [int(a) for a in run(list(SIZES), base)]
    end = max(a + n for a, n in zip(found, SIZES)) + ROW
    owner = np.zeros(-(-(end - 1024) // ROW) * ROW, np.int64)
    for i, (address, size) in enumerate(zip(found, SIZES), 1):
        part = owner[max(address - 1024, 0) : max(address - 1024 + size, 0)]
        part[part > 0] = len(SIZES)  # an overlap
        part[part == 0] = i
    colours = ("#eeeeee", "#0072B2", "#E69F00", "#007A58", "#A3478C")
    alt = "Linear memory in rows of 64 bytes from address 1024 on: four arrays, each at the start of a row, free bytes between."
    figure = maps(
        {"linear memory": owner.reshape(-1, ROW)}, ("byte of a row", "row from address 1024 on"), alt, colours
    )
    rows = [[f"array {i}", n, a, a % 64] for i, (n, a) in enumerate(zip(SIZES, found))]
    return Drawing(figure, alt, ["", "bytes", "address", "address % 64"], rows)


def _draw_score(run: Callable[..., Any]) -> Drawing:
    """The lanes of the native code: the wasm build of a text that does not keep the order has the same ones."""
    return draw_lanes(lambda *arguments: run(*arguments)[0])


EXERCISES = (
    Exercise(
        number="7.1",
        name="arrays in linear memory",
        attempt="my_addresses",
        difficulty=2,
        importance=3,
        minutes=10,
        task=(
            "Before a call its arrays are placed in the module's memory, one after the other from `heap_base` on. Each begins at a "
            "multiple of 64, with at least 64 bytes free before it: they are filled with `0xAA` and looked at after the call, so "
            "that a kernel that writes outside its arrays is found out. Take the lowest addresses."
        ),
        hint="Keep a cursor at the end of what is placed. The next address is `cursor + 64`, rounded up to a multiple of 64.",
        spec=addresses,
        cases=lambda: [(list(SIZES), 1040), ([64, 64], 1024), ([1], 0), ([0, 7, 128], 65537)],
        draw=_draw_addresses,
    ),
    Exercise(
        number="7.2",
        name="one text, native and wasm, the same bits",
        attempt="wasm_source",
        difficulty=4,
        importance=5,
        minutes=20,
        task=(
            "The scores of packed 4-bit codes as in exercise 6.2; your text from there will do. The check compiles it twice, by "
            "Cling into this process and by the clang of `ziglang` into a module that passes the opcode gate, runs the module "
            "in this machine's Wasmer host, and wants numpy's bits from both. A new text takes a moment to build. Of the "
            "library only `stdint.h` is there. Part 0 of a failed answer is native, part 1 wasm."
        ),
        hint="What makes the bits equal is the order of additions: 16 lanes, then folds. Everything else follows, wasm included.",
        spec=twice,
        cases=score_cases,
        draw=_draw_score,
        adapt=on_both,
    ),
)
