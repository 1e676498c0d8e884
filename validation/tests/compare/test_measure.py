"""The short ways of measuring give the numbers of the long ones, and see planted damage."""

import numpy as np
import pytest

from tq_core.codecs.arms import get_arm
from tq_core.model.exact_cache import ExactCache
from validation.attention_scores import rank_agreement
from validation.compare.documents import CALIBRATION_EVERY, CHOSEN_FROM, read_documents, split_entries
from validation.compare.measure import measure, token_scores
from validation.compare.reference import Captured, Tables, probed_layers
from validation.compare.vectors import rank_tau, relative_error, vector_scores
from validation.logit_scores import Reference
from validation.simulate import SimulatedCache


def test_token_scores_are_those_of_the_report() -> None:
    rng = np.random.default_rng(2)
    exact, got = (rng.standard_normal((131, 300)).astype(np.float32) * 4 for _ in range(2))
    tokens = rng.integers(0, 300, 131).astype(np.int32)
    want = Reference(exact[:-1], tokens[1:]).compare(got[:-1])
    found = token_scores(Tables(exact, tokens), got)
    assert np.allclose(found["kl"], want.kl, rtol=1e-12, atol=1e-13)
    assert np.allclose(found["nll"], want.nll, rtol=1e-12)
    assert np.array_equal(found["same_top"], want.same_top)


def test_equal_logits_have_no_divergence() -> None:
    logits = np.random.default_rng(3).standard_normal((70, 50)).astype(np.float32)
    found = token_scores(Tables(logits, np.zeros(70, np.int32)), logits)
    assert np.abs(found["kl"]).max() < 1e-13 and found["same_top"].all()


@pytest.mark.parametrize("keys", [33, 200])
def test_tau_is_that_of_scipy_ties_included(keys: int) -> None:
    rng = np.random.default_rng(keys)
    truth, got = rng.standard_normal((6, keys)), rng.standard_normal((6, keys)).round(1)
    got[1] = truth[1]
    want = [rank_agreement(a, b)[0] for a, b in zip(truth, got, strict=True)]
    assert np.allclose(rank_tau(truth, got), want, rtol=1e-12)
    assert np.isnan(rank_tau(truth, np.zeros_like(truth))).all()


@pytest.mark.slow
def test_a_row_is_what_the_paged_cache_gives(tiny) -> None:
    """One document token by token through pages, against the simulated cache."""
    from tq_core.cache.paged_cache import PagedCache

    tokens = read_documents(tiny, 1, 1, 128)[0][0].tokens
    arm = get_arm("kivi-control", key_bits=2, value_bits=2, window=16, sinks=4)
    cache = PagedCache(tiny.shape, arm)
    paged = np.concatenate([tiny.forward(tokens[i : i + 64], cache) for i in range(0, len(tokens), 64)])
    logits = tiny.forward(tokens, ExactCache(tiny.shape))
    row = measure(tiny, arm, arm.flush_tokens, tokens, Tables(logits, tokens), {})
    scores = Reference(logits[:-1], tokens[1:]).compare(paged[:-1])
    assert np.mean(row["kl"]) == pytest.approx(scores.kl.mean(), rel=0.02)
    assert row["vectors"] is None


def captured(n: int = 160, seed: int = 4) -> tuple[object, dict[int, Captured]]:
    from tq_core.shapes import ModelShape

    rng = np.random.default_rng(seed)
    q, k, v = (rng.standard_normal((n, h, 64)).astype(np.float32) for h in (4, 2, 2))
    return ModelShape(3, 4, 2, 64), {1: Captured(2 * q, k, v, {})}


def test_vector_scores_follow_the_theory() -> None:
    """S = 1 shrinks logits by 1 - D and errs by D; a matched norm shrinks less."""
    shape, layers = captured(512)
    paper = get_arm("turboquant-mse", key_bits=2, value_bits=2, window=8, sinks=2)
    found = vector_scores(shape, paper, 1, layers)  # type: ignore[arg-type]
    assert found is not None
    assert found["key_mse"] == pytest.approx(0.1145, rel=0.05)
    assert found["slope"] == pytest.approx(1 - 0.1145, abs=0.02)
    matched = get_arm("structured-turbo", key_bits=2, value_bits=2, window=8, sinks=2)
    other = vector_scores(shape, matched, 1, layers)  # type: ignore[arg-type]
    assert other is not None and other["slope"] > found["slope"] + 0.03


def test_more_bits_are_better_in_every_score() -> None:
    shape, layers = captured(256)
    low, high = (
        vector_scores(shape, get_arm("eden", key_bits=b, value_bits=b, window=8), 1, layers)  # type: ignore[arg-type]
        for b in (2, 4)
    )
    assert low is not None and high is not None
    for name in ("key_mse", "value_mse", "score_variance", "logit_error", "output_error"):
        assert high[name] < low[name], name
    assert high["tau"] > low["tau"]


def test_a_planted_offset_of_the_decoded_keys_is_seen(monkeypatch) -> None:
    shape, layers = captured(256)
    arm = get_arm("eden", key_bits=4, value_bits=4, window=8)
    before = vector_scores(shape, arm, 1, layers)  # type: ignore[arg-type]
    real = SimulatedCache.coded
    monkeypatch.setattr(
        SimulatedCache, "coded", lambda self, layer: tuple(0.5 * x for x in real(self, layer))
    )
    after = vector_scores(shape, arm, 1, layers)  # type: ignore[arg-type]
    assert before is not None and after is not None
    assert after["slope"] == pytest.approx(before["slope"] / 2, rel=1e-3)
    assert after["key_mse"] > 0.2 > before["key_mse"]


def test_an_arm_that_compresses_nothing_has_no_vector_scores() -> None:
    shape, layers = captured()
    assert vector_scores(shape, get_arm("fp16"), 1, layers) is None  # type: ignore[arg-type]
    assert vector_scores(shape, get_arm("eden", window=500), 1, layers) is None  # type: ignore[arg-type]


def test_relative_error_and_layers() -> None:
    assert relative_error(np.ones((2, 3)), np.zeros((2, 3))) == 1.0
    assert relative_error(np.zeros((2, 3)), np.zeros((2, 3))) == 0.0
    assert probed_layers(30) == [0, 6, 12, 17, 23, 29] and probed_layers(2) == [0, 1]


def test_fitted_and_scored_texts_are_disjoint(tiny) -> None:
    scored, fitted = split_entries()
    assert len(scored) == 36 and len(fitted) == CHOSEN_FROM // CALIBRATION_EVERY
    assert not {e["sha256"] for e in scored} & {e["sha256"] for e in fitted}
    a, b = read_documents(tiny, 3, 2, 100)
    assert not {d.sha256 for d in a} & {d.sha256 for d in b}
    again, _ = read_documents(tiny, 2, 1, 100)
    assert [d.sha256 for d in again] == [d.sha256 for d in a[:2]], "fewer documents are the first ones"
