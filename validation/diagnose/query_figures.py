"""Figures that need positions or queries: first positions, attention mass, what smoothing of keys could give."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from validation.diagnose.key_figures import ratio

F64 = npt.NDArray[np.float64]
FIRST = 4  # positions looked at as sinks
MOST_QUERIES = 64
RECENT = (32, 128)
FLOOR = 1e-3  # of the mean energy, so that dead channels do not divide by zero


def first_norms(x: F64) -> list[float | None]:
    """Length of each of the first four rows of x (n_tokens, head_dim) over the median length of the others."""
    norms = np.linalg.norm(x, axis=1)
    usual = float(np.median(norms[FIRST:]))
    return [ratio(float(n), usual) for n in norms[:FIRST]]


def probed(n_tokens: int) -> npt.NDArray[np.int64]:
    """Positions whose queries are used: at most 64, evenly spaced over the last three quarters."""
    return np.unique(np.linspace(n_tokens // 4, n_tokens - 1, MOST_QUERIES).astype(np.int64))


def attention(queries: F64, keys: F64, positions: npt.NDArray[np.int64]) -> F64:
    """(n_positions, n_query_heads, n_tokens) causal attention of queries (n_positions, n_query_heads, head_dim).

    Sliding windows of a model are not applied: up to their length they change nothing.
    """
    logits = np.einsum("pgd,td->pgt", queries, keys, optimize=True) / np.sqrt(keys.shape[1])
    logits[np.broadcast_to(np.arange(len(keys)) > positions[:, None, None], logits.shape)] = -np.inf
    logits -= logits.max(axis=2, keepdims=True)
    weights = np.exp(logits)
    total: F64 = weights / weights.sum(axis=2, keepdims=True)
    return total


def smoothing_bits(queries: F64, keys: F64) -> float | None:
    """Bits per channel that dividing channels between query and key could save on rotated keys.

    Rotation spreads the error evenly, so the logit error grows with tr(S_q) tr(S_k); scaling channel i of the keys by
    a_i = (S_q / S_k)^(1/4) brings the product down to (sum sqrt(S_q S_k))^2, and half the log2 of the ratio is bits.
    S_q are energies, S_k variances, floored at 1e-3 of their mean. None when either is zero.
    """
    s_q, s_k = (queries**2).mean(axis=0), keys.var(axis=0)
    if not (s_q.any() and s_k.any()):
        return None
    s_q, s_k = (np.maximum(s, FLOOR * s.mean()) for s in (s_q, s_k))
    return float(-0.5 * np.log2(np.sqrt(s_q * s_k).sum() ** 2 / (s_q.sum() * s_k.sum())))


def query_figures(keys: F64, values: F64 | None, queries: F64 | None) -> dict[str, Any]:
    """Figures of one KV head: keys, values (n_tokens, head_dim), queries (n_tokens, n_query_heads of its group, head_dim)."""
    out: dict[str, Any] = {"first_key_norms": first_norms(keys)}
    if values is not None:
        out["first_value_norms"] = first_norms(values)
    if queries is None:
        return out
    positions = probed(len(keys))
    weights = attention(queries[positions], keys, positions)
    age = positions[:, None] - np.arange(len(keys))[None]
    out["mass_first"] = [float(m) for m in weights[:, :, :FIRST].mean(axis=(0, 1))]
    for n in RECENT:
        recent = (age >= 0) & (age < n)
        out[f"mass_recent_{n}"] = float((weights * recent[:, None]).sum(axis=2).mean())
    flat = queries.reshape(-1, keys.shape[1])
    out["smoothing_bits"] = smoothing_bits(flat, keys - keys.mean(axis=0))
    return out
