"""What notebook 07 times: a step in a module's memory on every engine, with the twins' bits."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from tq_core.errors import BackendError, KernelError
from tq_core.kernels.hosts import HOSTS, host_statuses
from tq_core.show import guest_step, node_step, page_set, wasm_cost, work

pytestmark = pytest.mark.kernels


@pytest.fixture(scope="module")
def data() -> page_set.PageSet:
    return page_set.make(256, cold=False)


def test_arrays_are_placed_once(data: page_set.PageSet) -> None:
    step = work.fused_step(data)
    placed = guest_step.lay_out(step, 1024)
    addresses = [address for address, _ in placed.writes]
    assert len(set(addresses)) == len(addresses)
    assert sum(a.nbytes == data.pool.nbytes for _, a in placed.writes) == 1
    assert [kernel.name for kernel, _ in placed.calls] == [name for name, _ in step.calls]
    assert {address for address, _ in placed.resets} < set(addresses)
    assert placed.output[0] in addresses
    assert placed.memory_bytes > max(addresses)


@pytest.mark.parametrize("host", list(HOSTS))
def test_guest_step_has_numpys_bits(data: page_set.PageSet, host: str) -> None:
    status = next(s for s in host_statuses() if s.name == host)
    if not status.available:
        pytest.skip(status.reason)
    made = work.fused_step(data)
    twin, step = made.on_numpy(), guest_step.GuestStep(made, HOSTS[host], "simd128")
    try:
        for _ in range(2):
            step.run()
            assert step.output().tobytes() == twin.tobytes()
        step.empty_call()
        step.copy_pool()
        step.run()
        assert step.output().tobytes() == twin.tobytes()
    finally:
        step.close()


def test_node_step_has_numpys_bits(data: page_set.PageSet) -> None:
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    made = work.fused_step(data)
    twin, step = made.on_numpy(), node_step.NodeStep(made, "simd128")
    try:
        assert step.sample(2) > 0
        assert step.output().tobytes() == twin.tobytes()
        with pytest.raises(BackendError, match="node: TypeError"):
            step._ask(op="nothing")
    finally:
        step.close()
    step.close()
    with pytest.raises(BackendError, match="node: the child was ended"):
        step.sample(1)


def test_without_node_it_says_so(data: page_set.PageSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_step.shutil, "which", lambda _: None)
    with pytest.raises(BackendError, match="node: not installed"):
        node_step.NodeStep(work.fused_step(data), "scalar")


@pytest.mark.slow
def test_contest_names_who_runs_and_who_is_missing(data: page_set.PageSet) -> None:
    contest = wasm_cost.Contest(data, natives=["scalar"])
    try:
        engines = {f"wasm-{t}@{h}" for t in wasm_cost.WASM_TARGETS for h in (*HOSTS, "node")}
        everyone = engines | {"native-scalar", wasm_cost.NATIVE_128}
        assert set(contest.runs) | {name for name, _ in contest.missing} == everyone
        assert "native-scalar" in contest.runs
        ns = contest.measure(rounds=1)
        assert list(ns) == list(contest.runs)
        assert all(value > 0 for value in ns.values())
        for split in contest.split(rounds=1):
            assert min(split.calls, split.copy, split.checked) > 0
            assert split.kernels >= 0
    finally:
        contest.close()
    rows = wasm_cost.ratio_rows({"a": 2.0, "b": 3.0}, ("a", "none"))
    assert rows == [["a", 2.0, "1.00 x", "-"], ["b", 3.0, "1.50 x", "-"]]


def test_an_engine_with_other_bits_is_refused(
    data: page_set.PageSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        wasm_cost, "host_statuses", lambda: [s for s in host_statuses() if s.name == "wasmtime"]
    )
    monkeypatch.setattr(guest_step.GuestStep, "output", lambda self: np.zeros(data.queries.shape, np.float32))
    monkeypatch.setattr(wasm_cost.native128, "load", lambda: (_ for _ in ()).throw(BackendError("left out")))
    if not any(s.name == "wasmtime" and s.available for s in host_statuses()):
        pytest.skip("wasmtime is not installed")
    with pytest.raises(KernelError, match="wasm-scalar@wasmtime: expected the bits of the numpy twins"):
        wasm_cost.Contest(data, natives=[])
