"""Next-token predictions under several arms, on the same tokens: KL divergence and top-1 agreement with fp16."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.arms import Arm, get_arm
from tq_core.model.interface import LanguageModel

F64 = npt.NDArray[np.float64]
PIECE = 128  # tokens whose logits are held at a time


@dataclass(frozen=True)
class Agreement:
    """kl (n_documents, n_tokens) in nats, KL(fp16 || arm); same_top of that shape: both rank the same token first."""

    kl: F64
    same_top: npt.NDArray[np.bool_]

    @property
    def mean_kl(self) -> float:
        return float(self.kl.mean())

    @property
    def top1(self) -> float:
        return float(self.same_top.mean())

    def by_position(self, edges: Sequence[int]) -> list[float]:
        """Mean KL of positions edges[i] to edges[i+1]."""
        return [float(self.kl[:, a:b].mean()) for a, b in zip(edges[:-1], edges[1:], strict=True)]


def _log_softmax(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    top = logits.max(axis=-1, keepdims=True)
    shifted = logits - top
    return shifted - np.log(
        np.exp(shifted, dtype=np.float32).sum(axis=-1, keepdims=True, dtype=np.float64)
    ).astype(np.float32)


def compare(
    model: LanguageModel,
    documents: Sequence[npt.NDArray[np.int32]],
    arms: Mapping[str, Arm],
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> dict[str, Agreement]:
    """Read every document (equal lengths) through fp16 and through each arm, piece by piece, and compare predictions.

    ``progress`` is called with ("tokens", done, total).
    """
    shape = len(documents), len(documents[0])
    kl = {name: np.zeros(shape) for name in arms}
    same = {name: np.zeros(shape, bool) for name in arms}
    for row, tokens in enumerate(documents):
        reference = PagedCache(model.shape, get_arm("fp16"), reserve_tokens=len(tokens))
        caches = {
            name: PagedCache(model.shape, arm, reserve_tokens=len(tokens)) for name, arm in arms.items()
        }
        for start in range(0, len(tokens), PIECE):
            piece, here = tokens[start : start + PIECE], slice(start, start + PIECE)
            p = _log_softmax(model.forward(piece, reference))
            for name, cache in caches.items():
                q = _log_softmax(model.forward(piece, cache))
                kl[name][row, here] = np.einsum("tv,tv->t", np.exp(p), p - q, dtype=np.float64)
                same[name][row, here] = p.argmax(axis=-1) == q.argmax(axis=-1)
            progress("tokens", row * shape[1] + start + len(piece), shape[0] * shape[1])
    return {name: Agreement(kl[name], same[name]) for name in arms}
