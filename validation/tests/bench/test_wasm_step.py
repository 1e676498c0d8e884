"""The step in linear memory gives the native step's bytes, on a host and in node."""

from __future__ import annotations

import shutil

import pytest

from tq_core.errors import BackendError, TqError
from tq_core.kernels.native import NativeBackend
from validation.bench import wasm_step
from validation.bench.loops import native_targets
from validation.bench.ours import expected
from validation.bench.plan import SHAPES, Cell
from validation.bench.world import build

pytestmark = pytest.mark.kernels


@pytest.fixture(scope="module")
def world():
    backend = NativeBackend(native_targets()[-1])
    made = build(Cell(SHAPES["smollm2"], 4096 + 128, 1, "cold"), 1 << 20, 1, backend)
    return made, expected(made, "exact", backend).tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("target", ["scalar", "simd128"])
def test_same_bytes_on_wasmtime(world, target: str) -> None:
    made, want = world
    try:
        burst, output, close = wasm_step.host_runner(made, "wasmtime", target)
    except BackendError as error:
        pytest.skip(f"not exercised: {error}")
    burst(3)  # the states are reset every time, and the layers rotate
    assert output() == want
    close()


def test_same_bytes_in_node(world) -> None:
    made, want = world
    if shutil.which("node") is None:
        pytest.skip("not exercised: node is not installed")
    try:
        node = wasm_step.NodeContestant(made, "simd128")
    except TqError as error:
        pytest.skip(f"not exercised: {error}")
    assert node.sample(3) > 0
    assert node.output() == want
    node.close()


def test_without_node_the_row_says_so(world, monkeypatch) -> None:
    made, want = world
    monkeypatch.setattr(wasm_step.shutil, "which", lambda name: None)
    monkeypatch.setattr(wasm_step, "host_statuses", lambda: [])
    assert wasm_step.wasm_entries(made, want, "simd128", False) == (
        [],
        [("wasm-simd128@node", "decode step", "node: not installed")],
        [],
    )
