"""Structured TurboQuant with two rounds of signs and Hadamard: nearly as good as a dense rotation for any input.

One round (2606.21448) makes a one-hot vector exactly flat, where a Gaussian book fits badly unless the scale is fitted;
after a second one coordinates look Gaussian whatever came in. The first round is applied to what the kernels
are given and undone on what they give back, so pages, kernels and the fused step are those of structured TurboQuant,
with the same bits on every backend.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tq_core.codecs.base import F32, Pages
from tq_core.codecs.turboquant import TurboKeys, TurboValues
from tq_core.kernels.backend import Backend
from tq_core.math.prng import splitmix64
from tq_core.math.rotation import StructuredRotation


@lru_cache(maxsize=64)
def first_round(head_dim: int, seed: int) -> StructuredRotation:
    """The round before the codec's own, under a seed drawn from the codec's."""
    return StructuredRotation(head_dim, int(splitmix64(seed, 1)[0]))


def _turn(backend: Backend, x: F32, seed: int, inverse: bool) -> F32:
    """The first round, or its inverse, of rows x (n, head_dim), on the backend."""
    return TurboKeys(seed=first_round(x.shape[-1], seed).seed).rotate(backend, x, inverse)


class _Twice:
    """Puts the first round around a structured TurboQuant codec."""

    seed: int
    name = "structured-turboquant-two-rounds"

    def rotate(self, backend: Backend, x: F32, inverse: bool) -> F32:
        if inverse:
            return _turn(backend, super().rotate(backend, x, True), self.seed, True)  # type: ignore[misc]
        return super().rotate(backend, _turn(backend, x, self.seed, False), False)  # type: ignore[misc, no-any-return]

    def append(self, backend: Backend, pages: Pages, first: int, x: F32) -> None:
        flat = _turn(backend, x.reshape(-1, x.shape[-1]), self.seed, False)
        super().append(backend, pages, first, flat.reshape(x.shape))  # type: ignore[misc]

    def decode(self, pages: Pages, n_tokens: int, head_dim: int) -> F32:
        once = super().decode(pages, n_tokens, head_dim)  # type: ignore[misc]
        return first_round(head_dim, self.seed).inverse(once)

    def fixed_bytes(self, head_dim: int) -> int:
        signs = first_round(head_dim, self.seed).signs.nbytes
        return signs + super().fixed_bytes(head_dim)  # type: ignore[misc, no-any-return]


@dataclass(frozen=True)
class TwoRoundKeys(_Twice, TurboKeys):
    """Keys; fields as TurboKeys. A page's centre is a mean after the first round, and meets a query that is there too."""

    def centre_query(self, queries: F32, scale: float) -> F32:
        return super().centre_query(first_round(queries.shape[-1], self.seed).forward(queries), scale)


@dataclass(frozen=True)
class TwoRoundValues(_Twice, TurboValues):
    """Values; fields as TurboValues."""
