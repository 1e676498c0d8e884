"""The live parts of the kernel notebooks: C++ cells, replayed calls, parity tables, memory that grows."""

from __future__ import annotations

import numpy as np
import pytest

from tq_core.errors import KernelError
from tq_core.kernels.backend import available_backends
from tq_core.math import lanes
from tq_core.show import engines, parity_table, speed, wasm_demo
from tq_core.show.live_cpp import compile_cell

pytestmark = pytest.mark.kernels

SUM16 = """
#include <cstdint>
float dot(const float* a, const float* b, uint32_t n) {
  float lane[16] = {};
  for (uint32_t i = 0; i < n; ++i) lane[i % 16] += a[i] * b[i];
  for (uint32_t half = 8; half; half /= 2)
    for (uint32_t i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
}
"""


def test_a_cell_can_be_run_again_and_edited() -> None:
    a, b = np.random.default_rng(3).standard_normal((2, 64)).astype(np.float32)
    first, again = compile_cell(SUM16), compile_cell(SUM16)
    edited = compile_cell(SUM16.replace("return lane[0]", "return lane[0] + 1"))
    assert np.float32(first.dot(a, b, 64)) == lanes.dot(a, b) == np.float32(again.dot(a, b, 64))
    assert np.float32(edited.dot(a, b, 64)) == lanes.dot(a, b) + np.float32(1)


def test_a_cell_that_does_not_compile_says_why_and_may_be_mended() -> None:
    with pytest.raises(KernelError, match="expected"):
        compile_cell("int broken( { return 1; }")
    assert compile_cell("int broken() { return 1; }").broken() == 1


def test_calls_are_timed_on_every_backend() -> None:
    calls = speed.decode_step(64)
    assert {"append_keys", "score_keys", "attend_packed"} <= set(calls)
    names = available_backends()[:2]
    seconds = speed.time_calls(calls, ("score_keys",), names, rounds=1)
    assert list(seconds["score_keys"]) == names
    assert all(taken > 0 for taken in seconds["score_keys"].values())
    assert speed.speedups(seconds, names[0])[0] == [names[0], "1 x"]


def test_parity_table_sees_equal_bits_and_covers_every_kernel() -> None:
    chosen = parity_table.some_cases(1)
    assert len({case.kernel for case in chosen}) == len(chosen)
    name = available_backends()[1]
    ((got, cases, bits, differing),) = parity_table.compare([name], 1)
    assert (got, cases, differing) == (name, len(chosen), 0)
    assert bits > 0


def test_parity_of_some_kernels_says_how_far_it_is() -> None:
    chosen, said = parity_table.some_cases(2, parity_table.CACHE_KERNELS), []
    assert {case.kernel for case in chosen} == set(parity_table.CACHE_KERNELS)
    assert len(chosen) == 2 * len(parity_table.CACHE_KERNELS)
    rows = parity_table.compare(["numpy"], 1, ("quantize_query",), lambda *step: said.append(step))
    assert rows[0][0] == "numpy" and rows[0][3] == 0
    assert said == [("parity, now numpy", 0, 1), ("parity", 1, 1)]


def test_quick_backends_compile_for_one_instruction_set() -> None:
    names = parity_table.quick_backends()
    assert sum(name.startswith("native-") for name in names) <= 1
    assert all(name.startswith(("native-", "wasm-")) for name in names)


def test_memory_grows_and_an_old_view_does_not() -> None:
    seen = wasm_demo.look_at_growth(pages=3)
    assert seen.old_view == seen.before
    assert seen.unreachable == 3 * wasm_demo.PAGE
    first, second, large = wasm_demo.growth_of_calls((1, 2, 4096))
    assert first[1:] == second[1:]
    assert large[1] == first[1] + 1
    assert large[2] >= 4096 * 1024 * 4 // 1024 > first[2]


def test_engine_lines_are_marked() -> None:
    assert all(line.startswith(("[OK] ", "[--] ")) for line in engines.check_lines())
    assert {row[1] for row in engines.backend_rows()} >= {"numpy", "native-scalar"}
    assert {row[1] for row in engines.host_rows()} >= {"wasmer", "wasmer-sdk", "wasmtime"}
