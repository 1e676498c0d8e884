"""Greedy and seeded choice of tokens."""

from __future__ import annotations

import numpy as np
import pytest

from tq_core.errors import ShapeError, ValueRangeError
from tq_core.model.sampling import Sampler, Sampling

LOGITS = np.log(np.array([0.05, 0.4, 0.1, 0.4, 0.05], np.float32))


def draws(sampling: Sampling, count: int) -> list[int]:
    sampler = Sampler(sampling)
    return [sampler.choose(LOGITS) for _ in range(count)]


def test_greedy_takes_the_lowest_id_of_equals() -> None:
    assert Sampler(Sampling()).choose(LOGITS) == 1


def test_a_seed_fixes_the_choices() -> None:
    assert draws(Sampling(1.0, seed=5), 50) == draws(Sampling(1.0, seed=5), 50)
    assert draws(Sampling(1.0, seed=5), 50) != draws(Sampling(1.0, seed=6), 50)


def test_frequencies_follow_the_probabilities() -> None:
    counts = np.bincount(draws(Sampling(1.0, seed=1), 4000), minlength=5) / 4000
    # Four standard errors of a proportion at n = 4000.
    np.testing.assert_allclose(counts, np.exp(LOGITS), atol=4 * 0.5 / 4000**0.5)


def test_top_p_keeps_the_smallest_set_and_breaks_ties_by_id() -> None:
    assert set(draws(Sampling(1.0, top_p=0.4, seed=2), 200)) == {1}
    assert set(draws(Sampling(1.0, top_p=0.6, seed=2), 200)) == {1, 3}
    assert set(draws(Sampling(1.0, top_p=1.0, seed=2), 400)) == {0, 1, 2, 3, 4}


def test_a_low_temperature_sharpens() -> None:
    logits = np.array([0.0, 0.5], np.float32)
    sampler = Sampler(Sampling(temperature=0.01, seed=3))
    assert {sampler.choose(logits) for _ in range(100)} == {1}


@pytest.mark.parametrize(
    "options",
    [{"temperature": -1.0}, {"temperature": float("nan")}, {"top_p": 0.0}, {"top_p": 1.5}, {"seed": -1}],
)
def test_bad_options_are_refused(options: dict) -> None:
    with pytest.raises(ValueRangeError, match=next(iter(options))):
        Sampling(**options)


def test_bad_logits_are_refused() -> None:
    with pytest.raises(ValueRangeError, match="logits"):
        Sampler(Sampling()).choose(np.array([0.0, np.nan], np.float32))
    with pytest.raises(ShapeError, match="logits"):
        Sampler(Sampling()).choose(np.zeros((1, 3), np.float32))
