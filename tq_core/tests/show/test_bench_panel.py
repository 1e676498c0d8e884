"""The workbench: what it shows is what a cache filled token by token answers; refusals are sentences; nothing piles up."""

from __future__ import annotations

import gc
import sys

import ipywidgets as widgets
import numpy as np
import pytest
from matplotlib.figure import Figure

from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.arms import get_arm
from tq_core.codecs.shaped_arm import planned_best_turbo
from tq_core.errors import CodecError
from tq_core.kernels.backend import get_backend
from tq_core.model.outline import KNOWN
from tq_core.model.outline_bytes import longest_context, planned_bytes
from tq_core.show.attention import rank_agreement
from tq_core.show.bench_panel import BUDGETS, BenchPanel
from tq_core.show.page_size import PAGE_SIZES, with_page_tokens
from tq_core.show.panel import Panel
from tq_core.show.workbench import DECODED, KEPT_READINGS, LIMITS, Setting, Workbench
from tq_core.tests.show.test_panel import resident_kib

CODECS = ("structured-turbo", "best-turbo", "kivi-control", "int8")


@pytest.fixture(scope="module")
def bench() -> Workbench:
    return Workbench(("smollm2", "gemma3-270m"), (72, 160), CODECS, get_backend("numpy"))


@pytest.fixture
def panel(bench: Workbench) -> Panel:
    made = Panel(BenchPanel(bench))
    made.set(model="smollm2", context=160)
    return made


def by_hand(bench: Workbench, codec: str, n: int, **options: float) -> tuple[float, float]:
    """(rank agreement, output error), the tokens appended one by one and the softmax taken here."""
    layer, arm = bench.benches["smollm2", n], get_arm(codec, **options)
    cache = PagedCache(layer.shape, arm, get_backend("numpy"))
    q, k, v = layer.queries, layer.keys, layer.values
    ranks, errors = [], []
    for t in range(n):
        one = slice(t, t + 1)
        out = cache.attend(0, q[one], k[one], v[one])[0]
        if t < n - DECODED:
            continue
        logits = np.einsum("hd,td->ht", q[t].astype(float), k[: t + 1, 0].astype(float)) / 8
        weights = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        exact = weights @ v[: t + 1, 0].astype(float)
        errors.append(np.linalg.norm(out - exact, axis=1) / np.linalg.norm(exact, axis=1))
        ranks.append(rank_agreement(logits, cache.scores(0, q[t]).astype(float)))
    return float(np.mean(ranks)), float(np.mean(errors))


def test_quality_is_that_of_a_cache_filled_token_by_token(bench: Workbench, panel: Panel) -> None:
    for codec, bits, window in (("structured-turbo", 2.5, 16), ("kivi-control", 3.0, 0)):
        panel.set(codec=codec, key_bits=bits if codec != "kivi-control" else 3.0, window=window)
        panel.set(value_bits=3.0)
        rank, error = by_hand(bench, codec, 160, key_bits=bits, value_bits=3.0, window=window)
        assert panel.numbers["rank agreement"] == pytest.approx(rank, abs=1e-12)
        assert panel.numbers["output error"] == pytest.approx(error, rel=1e-9)


def test_memory_is_the_plan_of_the_whole_model(panel: Panel) -> None:
    panel.set(key_bits=2.0, value_bits=4.0, window=64, budget="256 MiB")
    arm, outline = get_arm("structured-turbo", key_bits=2.0, value_bits=4.0, window=64), KNOWN["smollm2"]
    assert panel.numbers["whole model, MiB"] == planned_bytes(outline, arm, 160).total / 2**20
    assert panel.numbers["longest context"] == longest_context(outline, arm, BUDGETS["256 MiB"])
    assert panel.numbers["longest as fp16"] == longest_context(outline, get_arm("fp16"), 2**28)
    panel.set(codec="best-turbo")
    arm = planned_best_turbo(outline.shape, key_bits=2.0, value_bits=4.0, window=64)
    assert panel.numbers["whole model, MiB"] == planned_bytes(outline, arm, 160).total / 2**20


