"""The self-test covers every kernel and notices a single wrong bit."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tq_core.errors import BackendError
from tq_core.kernels.backend import NumpyBackend
from tq_core.kernels.hosts import HOSTS, host_statuses
from tq_core.kernels.table import KERNELS
from tq_core.kernels.wasm import WasmBackend
from tq_core.kernels.wasm_selftest import known_answers, self_test
from tq_core.math.books import BOOK_LEVELS, book_rows
from wasm.build import build
from wasm.recipe import Recipe

pytestmark = pytest.mark.kernels


class Faulty(NumpyBackend):
    """The reference with one bit of one kernel's last output flipped."""

    name = "faulty"

    def __init__(self, kernel: str) -> None:
        self.kernel = kernel

    def call(self, kernel: str, **arguments: Any) -> None:
        super().call(kernel, **arguments)
        if kernel == self.kernel:
            last = [a.name for a in KERNELS[kernel].args if a.role != "in"][-1]
            arguments[last].view(np.uint8).reshape(-1)[-1] ^= 1


def test_the_reference_passes_its_own_test() -> None:
    assert self_test(NumpyBackend()) == len(known_answers())


def test_every_kernel_of_the_table_has_a_case() -> None:
    assert {kernel for kernel, _, _ in known_answers()} == set(KERNELS)


def test_every_width_and_number_of_heads_per_pass_has_a_case() -> None:
    cases = [arguments for kernel, arguments, _ in known_answers() if kernel == "score_keys"]
    rows = {row for arguments in cases for row in book_rows(arguments["widths"])}
    assert rows == set(range(len(BOOK_LEVELS)))
    groups = [len(arguments["query"]) // arguments["n_kv_heads"] for arguments in cases]
    heads_at_once = int(re.search(r"kHeadsAtOnce = (\d+)", (Recipe().include / "tq/base.h").read_text())[1])
    assert {min(heads_at_once, g - first) for g in groups for first in range(0, g, heads_at_once)} == set(
        range(1, heads_at_once + 1)
    )


@pytest.mark.parametrize("kernel", KERNELS)
def test_one_wrong_bit_is_refused_by_name(kernel: str) -> None:
    with pytest.raises(BackendError, match=f"faulty: self-test: {kernel}: .* 1 different ones"):
        self_test(Faulty(kernel))


def test_answers_are_not_trivial() -> None:
    for kernel, arguments, expected in known_answers():
        for name, value in expected.items():
            assert not np.array_equal(value, arguments[name]), f"{kernel}: {name} is left as it was"
            if value.dtype.kind == "f":
                assert np.isfinite(value).all(), kernel


TWICE = """
// Two lookups with one index, the second in the complemented table: the same bytes on a sound engine.
// Their mean shows a fault in either, whichever the compiler puts first.
static inline v128_t twice(v128_t table, v128_t index) {
  const v128_t a = wasm_i8x16_swizzle(table, index), b = wasm_i8x16_swizzle(wasm_v128_not(table), index);
  return wasm_u8x16_avgr(a, wasm_v128_not(b));
}
"""


@pytest.mark.slow
def test_kernels_that_use_an_index_twice_are_refused_on_the_engine_that_overwrites_it(tmp_path: Path) -> None:
    """The fault itself, planted in the real kernels: wasmtime runs them, wasmer 1.1 must not pass."""
    found = next(s for s in host_statuses() if s.name == "wasmer")
    if not found.available:
        pytest.skip(f"not exercised: {found.reason}")
    shutil.copytree(Recipe().include, tmp_path / "cpp")
    header = tmp_path / "cpp" / "tq" / "simd" / "wasm128.h"
    planted, n = re.subn(r"wasm_i8x16_swizzle\(", "twice(", header.read_text())
    assert n == 1
    header.write_text(TWICE + planted)
    recipe = Recipe(out=tmp_path / "out", include=tmp_path / "cpp")
    build(recipe)
    assert self_test(WasmBackend("simd128", HOSTS["wasmtime"], recipe.out)) == len(known_answers())
    with pytest.raises(BackendError, match="wasm-simd128@wasmer: self-test: "):
        self_test(WasmBackend("simd128", HOSTS["wasmer"], recipe.out))
