"""Our own contestants compute what they claim to, before anybody times them; and a whole tiny run."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import jsonschema
import numpy as np
import pytest

from tq_core.kernels.backend import NumpyBackend
from tq_core.kernels.native import NativeBackend
from tq_core.kernels.table import KERNELS
from tq_core.paths import ROOT
from validation.bench import ours, parts, report
from validation.bench.loops import FLOAT_TARGETS, load_bench, native_targets, repeat_source, repeated
from validation.bench.plan import QUICK, SHAPES, Cell
from validation.bench.run import run
from validation.bench.world import build

pytestmark = [pytest.mark.kernels, pytest.mark.slow]
SCHEMA = ROOT / "validation" / "schema" / "bench-v1.schema.json"
COLD = 1 << 20


def _world(shape: str = "smollm2", tokens: int = 256, state: str = "cold"):
    cell = Cell(SHAPES[shape], tokens, 1, state)
    return cell, build(cell, COLD, 1, NativeBackend(native_targets()[-1]))


def test_a_world_has_the_bytes_that_it_says() -> None:
    _, world = _world()
    assert world.layers == -(-COLD // (2 * world.layout.page_bytes))
    assert world.payload_bytes == 256 * 3 * 56  # 64 channels at 3.5 and 3 bits, two float16 scales
    pages = world.pool.reshape(-1, world.layout.page_bytes)
    for row in world.tables[1:]:
        assert (pages[row] == pages[world.tables[0]]).all()
    assert len(np.unique(world.tables)) == world.tables.size


@pytest.mark.parametrize("shape", list(SHAPES))
@pytest.mark.parametrize("threads", [1, 2])
def test_the_repeated_step_is_the_librarys(shape: str, threads: int) -> None:
    _, world = _world(shape, 4096 + 128)  # two chunks
    targets = native_targets() if shape == "smollm2" else native_targets()[-1:]
    for kind in ("exact", "fast"):
        want = ours.expected(world, kind, NativeBackend(targets[0]))
        for target in targets:
            burst, y = ours.native_step(world, target, kind == "fast", threads)
            for calls in (1, 3):
                y[:] = 0
                burst(calls)
                assert y.tobytes() == want.tobytes(), (target, kind, calls)


def test_the_step_is_the_numpy_references() -> None:
    _, world = _world(tokens=128)
    burst, y = ours.native_step(world, native_targets()[-1], False, 1)
    burst(2)
    assert y.tobytes() == ours.expected(world, "exact", NumpyBackend()).tobytes()
    burst, y = ours.oracle_step(world, native_targets()[-1])
    burst(1)
    assert ours.relative_error(y, ours.expected(world, "exact", NumpyBackend())) < 1e-3


@pytest.mark.parametrize("shape", list(SHAPES))
def test_plain_float16_attention_is_attention(shape: str) -> None:
    _, world = _world(shape)
    data = ours.half_data(world, 2)
    for target in [t for t in FLOAT_TARGETS if t in native_targets()]:
        for threads in (1, 2):
            burst, y = ours.half_step(world, target, data, 2, threads)
            burst(3)
            assert ours.relative_error(y, ours.plain_attention(world)) < 2e-3


def test_reading_reads_everything() -> None:
    data = np.zeros(1 << 17, np.uint64).view(np.uint8)
    start = -data.ctypes.data % 64
    block = data[start : start + (1 << 19)]
    words = block.view(np.uint64)
    words[:] = np.arange(len(words))
    for target in ["scalar", *(t for t in FLOAT_TARGETS if t in native_targets())]:
        for parts_ in (1, 2):
            for streams in (1, 4):
                out = np.zeros(parts_, np.uint64)
                getattr(load_bench(), target).read_sum(1, parts_, streams, block, block.size, out)
                assert int(out.sum()) == int(words.sum()), (target, parts_, streams)


def test_a_repeated_kernel_walks_through_the_layers() -> None:
    _, world = _world(tokens=128)
    pages = world.pool.reshape(-1, world.layout.page_bytes)
    for layer, row in enumerate(world.tables):
        pages[row, 64:] = layer  # scales and codes that differ from layer to layer
    scores = np.zeros((9, 128), np.float32)
    arguments = {"query": np.ones((9, 64), np.int16), "step": np.ones(9, np.float32), "scores": scores}
    arguments["centre_query"] = np.zeros((9, 0), np.float32)
    stored = {k: v for k, v in world.stored("key").items() if k != "pages"}
    burst = repeated("score_keys", "scalar", world.tables, **arguments, **stored)
    seen = []
    for calls in (1, 1, 2):
        burst(calls)
        seen.append(scores.copy())
    for got, layer in zip(seen, (0, 1, 3)):
        NativeBackend("scalar").call("score_keys", **arguments, **stored, pages=world.tables[layer])
        np.testing.assert_array_equal(got, scores)


def test_every_kernel_has_a_repeating_form() -> None:
    for kernel in KERNELS.values():
        assert (
            "pages + size_t((first_layer + call) % n_layers) * p" in repeat_source(kernel, "scalar")
        ) == kernel.paged


def test_the_parts_run() -> None:
    _, world = _world(state="warm")
    best = native_targets()[-1]
    entries = [
        *parts.scan_entries(world),
        *parts.append_entries(world, best),
        *parts.query_entries(world, best),
    ]
    entries += [parts.window_entry(world, best), *parts.overhead_entries(world, best)]
    names = [e.contestant.name for e in entries]
    assert len(names) == len(set(names))
    assert all(e.contestant.sample(2) > 0 for e in entries)


def test_appending_in_the_benchmark_leaves_the_librarys_bytes() -> None:
    """The cells' pages are what the append kernels that are timed write."""
    _, world = _world(tokens=128, state="warm")
    rebuilt = build(Cell(SHAPES["smollm2"], 128, 1, "warm"), COLD, 1, NumpyBackend())
    assert rebuilt.pool.tobytes() == world.pool.tobytes()


