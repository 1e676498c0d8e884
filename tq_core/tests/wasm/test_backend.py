"""The wasm backend: marshalling, guards, growth, pages, and errors that change nothing."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import numpy as np
import pytest

from tq_core.errors import BackendError, KernelError, ShapeError
from tq_core.kernels.hosts import HOSTS, host_statuses
from tq_core.kernels.wasm import WasmBackend, candidates
from tq_core.kernels.wasm_memory import GROWTH_BYTES, place
from tq_core.tests.wasm.conftest import toy_call
from tq_core.tests.wasm.toytable import TOY_KERNELS
from wasm.build import is_current
from wasm.recipe import Recipe

pytestmark = pytest.mark.kernels


def test_names_say_target_and_host(backend: WasmBackend) -> None:
    target, host = backend.name.removeprefix("wasm-").split("@")
    assert target in ("scalar", "simd128") and host in HOSTS


def test_outputs_are_written_in_place_and_inputs_left_alone(backend: WasmBackend) -> None:
    x, y = np.arange(35, dtype=np.float32).reshape(5, 7), np.full((5, 7), 0.25, np.float32)
    before = x.copy()
    backend.run(toy_call("axpy", x, y, 0, np.float32(0.3).item()))
    assert np.array_equal(y, np.float32(0.25) + np.float32(0.3) * before)
    assert np.array_equal(x, before)


def test_targets_and_hosts_agree_on_every_bit(backend: WasmBackend) -> None:
    random = np.random.default_rng(5)
    table, index = random.integers(0, 256, 16, np.uint8), random.integers(0, 256, (9, 16), np.uint8)
    got = np.zeros((9, 16), np.uint8)
    backend.run(toy_call("gather", table, index, got))
    assert np.array_equal(got, np.where(index < 16, table[index & 15], 0))


def test_an_empty_array_is_no_special_case(backend: WasmBackend) -> None:
    empty = np.zeros((0, 3), np.float32)
    backend.run(toy_call("axpy", empty, empty.copy(), 0, 1.0))


@pytest.mark.parametrize("extra", [1, 64])
def test_a_write_beyond_an_array_is_detected_and_nothing_is_copied_back(
    backend: WasmBackend, extra: int
) -> None:
    y = np.zeros(37, np.uint8)
    with pytest.raises(KernelError, match=rf"overrun: wrote outside its arrays: {extra} guard bytes after y"):
        backend.run(toy_call("overrun", y, extra))
    assert not y.any()
    backend.run(toy_call("overrun", y, 0))
    assert (y == 7).all()


def test_a_trap_leaves_the_arrays_and_the_backend_usable(backend: WasmBackend) -> None:
    y = np.zeros(4, np.uint8)
    with pytest.raises(KernelError, match="trap: trapped in"):
        backend.run(toy_call("trap", y))
    assert not y.any()
    backend.run(toy_call("overrun", y, 0))
    assert (y == 7).all()


def test_memory_grows_in_large_steps_that_are_counted(backend: WasmBackend) -> None:
    events = []
    for n in (10, 200_000, 200_000, 1_500_000, 10):
        x, y = np.ones((n, 1), np.float32), np.ones((n, 1), np.float32)
        backend.run(toy_call("axpy", x, y, 0, 2.0))
        assert (y == 3).all()
        events.append(backend.growth_events)
    # 10 rows may or may not fit the memory a module starts with; 1.6 MB fit 4 MiB, 12 MB do not.
    assert events[1] == events[2] == 1 and events[3] == events[4] == 2
    assert backend.instance().memory_bytes % GROWTH_BYTES == 0


def test_only_the_pages_in_use_are_copied_and_written_back(backend: WasmBackend) -> None:
    page_bytes, n_pages = 4096, 3000
    pool = np.arange(page_bytes * n_pages + 17, dtype=np.uint8)
    expected = pool.copy()
    layout = np.array([0, page_bytes, 0, 0, 0, 0, 0, 0], np.uint32)
    pages, x = np.array([2999, 3, 500], np.uint32), np.array([1, 2, 3], np.uint8)
    backend.run(toy_call("stamp", x, pages, layout, pool))
    for page, add in zip(pages, x, strict=True):
        expected[page * page_bytes : (page + 1) * page_bytes] += add
    assert np.array_equal(pool, expected)
    assert pages.tolist() == [2999, 3, 500]
    assert backend.instance().memory_bytes < pool.nbytes


def test_a_page_that_occurs_twice_is_one_page(backend: WasmBackend) -> None:
    layout = np.array([0, 64, 0, 0, 0, 0, 0, 0], np.uint32)
    pool = np.zeros(256, np.uint8)
    backend.run(toy_call("stamp", np.array([1, 5], np.uint8), np.array([2, 2], np.uint32), layout, pool))
    assert (pool[128:192] == 6).all() and pool.sum() == 6 * 64


def test_a_page_outside_the_pool_is_refused(backend: WasmBackend) -> None:
    layout = np.array([0, 64, 0, 0, 0, 0, 0, 0], np.uint32)
    with pytest.raises(KernelError, match="pages: expected indices below 4, got 4"):
        backend.run(
            toy_call("stamp", np.ones(1, np.uint8), np.array([4], np.uint32), layout, np.zeros(256, np.uint8))
        )


def test_each_thread_has_its_own_instance(backend: WasmBackend) -> None:
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for n in range(1, 30):
                y = np.full((n, seed), seed, np.float32)
                backend.run(toy_call("axpy", np.ones_like(y), y, 0, float(seed)))
                assert (y == 2 * seed).all()
        except BaseException as error:
            errors.append(error)
        finally:
            backend.discard()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_arrays_larger_than_the_address_space_are_refused() -> None:
    with pytest.raises(KernelError, match="wasm memory"):
        place([2**31, 2**31], 1024)


def test_arrays_are_aligned_with_a_guard_on_both_sides() -> None:
    placement = place([1, 64, 0, 100], 1001)
    assert all(address % 64 == 0 for address in placement.addresses)
    spans = sorted([*placement.guards, *zip(placement.addresses, [1, 64, 0, 100], strict=True)])
    assert all(n >= 64 for _, n in placement.guards)
    cursor = 1001
    for address, n in spans:
        assert address == cursor
        cursor += n
    assert cursor == placement.end


WASMTIME = HOSTS["wasmtime"]


def test_a_missing_module_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="make wasm"):
        WasmBackend("scalar", WASMTIME, tmp_path, TOY_KERNELS)


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda d: (d / "tq_scalar.wasm").write_bytes(b"\0asm"), "SHA-256"),
        (lambda d: (d / "manifest.json").write_text("{}"), "manifest beside tq_scalar.wasm is damaged"),
        (lambda d: (d / "manifest.json").write_text("["), "damaged"),
        (lambda d: (d / "tq_scalar.wasm").unlink(), "got no file"),
    ],
)
def test_an_altered_module_is_refused(toy_modules: Path, tmp_path: Path, damage, message: str) -> None:
    for name in ("tq_scalar.wasm", "manifest.json"):
        shutil.copy(toy_modules / name, tmp_path)
    damage(tmp_path)
    with pytest.raises(BackendError, match=f"{message}.*make wasm"):
        WasmBackend("scalar", WASMTIME, tmp_path, TOY_KERNELS)


def test_a_module_of_another_table_is_refused(toy_modules: Path) -> None:
    with pytest.raises(BackendError, match="other kernel signatures; run `make wasm`"):
        WasmBackend("scalar", WASMTIME, toy_modules, {k: v for k, v in TOY_KERNELS.items() if k != "trap"})


def test_every_target_on_every_host_has_a_status() -> None:
    statuses = {status.name: status for status, _ in candidates()}
    assert set(statuses) == {f"wasm-{t}@{h}" for t in ("scalar", "simd128") for h in HOSTS}
    for name, status in statuses.items():
        assert status.reason
        # A host that runs here and a backend on it that does not is a failure, not a skip.
        if get_status(name.split("@")[1]).available:
            assert status.available, f"{name}: {status.reason}"
            assert "self-test passed" in status.reason, name


def get_status(host: str):
    return next(s for s in host_statuses() if s.name == host)


def test_the_installed_modules_are_those_of_the_sources() -> None:
    assert is_current(Recipe()), "build/wasm is older than its sources; run `make wasm`"


def test_arguments_are_checked_before_anything_runs() -> None:
    made = {status.name: make for status, make in candidates() if status.available}
    if not made:
        pytest.skip("not exercised: no wasm backend runs here")
    backend = next(iter(made.values()))()
    x = np.ones((2, 3), np.float32)
    y = np.full((2, 4), 9, np.float32)
    with pytest.raises(ShapeError, match="linear: w: expected i=3"):
        backend.call("linear", x=x, w=np.ones((4, 5), np.float32), y=y)
    assert (y == 9).all()
