"""What a model says after a prompt: the probability of given continuations, and free replies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tq_core.model.interface import LanguageModel
from tq_core.model.sampling import Sampler, Sampling
from validation.logit_scores import log_softmax


@contextmanager
def branch(cache: Any) -> Iterator[Any]:
    """A fork of a cache that is closed again."""
    fork = cache.fork()
    try:
        yield fork
    finally:
        if hasattr(fork, "close"):
            fork.close()


def log_probability(model: LanguageModel, cache: Any, last: np.ndarray, tokens: np.ndarray) -> float:
    """ln p (nats) of ``tokens`` after what the cache holds, whose newest logits are ``last`` (vocab_size,)."""
    rows = [last[None]]
    if len(tokens) > 1:
        with branch(cache) as fork:
            rows.append(model.forward(tokens[:-1], fork))
    log_p = log_softmax(np.concatenate(rows))
    return float(log_p[np.arange(len(tokens)), tokens].sum())


def reply(
    model: LanguageModel, cache: Any, last: np.ndarray, n: int, stop_ids: Sequence[int], sampling: Sampling
) -> list[int]:
    """Up to ``n`` new ids after what the cache holds, without a stop id; the cache stays as it is."""
    sampler, out, logits = Sampler(sampling), [], last
    with branch(cache) as fork:
        for step in range(n):
            token = sampler.choose(logits)
            if token in stop_ids:
                break
            out.append(token)
            if step + 1 < n:
                logits = model.forward(np.array([token], np.int32), fork)[-1]
    return out
