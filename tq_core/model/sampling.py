"""Choosing the next token from logits: greedy, or drawn with a seed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tq_core.errors import ValueRangeError, check


@dataclass(frozen=True)
class Sampling:
    """How to choose. ``temperature`` 0 is greedy; ``top_p`` keeps the smallest set of that much mass.

    Raises ValueRangeError unless temperature is in 0..100, 0 < top_p <= 1 and seed >= 0.
    Nucleus sampling: Holtzman et al. (arXiv 1904.09751), section 3.1.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        check(0.0 <= self.temperature <= 100.0, "temperature", "0..100", self.temperature, ValueRangeError)
        check(0.0 < self.top_p <= 1.0, "top_p", "more than 0, at most 1", self.top_p, ValueRangeError)
        check(self.seed >= 0, "seed", "0 or more", self.seed, ValueRangeError)


class Sampler:
    """Applies one Sampling to a sequence of logits; the same seed gives the same choices."""

    def __init__(self, sampling: Sampling) -> None:
        self.sampling = sampling
        self._random = np.random.Generator(np.random.PCG64(sampling.seed))

    def choose(self, logits: np.ndarray) -> int:
        """Token id from logits (vocab_size,). Among equal logits, lower ids come first.

        Raises ShapeError or ValueRangeError unless logits is one row of finite numbers.
        """
        check(logits.ndim == 1 and logits.size > 0, "logits", "shape (vocab_size,)", logits.shape)
        check(bool(np.isfinite(logits).all()), "logits", "finite values", "inf or nan", ValueRangeError)
        if self.sampling.temperature == 0.0:
            return int(np.argmax(logits))
        scaled = logits.astype(np.float64) / self.sampling.temperature
        order = np.argsort(-scaled, kind="stable")
        weights = np.exp(scaled[order] - scaled[order[0]])
        cumulative = np.cumsum(weights)
        cumulative /= cumulative[-1]
        kept = int(np.searchsorted(cumulative, self.sampling.top_p, side="left")) + 1
        kept = min(kept, order.size)
        draw = self._random.random() * cumulative[kept - 1]
        return int(order[min(int(np.searchsorted(cumulative[:kept], draw, side="right")), kept - 1)])