@pytest.fixture(scope="module")
def tiny_result():
    plan = replace(
        QUICK, shapes=("smollm2",), tokens=(128,), threads=(1, 2), sample_seconds=1e-4, cold_bytes=1 << 20,
        bandwidth_bytes=1 << 20, wasm=False, peers=False,
    )  # fmt: skip
    return run(plan)


def test_a_tiny_run_fits_the_schema(tiny_result) -> None:
    jsonschema.validate(json.loads(json.dumps(tiny_result)), json.loads(SCHEMA.read_text()))
    names = {r["name"] for r in tiny_result["rows"]}
    best = native_targets()[-1]
    assert {
        f"exact@native-{best}",
        f"fast@native-{best}",
        f"key-scan@native-{best}",
        "page-allocation",
    } <= names
    assert not any(r.get("checked") == "DIFFERS" for r in tiny_result["rows"])
    assert tiny_result["ratios"] and f"exact@native-{best}" not in tiny_result["ratios"]


def test_the_files_are_written_whole(tiny_result, tmp_path) -> None:
    out = tmp_path / "made" / "bench"
    paths = report.write(tiny_result, out)
    assert (
        {p.name for p in out.iterdir()}
        == set(paths)
        == {"bench.json", "bench.txt", "roofline.svg", "roofline.png", "bytes.svg", "bytes.png"}
    )
    assert json.loads((out / "bench.json").read_text()) == json.loads(json.dumps(tiny_result))
    text = (out / "bench.txt").read_text()
    assert all(r["name"] in text for r in tiny_result["rows"]) and "not measured" in text
    svg = (out / "roofline.svg").read_text()
    assert "multiply-adds per second" in svg and "read bandwidth" in svg
    first = {name: path.read_bytes() for name, path in paths.items()}
    report.write(tiny_result, out)
    assert first == {name: path.read_bytes() for name, path in paths.items()}


def test_without_matplotlib_the_figures_are_missing_and_the_text_says_so(
    tiny_result, tmp_path, monkeypatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    paths = report.write(tiny_result, tmp_path)
    assert set(paths) == {"bench.json", "bench.txt"}
    assert "figures: not drawn" in paths["bench.txt"].read_text()