def test_every_control_changes_the_picture(panel: Panel) -> None:
    moves = {"codec": "int8", "window": 0, "page_tokens": 256, "model": "gemma3-270m", "budget": "16 GiB"}
    for name, value in {"key_bits": 2.0, "value_bits": 2.0, **moves, "context": 72}.items():
        if name == "codec":
            panel.set(key_bits=3.0)
        picture = panel._picture.value
        panel.set(**{name: value})
        assert 'role="status"' in panel._readout.value, name
        assert panel._picture.value != picture, name


@pytest.mark.parametrize("codec", LIMITS)
def test_the_page_size_moves_memory_and_not_what_is_read(codec: str) -> None:
    bench = Workbench(("smollm2",), (300,), (codec,), get_backend("numpy"))
    bits = 4.0 if codec == "qserve" else 3.0
    settings = [Setting(codec, bits, bits, 16, size) for size in PAGE_SIZES]
    readings = [bench.reading("smollm2", 300, s) for s in settings]
    for reading in readings[1:]:
        np.testing.assert_allclose(reading.cached[-1], readings[0].cached[-1], rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(reading.output_error, readings[0].output_error, rtol=1e-3)
    outline = KNOWN["smollm2"]
    plans = [planned_bytes(outline, bench.planned_arm("smollm2", s), 300).nbytes["headers"] for s in settings]
    assert plans == sorted(plans, reverse=True) and plans[0] > plans[-1]


def test_a_size_that_kernels_have_no_room_for_is_refused() -> None:
    with pytest.raises(CodecError, match="page_tokens"):
        with_page_tokens(get_arm("structured-turbo"), 512)


def test_what_a_codec_cannot_be_is_said_and_the_picture_stays(panel: Panel) -> None:
    panel.set(codec="kivi-control")
    picture = panel._picture.value
    panel.set(key_bits=2.5)
    said = panel._readout.value
    assert 'role="alert"' in said and "kivi-control cannot be set like this" in said
    assert "key_bits: expected one of (2, 3, 4), got 2.5" in said
    assert panel._picture.value == picture
    panel.set(key_bits=2.0)
    assert 'role="status"' in panel._readout.value and panel._picture.value != picture


def test_a_context_that_would_take_too_long_is_refused(bench: Workbench) -> None:
    with pytest.raises(CodecError, match="at most 1,024 tokens for kivi-control"):
        bench.reading("smollm2", 4096, Setting("kivi-control", 3.0, 3.0, 32, 128))


def test_the_static_reader_has_a_table_and_words(bench: Workbench) -> None:
    panel = Panel(BenchPanel(bench))
    columns, rows = panel.preset_table()
    assert len(rows) == 3 and all(len(row) == len(columns) for row in rows)
    assert "rank agreement" in columns and "longest context" in columns
    for word in ("Left:", "Middle:", "Right:", "structured-turbo"):
        assert word in panel.alt


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="not exercised: needs /proc")
@pytest.mark.slow
def test_1000_moves_leave_nothing_behind(panel: Panel, bench: Workbench) -> None:
    moves = [{"key_bits": k, "window": w} for k in (2.0, 2.5, 3.0, 3.5, 4.0) for w in (0, 16, 32)]
    moves += [{"budget": b} for b in BUDGETS] + [{"page_tokens": p} for p in PAGE_SIZES]
    panel.set(context=72)

    def move(times: int) -> tuple[int, int]:
        """Figures and widgets alive after at least so many moves."""
        done, i = panel.moves, 0
        while panel.moves - done < times:
            panel.set(**moves[i % len(moves)])
            i += 1
        gc.collect()
        return sum(isinstance(o, Figure) for o in gc.get_objects()), len(widgets.widget._instances)

    before, memory, done = move(100), resident_kib(), panel.moves
    after = move(1000)
    assert panel.moves >= done + 1000
    assert after == before
    assert bench.kept <= KEPT_READINGS
    assert resident_kib() - memory < 8 * 1024
