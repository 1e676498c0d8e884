"""A small cache with its identity and tokens, ready to be saved."""

from __future__ import annotations

from typing import Any

import numpy as np

from tq_core.cache.identify import identify
from tq_core.cache.identity import CacheIdentity
from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.arms import Arm
from tq_core.shapes import ModelShape
from tq_core.tests.cache.worlds import SHAPE, make, tokens

DIGESTS = {
    "model_digest": "11" * 32,
    "tokenizer_digest": "22" * 32,
    "chat_template_digest": "33" * 32,
    "positions": "adjacent pairs, base 0x1.388p+13",
}


def identity_of(shape: ModelShape, arm: Arm) -> CacheIdentity:
    """An identity whose model exists only in tests."""
    return identify(shape, arm, **DIGESTS)


def filled(
    name: str, n: int = 175, shape: ModelShape = SHAPE, **options: Any
) -> tuple[PagedCache, CacheIdentity, np.ndarray]:
    """A cache of n tokens in every layer, other ones in each, its identity, and token ids."""
    cache = make(name, shape, **{"window": 9, "sinks": 3, **options})
    for layer in range(shape.n_layers):
        cache.append(layer, *tokens(n, shape, seed=layer)[1:])
    return cache, identity_of(shape, cache.arm), np.arange(n, dtype=np.int32) * 7 % 1000
