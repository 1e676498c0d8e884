"""A step of many tokens gives, bit for bit, what one token after the other gives."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from tq_core.cache import many
from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.arms import arm_names, get_arm
from tq_core.kernels.backend import get_backend
from tq_core.shapes import ModelShape

SHAPE = ModelShape(n_layers=1, n_query_heads=6, n_kv_heads=2, head_dim=32)
N = 300
CUTS = (0, 1, 3, 70, 71, 170, 233, N)


def _vectors(seed: int = 4) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    heads = (SHAPE.n_query_heads, SHAPE.n_kv_heads, SHAPE.n_kv_heads)
    return [random.standard_normal((N, h, SHAPE.head_dim), np.float32) for h in heads]


def _read(cache: PagedCache, cuts: tuple[int, ...], **options: object) -> np.ndarray:
    vectors = _vectors()
    parts = [cache.attend(0, *(x[a:b] for x in vectors), **options) for a, b in pairwise(cuts)]  # type: ignore[arg-type]
    return np.concatenate(parts)


def _differences(arm: str, backend: str | None = None, **options: object) -> int:
    made = [PagedCache(SHAPE, get_arm(arm, **_fitting(arm)), get_backend(backend)) for _ in range(2)]
    alone, together = _read(made[0], tuple(range(N + 1)), **options), _read(made[1], CUTS, **options)
    for x, y in zip(made[0].decode(0), made[1].decode(0)):
        np.testing.assert_array_equal(x.view("u4"), y.view("u4"))
    return int((alone.view("u4") != together.view("u4")).sum())


def _fitting(arm: str) -> dict[str, int]:
    return {"sinks": 4} if arm in ("structured-turbo", "kivi-control") else {}


@pytest.fixture(autouse=True)
def together(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many tokens at once as ever, however small the cache is."""
    monkeypatch.setattr(many, "SCRATCH_SHARE", 1e-3)


@pytest.mark.parametrize("arm", ["fp16", "structured-turbo", "kivi-control", "int8"])
def test_same_bits(arm: str) -> None:
    assert _differences(arm) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "arm", [a for a in arm_names() if a not in ("fp16", "structured-turbo", "kivi-control", "int8")]
)
def test_same_bits_of_every_other_arm(arm: str) -> None:
    assert _differences(arm) == 0


@pytest.mark.parametrize("arm", ["fp16", "structured-turbo", "kivi-control"])
def test_same_bits_under_a_sliding_window_and_sink_logits(arm: str) -> None:
    logits = np.linspace(-2, 3, SHAPE.n_query_heads, dtype=np.float32)
    assert _differences(arm, sliding_window=140, sink_logits=logits) == 0


def test_same_bits_with_threads_and_key_centres() -> None:
    centres = np.full((1, SHAPE.n_kv_heads, SHAPE.head_dim), 0.25, np.float32)
    arm = get_arm("structured-turbo")
    made = [PagedCache(SHAPE, arm, key_centres=centres, threads=n) for n in (1, 3)]
    alone, some = _read(made[0], tuple(range(N + 1))), _read(made[1], CUTS)
    np.testing.assert_array_equal(alone.view("u4"), some.view("u4"))


def test_a_history_that_enters_its_next_chunk_in_the_middle_of_a_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tokens before and after the cut have different counts of softmax states."""
    from tq_core.codecs import turbo_step

    monkeypatch.setattr(turbo_step, "CHUNK_PAGES", 1)
    for arm in ("structured-turbo", "int8"):
        assert _differences(arm) == 0


def test_appends_without_queries_store_the_same_bytes() -> None:
    arm = get_arm("structured-turbo")
    made = [PagedCache(SHAPE, arm) for _ in range(2)]
    _, keys, values = _vectors()
    made[0].append(0, keys, values)
    for i in range(N):
        made[1].append(0, keys[i : i + 1], values[i : i + 1])
    for name, store in made[0].stores.items():
        other = made[1].stores[name]
        pages = [[s.pool.page(int(p)).tobytes() for p in s.tables[0]] for s in (store, other)]
        assert pages[0] == pages[1], name


def test_scratch_stays_a_small_share_of_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many, "SCRATCH_SHARE", 32)
    for arm in ("structured-turbo", "kivi-control"):
        cache = PagedCache(SHAPE, get_arm(arm))
        one = PagedCache(SHAPE, get_arm(arm))
        _read(cache, CUTS)
        _read(one, tuple(range(N + 1)))
        ledger = cache.ledger()
        assert ledger.scratch <= max(ledger.total / 16, 2 * one.ledger().scratch)


def test_a_span_that_is_one_slot_too_long_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = many.append_many

    def faulty(*arguments: object) -> many.Appended:
        made = whole(*arguments)  # type: ignore[arg-type]
        sinks, packed, recent = made.parts
        later = np.minimum(recent.ends + 1, recent.ends[-1])
        return many.Appended((sinks, packed, recent._replace(ends=later)), made.leaving)

    monkeypatch.setattr("tq_core.cache.paged_cache.append_many", faulty)
    assert _differences("structured-turbo") > 0
