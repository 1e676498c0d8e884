"""Blocks of linear memory that page pools live in: no copies, no collisions, no leaks, no stale views."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tq_core.errors import BackendError, KernelError
from tq_core.kernels import buffers
from tq_core.kernels.hosts import get_host, host_statuses
from tq_core.kernels.hosts.base import MAX_MEMORY_BYTES
from tq_core.kernels.hosts.wasmtime_host import WasmtimeInstance
from tq_core.kernels.wasm import GuestBackend, WasmBackend
from tq_core.kernels.wasm_memory import GROWTH_BYTES
from tq_core.tests.wasm.conftest import toy_call
from tq_core.tests.wasm.toytable import TOY_KERNELS

pytestmark = pytest.mark.kernels

LAYOUT = np.array([0, 64, 0, 0, 0, 0, 0, 0], np.uint32)


@pytest.fixture(params=["wasmer", "wasmtime"])
def resident(request: pytest.FixtureRequest, toy_modules: Path) -> WasmBackend:
    """The toy kernels on each host in this process."""
    status = next(s for s in host_statuses() if s.name == request.param)
    if not status.available:
        pytest.skip(f"not exercised: {status.reason}")
    return WasmBackend("simd128", get_host(request.param), toy_modules, TOY_KERNELS)


def stamp(backend: GuestBackend, pool: np.ndarray, page: int, add: int) -> None:
    """Add to every byte of one page of 64 bytes."""
    backend.run(toy_call("stamp", np.array([add], np.uint8), np.array([page], np.uint32), LAYOUT, pool))


def test_hosts_say_whether_their_memory_can_be_looked_into(backend: WasmBackend) -> None:
    held = buffers.allocate(backend, 100)
    assert backend.resident == (backend.name.split("@")[1] != "wasmer-sdk")
    assert isinstance(held, buffers.HeapBuffer) != backend.resident
    assert held.array.shape == (100,) and held.array.ctypes.data % 64 == 0 and not held.lost
    stamp(backend, held.array[:64], 0, 3)
    assert held.array.tolist() == [3] * 64 + [0] * 36


def test_a_resident_pool_is_not_copied(resident: WasmBackend) -> None:
    pool, heap = resident.allocate(64 * 1000).array, np.zeros(64 * 1000, np.uint8)
    small = 1 + 4 + LAYOUT.nbytes
    for array, pages in ((pool, 0), (heap, 2)):  # a page of an ordinary pool goes in and comes back
        before = resident.copied_bytes
        stamp(resident, array, 999, 7)
        assert resident.copied_bytes - before == small + 64 * pages
        assert array[-64:].tolist() == [7] * 64 and not array[:-64].any()


def test_a_slice_of_a_slice_is_found_where_it_is(resident: WasmBackend) -> None:
    pool = resident.allocate(64 * 10).array
    stamp(resident, pool[128:].reshape(-1, 64)[1:].reshape(-1), 2, 5)  # page 2 of what begins at page 3
    assert np.flatnonzero(pool).tolist() == list(range(5 * 64, 6 * 64))


def test_views_are_remade_after_growth_and_older_ones_name_the_same_bytes(resident: WasmBackend) -> None:
    block = resident.allocate(640)
    old = block.array
    assert block.array is old
    old[:] = np.arange(640) % 251
    resident.allocate(GROWTH_BYTES)
    assert resident.growth_events == 2 or resident.instance().memory_bytes >= GROWTH_BYTES
    new = block.array
    assert new is not old and np.array_equal(new, np.arange(640) % 251)
    before = resident.copied_bytes
    stamp(resident, old, 1, 1)
    assert resident.copied_bytes - before < 64
    assert new[64] == 65 and new[63] == 63


def test_a_block_lives_as_long_as_a_view_and_is_used_again_zeroed(resident: WasmBackend) -> None:
    block = resident.allocate(5000)
    place = block.array.ctypes.data
    kept = block.array[100:200]
    kept[:] = 9
    del block
    other = resident.allocate(5000)
    assert other.array.ctypes.data != place
    stamp(resident, kept[28:92], 0, 1)
    assert kept.tolist() == [9] * 28 + [10] * 64 + [9] * 8 and not other.array.any()
    del kept
    again = resident.allocate(5000)
    assert again.array.ctypes.data == place and not again.array.any()


def test_blocks_and_the_arrays_of_calls_never_touch(resident: WasmBackend) -> None:
    """Blocks come and go between calls of every size; what each holds is only ever changed by its owner."""
    random = np.random.default_rng(11)
    held: list[tuple[Any, int]] = []
    for step in range(300):
        if held and random.random() < 0.45:
            held.pop(int(random.integers(len(held))))
        else:
            block = resident.allocate(int(random.integers(0, 200_000)))
            assert not block.array.any()
            block.array[:] = step % 255 + 1
            held.append((block, step % 255 + 1))
        n = int(random.integers(1, 30_000))
        x, y = np.ones((n, 1), np.float32), np.ones((n, 1), np.float32)
        resident.run(toy_call("axpy", x, y, 0, 2.0))
        assert (y == 3).all()
        assert all((b.array == value).all() for b, value in held)
    live = sum(b.array.nbytes for b, _ in held)
    assert resident.instance().memory_bytes < 4 * max(live, GROWTH_BYTES)


def test_memory_does_not_leak(resident: WasmBackend) -> None:
    sizes = []
    for i in range(60):
        resident.allocate(3 * 2**20 + 4096 * (i % 7)).array[:] = 1
        stamp(resident, np.zeros(64, np.uint8), 0, 1)
        sizes.append(resident.instance().memory_bytes)
    assert sizes[8:] == [sizes[8]] * 52
    assert sizes[8] <= 3 * GROWTH_BYTES


def test_a_write_beyond_a_block_is_detected(resident: WasmBackend) -> None:
    block = resident.allocate(37)
    with pytest.raises(KernelError, match="overrun: wrote outside its arrays: 5 guard bytes after y"):
        resident.run(toy_call("overrun", block.array, 5))
    # That instance has ended. The bytes remain, and are copied from now on.
    assert block.lost and (block.array == 7).all()
    before = resident.copied_bytes
    resident.run(toy_call("overrun", block.array, 0))
    assert resident.copied_bytes - before == 2 * 37
    assert not resident.allocate(37).lost


def test_a_write_before_a_block_is_detected(resident: WasmBackend) -> None:
    array = resident.allocate(64).array
    resident.instance().view()[region_start(resident, array) - 1] = 0
    with pytest.raises(KernelError, match="1 guard bytes before y"):
        resident.run(toy_call("overrun", array, 0))


def region_start(backend: WasmBackend, array: np.ndarray) -> int:
    return array.ctypes.data - backend.instance().view().ctypes.data


def test_another_thread_works_on_a_copy(resident: WasmBackend) -> None:
    pool, errors = resident.allocate(64 * 4).array, []

    def work() -> None:
        try:
            stamp(resident, pool, 2, 6)
        except BaseException as error:
            errors.append(error)
        finally:
            resident.discard()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not errors and np.flatnonzero(pool).tolist() == list(range(128, 192))


def test_too_much_is_a_memory_error_and_changes_nothing(resident: WasmBackend) -> None:
    block = resident.allocate(64)
    memory = resident.instance().memory_bytes
    with pytest.raises(MemoryError, match="wasm memory: no room"):
        resident.allocate(MAX_MEMORY_BYTES)
    assert resident.instance().memory_bytes == memory
    stamp(resident, block.array, 0, 2)
    assert (block.array == 2).all() and not block.lost


@pytest.mark.parametrize("during", ["allocate", "call"])
def test_a_memory_that_moves_is_refused_and_the_pool_found_again(toy_modules: Path, during: str) -> None:
    """The planted fault: an engine told to reserve nothing, whose growth leaves every older view behind."""
    import wasmtime

    def engine(_: object) -> wasmtime.Engine:
        config = wasmtime.Config()
        config.memory_reservation = config.memory_reservation_for_growth = config.memory_guard_size = 0
        config.memory_may_move = True
        return wasmtime.Engine(config)

    moving = SimpleNamespace(**vars(wasmtime) | {"Engine": engine})
    module = (toy_modules / "tq_simd128.wasm").read_bytes()
    backend = GuestBackend("moving", lambda: WasmtimeInstance(moving, module, TOY_KERNELS, "moving"), True)
    block = backend.allocate(64 * 3)
    block.array[:] = 4
    x = np.ones((4 * GROWTH_BYTES, 1), np.float32)
    error = MemoryError if during == "allocate" else BackendError
    with pytest.raises(error, match="moved under the page pools"):
        if during == "allocate":
            backend.allocate(x.nbytes)
        else:
            backend.run(toy_call("axpy", x, x.copy(), 0, 1.0))
    assert (block.array == 4).all()
    stamp(backend, block.array, 1, 1)
    assert block.array.tolist() == [4] * 64 + [5] * 64 + [4] * 64
