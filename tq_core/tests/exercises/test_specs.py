"""The specifications against the library, the pictures, and every stub and solution through the judge."""

from __future__ import annotations

import numpy as np
import pytest

from tq_core.cache import capacity
from tq_core.exercises import EXERCISES
from tq_core.exercises import ex01_cache_budget as ex01
from tq_core.exercises import ex02_math_prototype as ex02
from tq_core.exercises import ex03_one_layer_fixture as ex03
from tq_core.exercises import ex05_tiny_transformer as ex05
from tq_core.exercises import ex06_native_kernels as ex06
from tq_core.exercises import ex07_wasm_kernels as ex07
from tq_core.exercises.cells import solution, stub
from tq_core.exercises.check import NOT_ATTEMPTED, PASS, judge
from tq_core.exercises.draw import Touched
from tq_core.exercises.exercise import Exercise
from tq_core.math.hadamard import fwht
from tq_core.math.lloyd_max import lloyd_max
from tq_core.math.rotation import StructuredRotation
from tq_core.math.scalar import fitted_scale
from tq_core.shapes import ModelShape
from tq_core.tests.exercises.helpers import defined

ALL = list(EXERCISES.values())
IN_PYTHON = [e for e in ALL if not e.attempt.endswith("_source")]


@pytest.mark.parametrize("exercise", ALL, ids=lambda e: e.number)
def test_the_stub_is_not_attempted_and_draws_the_specification(exercise: Exercise) -> None:
    attempt = defined(exercise, stub(exercise))
    assert judge(exercise, attempt).verdict == NOT_ATTEMPTED
    with pytest.raises(NotImplementedError):
        exercise.draw(exercise.adapt(attempt))
    drawing = exercise.draw(exercise.spec)
    assert drawing.rows
    assert len(drawing.alt.split()) >= 5


@pytest.mark.parametrize("exercise", IN_PYTHON, ids=lambda e: e.number)
def test_the_solution_passes_and_draws_what_the_specification_draws(exercise: Exercise) -> None:
    attempt = defined(exercise, solution(exercise))
    outcome = judge(exercise, attempt)
    assert outcome.verdict == PASS, str(outcome)
    mine, spec = exercise.draw(exercise.adapt(attempt)), exercise.draw(exercise.spec)
    assert str(mine.rows) == str(spec.rows)


@pytest.mark.parametrize("exercise", IN_PYTHON, ids=lambda e: e.number)
def test_a_solution_of_another_exercise_fails(exercise: Exercise) -> None:
    for other in IN_PYTHON:
        if other is not exercise:
            assert judge(exercise, defined(other, solution(other))).verdict == "FAIL"


def test_longest_context_is_the_ledgers_formula() -> None:
    shape = ModelShape(32, 32, 8, 128)
    for budget, pairs, k, v, window in EXERCISES["1.2"].cases():
        assert ex01.longest_context(budget, pairs, k, v, window) == capacity.max_tokens(
            shape, budget, k, v, window=window
        )
    assert ex01.bytes_per_token(*ex01.LLAMA) == capacity.bytes_per_token(shape)


def test_transforms_are_the_librarys() -> None:
    x = np.random.default_rng(0).standard_normal(64).astype(np.float32)
    assert np.array_equal(ex02.fwht_in_place(x.copy()), fwht(x))
    rotation = StructuredRotation(64, 3)
    assert np.allclose(ex02.rotate(x, rotation.signs, False), rotation.forward(x), atol=1e-6)
    assert np.allclose(ex02.rotate(x, rotation.signs, True), rotation.inverse(x), atol=1e-6)


def test_lloyd_steps_lead_to_the_lloyd_max_table() -> None:
    samples, centroids = np.random.default_rng(0).standard_normal(200_000), np.linspace(-1, 1, 4)
    for _ in range(60):
        centroids = ex02.lloyd_step(samples, centroids)
    assert np.abs(centroids - lloyd_max(4).centroids).max() < 0.01


def test_one_order_of_rope_and_rotation_commutes() -> None:
    layer = ex03._layer()
    exact = ex03.logits(*layer[:4], np.eye(ex03.D), True)
    assert np.abs(ex03.logits(*layer, True) - exact).max() < 1e-12
    assert np.abs(ex03.logits(*layer, False) - exact).max() > 0.5


def test_matched_scale_is_the_codecs_rule() -> None:
    x, c = ex03._coded()
    norm = np.linalg.norm(x, axis=1, keepdims=True)
    rule = fitted_scale("matched", np.sqrt(ex03.D) * x / norm, c) * norm
    assert np.allclose(ex03.matched_scale(x, c), rule[:, 0], rtol=1e-6)


def test_merging_is_the_softmax_of_both_pages() -> None:
    rng = np.random.default_rng(3)
    logits, values = 5 * rng.standard_normal(12), rng.standard_normal((12, 4))
    merged = ex05.merge(ex05.state_of(logits[:5], values[:5]), ex05.state_of(logits[5:], values[5:]))
    weights = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    assert np.allclose(merged[2] / merged[1], weights @ values, rtol=1e-12)


def test_the_lane_map_tells_lane_order_from_others() -> None:
    def left_to_right(packed, scale, table, query):
        codes = np.stack([packed & 15, packed >> 4], axis=-1).reshape(len(packed), -1)
        return np.cumsum(query * table[codes], axis=1, dtype=np.float32)[:, -1] * scale

    kept, lost = ex06.lane_of_channel(ex06.score_4bit), ex06.lane_of_channel(left_to_right)
    lanes, channels = np.nonzero(kept)
    assert np.array_equal(lanes, channels % 16)
    assert len(lanes) == 32
    assert lost.sum() == 16 * 32  # one sum: the small number is lost whichever channel it is in


def test_indexing_is_seen_and_views_remember_their_place() -> None:
    x = Touched(np.arange(8.0))
    x[1:3] = x[5]
    pairs = x.reshape(4, 2)
    pairs[3, 1] += 1
    (x + 1)[0]
    found = [(kind, elements.tolist()) for kind, elements in x.log]
    assert found == [("read", [5]), ("write", [1, 2]), ("read", [7]), ("write", [7])]
    assert np.asarray(x).tolist() == [0, 5, 5, 3, 4, 5, 6, 8]


def test_places_do_not_touch() -> None:
    ends = 1040
    for address, size in zip(ex07.addresses(ex07.SIZES, 1040), ex07.SIZES, strict=True):
        assert address % 64 == 0
        assert address >= ends + 64
        ends = address + size
