"""The ladder of notebook 06: rungs are verified before they are let in, works are the kernels that they name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tq_core.errors import KernelError, ValueRangeError
from tq_core.show import (
    bandwidth,
    figures,
    integers,
    ladder,
    page_set,
    plates,
    rungs,
    speed,
    step_parts,
    work,
)
from tq_core.show.live_cpp import compile_cell

pytestmark = pytest.mark.kernels

LOOPS = """
void scores(const uint8_t* codes, const float* scale, const float* table, const float* query, float softmax,
            uint32_t n, uint32_t d, float* out) {
  for (uint32_t t = 0; t < n; ++t) {
    float sum = 0;
    for (uint32_t j = 0; j < d; ++j) sum += query[j] * table[16 * j + codes[t * d + j]];
    out[t] = (sum * scale[t]) * softmax;
  }
}
void sums(const uint8_t* codes, const float* scale, const float* table, const float* weights, uint32_t n, uint32_t d, float* out) {
  for (uint32_t t = 0; t < n; ++t) {
    const float weight = weights[t] * scale[t];
    for (uint32_t j = 0; j < d; ++j) out[j] += weight * table[16 * j + codes[t * d + j]];
  }
}
"""


@pytest.fixture(scope="module")
def data() -> page_set.PageSet:
    made = page_set.make(256, cold=False)
    tables = np.concatenate([made.tables, made.tables + len(made.tables[0])])
    return replace(made, tables=tables, pool=np.concatenate([made.pool, made.pool]))


def test_page_set_refuses_part_of_a_page() -> None:
    with pytest.raises(ValueRangeError, match="tokens: expected a multiple of 128, got 100"):
        page_set.make(100)


def test_stored_bytes_are_codes_and_scales(data: page_set.PageSet) -> None:
    assert data.stored_bytes("key") == 3.5 * 128 / 8 + 2
    assert data.stored_bytes("value") == 3 * 128 / 8 + 2
    assert data.stored_bytes("key", "value") * data.units == data.layout.payload_bytes * len(data.tables[0])


def test_cold_layers_exceed_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_set, "last_level_cache", lambda: 1 << 20)
    assert page_set.cold_layers(1 << 18) * (1 << 18) >= 4 << 20
    monkeypatch.setattr(page_set, "last_level_cache", lambda: 1 << 30)
    assert page_set.cold_layers(1 << 20) * (1 << 20) <= page_set.COLD_MAX


def test_loops_are_the_oracles_and_decoding_is_near(data: page_set.PageSet) -> None:
    cell, (scores, sums, step) = compile_cell(LOOPS), rungs.decode_then_matmul(data)
    keys, values = (
        ladder.Ladder(data.true_scores, data.units, 1.0),
        ladder.Ladder(data.true_sums, data.units, 1.0),
    )
    keys.add("matmul", scores, 1)
    keys.add("loop", rungs.looped_scores(data, cell.scores), 1, twin=work.key_work(data, False).on_numpy())
    values.add("matmul", sums, 1)
    values.add("loop", rungs.looped_sums(data, cell.sums), 1, twin=work.value_work(data, False).on_numpy())
    ladder.Ladder(data.true_outputs, data.units, 1.0).add("matmul", step, 1)
    assert [str(r) for r in keys.rungs] == ["matmul: within 1e-05 of float64", "loop: same bits as numpy"]


@pytest.mark.slow
def test_every_work_has_its_twins_bits_on_every_layer(data: page_set.PageSet) -> None:
    works = {
        "key": work.key_work(data), "value": work.value_work(data), "softmax": work.softmax_work(data),
        "query": work.query_work(data), "output": work.output_work(data), "float": work.separate_step(data, False),
        "separate": work.separate_step(data), "fused": work.fused_step(data), "fast": work.fused_step(data, True),
    }  # fmt: skip
    for name, made in works.items():
        twin, runner = made.on_numpy(), made.native(rungs.native_targets()[-1])
        for _ in range(3):  # both layers, and the first again: nothing of a run is left for the next
            runner.output.fill(np.nan)
            runner.run()
            assert ladder.differing(runner.output, twin) == 0, name
    steps = ladder.Ladder(data.true_outputs, data.units, 1.0)
    steps.add("fused", works["fused"].native("scalar"), 1, ladder.EXACT_LIMIT, works["fused"].on_numpy())
    with pytest.raises(KernelError, match="fast: expected an error of at most 0.0001"):
        steps.add("fast", works["fast"].native("scalar"), 1, ladder.EXACT_LIMIT)


def test_a_wrong_rung_is_refused() -> None:
    truth = np.ones((2, 4))
    made = ladder.Ladder(truth, 4, 2.0)
    out = np.empty((2, 4), np.float32)
    off = work.Runner(lambda: out.__setitem__(slice(None), np.float32(1) + np.float32(2**-23)), out)
    with pytest.raises(
        KernelError, match="one bit: expected the bits of the numpy twin, got 8 numbers that differ"
    ):
        made.add("one bit", off, 1, twin=np.ones((2, 4), np.float32))
    with pytest.raises(KernelError, match="idle: expected an error"):
        made.add("idle", work.Runner(lambda: None, out), 1)
    with pytest.raises(KernelError, match="far: expected an error of at most 1e-05 against float64, got 0.5"):
        made.add("far", work.Runner(lambda: out.fill(1.5), out), 1)
    assert made.rungs == []
    made.add("near", off, 10)
    made.measure(rounds=3, seconds=0)
    (row,) = made.rows()
    assert row[:2] == ["near", "within 1e-05 of float64"]
    assert made.share("near") == pytest.approx(10 / made.ns["near"] / 2)


class Clock:
    """Says how long its runs took, from a list."""

    def __init__(self, name: str, log: list[str], *seconds: float) -> None:
        self.name, self.log, self.seconds = name, log, list(seconds)

    def sample(self, count: int) -> float:
        self.log.append(f"{self.name}{count}")
        return self.seconds.pop(0)


def test_interleaved_turns_around_and_takes_medians() -> None:
    log: list[str] = []
    a, b = Clock("a", log, 9, 0.001, 0.002, 0.004, 0.003), Clock("b", log, 9, 0.5, 0.7, 0.6, 0.8)
    found = speed.interleaved({"a": a, "b": b}, rounds=3, seconds=0.002)
    assert found == {"a": 0.003, "b": 0.7}
    assert log[4:] == ["a2", "b1", "b1", "a2", "a2", "b1"]
    least = speed.interleaved({"a": Clock("a", log, 9, 0.1, 3, 1, 2, 4)}, rounds=5, pick=min)
    assert least == {"a": 1}
    assert log[-1] == "a1"


def test_bandwidth_reads_everything() -> None:
    assert 0.01 < bandwidth.read_bandwidth(np.arange(1 << 20, dtype=np.uint8), rounds=1) < 1e5


@pytest.mark.slow
def test_parts_make_the_step_and_less_does_not(
    data: page_set.PageSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = rungs.native_targets()[-1]
    found = step_parts.shares(data, target, rounds=1)
    assert list(found) == ["query", *step_parts.PARTS, "output", "fused step"]
    assert all(ns > 0 for ns in found.values())
    monkeypatch.setattr(step_parts, "EVERYTHING", 1 + 4)
    with pytest.raises(KernelError, match="attend_parts: expected the bits of attend_packed"):
        step_parts.shares(data, target, rounds=1)


def test_integer_sums_fit_and_errors_are_ordered(data: page_set.PageSet) -> None:
    assert integers.largest_sum(256) <= np.iinfo(np.int32).max < integers.largest_sum(259)
    assert integers.largest_sum(3) == int((np.full(3, 255) * np.full(3, 32639)).sum())
    assert integers.product_rows()[0][1:] == [16, 32, 64]
    assert integers.product_rows()[3][1:] == [4, 8, 16]
    oracle, exact, fast = (row[3] for row in integers.error_rows(data))
    assert oracle < exact < 1e-4 < fast < integers.code_error(data)


def test_bars_carry_their_words() -> None:
    text = plates.svg(figures.rungs(["a", "b"], [100.0, 2.0], "ns", 1.0, "the roof"), "two bars")
    assert all(f">{word}<" in text for word in ("a", "b", "ns", "the roof"))
    figure = figures.stacked({"one": {"x": 1.0, "y": 2.0}, "two": {"y": 4.0}}, "ms")
    text = plates.svg(figure, "two bars of parts")
    assert all(f">{word}<" in text for word in ("one", "two", "x", "y", "ms"))
    assert [p.get_width() for p in figure.axes[0].patches] == [1, 0, 2, 4]
    assert len({p.get_hatch() for p in figure.axes[0].patches}) == 2
