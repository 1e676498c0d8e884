"""Per-token comparison of two sets of next-token logits: the reference's P and an arm's Q.

Everything is summed in float64 over the whole vocabulary, from float32 logits. Logits stored in 16 bits
would put a floor under the divergence of a good arm.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from tq_core.errors import DTypeError, ShapeError, ValueRangeError, check

TOP_K = 5


@dataclass(frozen=True)
class TokenScores:
    """One row per scored token, in text order; all arrays are (n_tokens,)."""

    kl: np.ndarray  # float64, nats: sum_v p (ln p - ln q)
    same_top: np.ndarray  # bool: argmax p == argmax q, the lower id on ties
    overlap: np.ndarray  # float64: share of the reference's TOP_K tokens that the arm has in its own
    nll_reference: np.ndarray  # float64, nats: -ln p(true token)
    nll: np.ndarray  # float64, nats: -ln q(true token)
    margin: np.ndarray  # float64: the reference's best probability minus its second best
    right_reference: np.ndarray  # bool: argmax p is the true token
    right: np.ndarray  # bool: argmax q is the true token
    max_difference: np.ndarray  # float64: largest |logit difference| over the vocabulary

    def __len__(self) -> int:
        return len(self.kl)

    @classmethod
    def join(cls, parts: list[TokenScores]) -> TokenScores:
        """Rows of all parts, in order. Raises ValueRangeError when there is none."""
        check(len(parts) > 0, "parts", "at least one", 0, ValueRangeError)
        return cls(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(cls)))

    def select(self, rows: np.ndarray) -> TokenScores:
        """The rows that a boolean mask or an index array names."""
        return TokenScores(*(getattr(self, f.name)[rows] for f in fields(self)))


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """float64 log-probabilities of logits (n_tokens, vocab_size); the largest is subtracted first."""
    x = logits.astype(np.float64)
    x -= x.max(axis=1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


def top_mask(logits: np.ndarray, k: int = TOP_K) -> np.ndarray:
    """bool mask of the k largest entries of each row; among equals the lower ids come first."""
    k = min(k, logits.shape[1])
    limit = np.partition(logits, -k, axis=1)[:, -k, None]
    mask = logits >= limit
    for row in np.flatnonzero(mask.sum(axis=1) > k):
        above = logits[row] > limit[row]
        mask[row] = above
        mask[row, np.flatnonzero(logits[row] == limit[row])[: k - int(above.sum())]] = True
    return mask


class Reference:
    """The reference's side of a comparison, computed once and shared by every arm.

    logits float32 (n_tokens, vocab_size) at positions whose next token is ``targets`` (n_tokens,).
    Raises DTypeError, ShapeError or ValueRangeError for logits of another type, that do not fit the targets or are not
    finite.
    """

    def __init__(self, logits: np.ndarray, targets: np.ndarray) -> None:
        check_logits(logits, targets.shape[0], "reference logits")
        self.logits, self.targets = logits, targets
        self.log_p = log_softmax(logits)
        self.p = np.exp(self.log_p)
        self.top = logits.argmax(axis=1)
        self.mask = top_mask(logits)
        best = np.partition(self.p, -2, axis=1)[:, -2:]
        self.margin = best[:, 1] - best[:, 0]

    def compare(self, logits: np.ndarray) -> TokenScores:
        """Scores of an arm's logits at the same positions. Raises as the constructor does."""
        check(
            logits.shape == self.logits.shape,
            "logits",
            f"shape {self.logits.shape}",
            logits.shape,
            ShapeError,
        )
        check_logits(logits, len(self.targets), "logits")
        log_q = log_softmax(logits)
        rows = np.arange(len(logits))
        top = logits.argmax(axis=1)
        return TokenScores(
            kl=(self.p * (self.log_p - log_q)).sum(axis=1),
            same_top=top == self.top,
            overlap=(self.mask & top_mask(logits)).sum(axis=1) / min(TOP_K, logits.shape[1]),
            nll_reference=-self.log_p[rows, self.targets],
            nll=-log_q[rows, self.targets],
            margin=self.margin,
            right_reference=self.top == self.targets,
            right=top == self.targets,
            max_difference=np.abs(logits - self.logits).max(axis=1).astype(np.float64),
        )


def check_logits(logits: np.ndarray, n_tokens: int, name: str) -> None:
    """Raise DTypeError, ShapeError or ValueRangeError unless logits are float32 (n_tokens, vocab_size >= 2) and finite."""
    check(logits.dtype == np.float32, name, "float32", logits.dtype, DTypeError)
    ok = logits.ndim == 2 and logits.shape[0] == n_tokens and logits.shape[1] >= 2
    check(ok, name, f"shape ({n_tokens}, vocab_size)", logits.shape, ShapeError)
    check(bool(np.isfinite(logits).all()), name, "finite values", "inf or nan", ValueRangeError)
