"""The numbers behind the figures, against closed forms and small cases done by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tq_core.cache.paged_cache import PagedCache
from tq_core.cache.planned import planned
from tq_core.codecs.arms import get_arm
from tq_core.kernels.backend import get_backend
from tq_core.math.lloyd_max import lloyd_max
from tq_core.math.quantize import NormMode
from tq_core.model.fixture import make_fixture
from tq_core.model.tiny_task import RetrievalScore
from tq_core.shapes import ModelShape
from tq_core.show import attention, distortion, memory, retrieval
from tq_core.show.models import offset_share

SHAPE = ModelShape(n_layers=2, n_query_heads=4, n_kv_heads=2, head_dim=64)


@pytest.mark.parametrize("bits", [2, 3, 4])
def test_measured_distortion_meets_the_closed_form(bits: int) -> None:
    x = np.random.default_rng(5).standard_normal((2000, 128)).astype(np.float32)
    loss = distortion.measure(x, distortion.encode(x, bits, NormMode.paper, get_backend("numpy")).restored)
    expected = lloyd_max(2**bits, 128).distortion
    assert loss.mse == pytest.approx(expected, rel=0.03)
    assert loss.slope == pytest.approx(1 - expected, abs=0.01)


def test_scale_rules_keep_what_they_promise() -> None:
    x = distortion.outlier_vectors(200, 80)
    losses = {
        r: distortion.measure(x, distortion.encode(x, 2.0, r, get_backend("numpy")).restored)
        for r in NormMode
    }
    assert losses[NormMode.unbiased].slope == pytest.approx(1, abs=1e-3)
    assert losses[NormMode.matched].length == pytest.approx(1, abs=1e-3)
    assert min(losses, key=lambda r: losses[r].mse) is NormMode.min_mse


def test_rank_agreement_and_overlap_by_hand() -> None:
    a = np.array([[1.0, 2, 3, 4]])
    assert attention.rank_agreement(a, a)[0] == pytest.approx(1)
    assert attention.rank_agreement(a, -a)[0] == pytest.approx(-1)
    assert attention.rank_agreement(a, np.array([[1.0, 2, 4, 3]]))[0] == pytest.approx(0.8)
    assert attention.top_overlap(a, np.array([[1.0, 9, 3, 2]]), 2)[0] == 0.5


def test_an_uncompressed_cache_reads_as_exact() -> None:
    f = make_fixture(n_tokens=64)
    reading = attention.LayerBench(f.queries, f.keys, f.values).read(get_arm("fp16"))
    assert reading.rank > 0.9999
    assert reading.top1 == 1
    assert reading.mean_output_error < 2e-3
    assert 0 <= reading.kl < 1e-5


def test_bench_reads_each_token_with_its_own_past() -> None:
    f = make_fixture(n_tokens=64)
    bench = attention.LayerBench(f.queries, f.keys, f.values)
    reading = bench.read(get_arm("structured-turbo", window=16))
    lengths = [s.shape[1] for s in reading.cached]
    assert lengths == [s.shape[1] for s in reading.exact] == list(range(bench.history + 1, 65))


@pytest.mark.parametrize("name", ["fp16", "structured-turbo", "kivi-control"])
def test_memory_is_what_a_filled_cache_holds(name: str) -> None:
    arm, n = get_arm(name, **({} if name == "fp16" else {"window": 32})), 160
    cache = PagedCache(SHAPE, arm, reserve_tokens=n)
    x = np.random.default_rng(1).standard_normal((n, 2, 64)).astype(np.float32)
    for layer in range(SHAPE.n_layers):
        cache.append(layer, x, x)
    slack = 8 * 1024  # block tables, and pages of the window while a flush is under way
    assert (
        abs(cache.ledger().total - memory.cache_bytes(SHAPE, arm, n)) <= slack + 0.5 * cache.ledger().recent
    )


@pytest.mark.parametrize("name", ["fp16", "structured-turbo", "kivi-control"])
@pytest.mark.parametrize("n", [1, 40, 170])
def test_a_filled_cache_is_full_and_as_planned(name: str, n: int) -> None:
    arm = get_arm(name, **({} if name == "fp16" else {"window": 32}))
    cache = memory.filled(SHAPE, arm, n)
    assert cache.length == n
    assert cache.ledger().total == planned(SHAPE, arm, n).total


def test_longest_context_fits_and_one_token_more_does_not() -> None:
    arm, budget = get_arm("structured-turbo"), 2**20
    n = memory.longest_context(SHAPE, arm, budget)
    assert planned(SHAPE, arm, n).total <= budget < planned(SHAPE, arm, n + 1).total
    assert memory.cache_bytes(SHAPE, arm, n) <= budget < memory.cache_bytes(SHAPE, arm, n + 128)


def test_shares_by_distance() -> None:
    score = RetrievalScore(0.5, -1.0, (5, 15, 16, 40), (True, True, False, False))
    shares = retrieval.by_distance(score, [0, 10, 20, 30, 50])
    assert shares[:2] == [1.0, 0.5]
    assert np.isnan(shares[2])
    assert shares[3] == 0.0


def test_offset_share() -> None:
    rng = np.random.default_rng(2)
    noise = rng.standard_normal((4000, 2, 16))
    assert offset_share(noise) < 0.01
    assert offset_share(noise + 1) == pytest.approx(0.5, abs=0.02)
