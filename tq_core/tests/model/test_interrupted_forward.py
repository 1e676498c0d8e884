"""A forward pass that is stopped in some layer leaves every layer at the old length, whatever the cache."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.arms import get_arm
from tq_core.kernels.backend import NumpyBackend
from tq_core.model.capture import RecordingCache
from tq_core.model.exact_cache import ExactCache
from tq_core.model.tiny import TinyModel, load_tiny
from tq_core.tests.cache.invariants import check_consistent, image


@pytest.fixture(scope="module")
def model() -> TinyModel:
    return load_tiny(NumpyBackend())


def caches(model: TinyModel) -> dict[str, Any]:
    paged = PagedCache(model.shape, get_arm("kivi-control", window=8, sinks=2), NumpyBackend())
    return {
        "exact": ExactCache(model.shape),
        "paged": paged,
        "recording": RecordingCache(ExactCache(model.shape), model.shape.n_layers),
    }


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("kind", ["exact", "paged", "recording"])
def test_a_stopped_forward_has_not_happened(
    model: TinyModel, kind: str, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    first, second = rng.integers(0, model.vocab_size, 50), rng.integers(0, model.vocab_size, 40)
    cache, undisturbed = (caches(model)[kind] for _ in range(2))
    model.forward(first, cache)
    model.forward(first, undisturbed)
    before = image(cache) if kind == "paged" else None
    norms = iter(range(100))
    plain = TinyModel._norm

    def stopping(self: TinyModel, inputs: np.ndarray, name: str) -> np.ndarray:
        if next(norms) == 3:  # after the attention of the second layer
            raise error
        return plain(self, inputs, name)

    monkeypatch.setattr(TinyModel, "_norm", stopping)
    with pytest.raises(error):
        model.forward(second, cache)
    monkeypatch.undo()
    assert cache.length == 50
    if kind == "paged":
        assert image(cache) == before
        check_consistent(cache)
    if kind == "recording":
        assert [len(calls) for calls in cache.calls] == [1] * model.shape.n_layers
    again, want = model.forward(second, cache), model.forward(second, undisturbed)
    assert again.tobytes() == want.tobytes()
