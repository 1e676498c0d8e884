"""What an arm does to captured queries, keys and values: error of the vectors, of the logits, of their order, of the output.

All arms see the same vectors, those of the uncompressed model, so that no arm is judged on another's damage.
"""

from __future__ import annotations

import numpy as np

from tq_core.codecs.arm import Arm
from tq_core.model.exact_cache import ExactCache
from tq_core.shapes import ModelShape
from validation.attention_scores import TOP_KEYS, centred_error, exact_scores
from validation.compare.reference import Captured
from validation.simulate import SimulatedCache, as_half

CHECKPOINTS = 8


def rank_tau(reference: np.ndarray, scores: np.ndarray, top: int = TOP_KEYS) -> np.ndarray:
    """Kendall's tau-b of each row over the ``top`` largest of the reference; rows (n_rows, n_keys). NaN where constant.

    ``attention_scores.rank_agreement`` asks scipy row by row; this is the same for many rows at once.
    """
    order = np.argsort(-reference, axis=1, kind="stable")[:, :top]
    a, b = (np.take_along_axis(x, order, axis=1) for x in (reference, scores))
    first, second = np.triu_indices(a.shape[1], k=1)
    x, y = np.sign(a[:, first] - a[:, second]), np.sign(b[:, first] - b[:, second])
    with np.errstate(invalid="ignore"):
        tau: np.ndarray = (x * y).sum(axis=1) / np.sqrt(np.abs(x).sum(axis=1) * np.abs(y).sum(axis=1))
    return tau


def relative_error(exact: np.ndarray, got: np.ndarray) -> float:
    """Squared error over squared length, of all vectors together."""
    exact, got = exact.astype(np.float64), got.astype(np.float64)
    return float(((exact - got) ** 2).sum() / max((exact**2).sum(), np.finfo(np.float64).tiny))


def _layer(shape: ModelShape, arm: Arm, flush: int, layer: int, c: Captured) -> dict[str, float] | None:
    """Scores of one layer; None when the arm has not compressed anything."""
    n = len(c.queries)
    cache, exact = SimulatedCache(shape, arm, flush_tokens=flush), ExactCache(shape, n)
    got = cache.attend(layer, c.queries, c.keys, c.values, **c.options)
    want = exact.attend(layer, c.queries, c.keys, c.values, **c.options)
    keys, values = cache.coded(layer)
    held = slice(arm.sinks, arm.sinks + len(keys))
    if int(cache.packed(n)) < 2:
        return None
    truth, estimate, coded = [], [], []
    read = as_half(c.keys)
    for end in np.linspace(n // 2, n, CHECKPOINTS, dtype=int):
        packed = arm.sinks + int(cache.packed(int(end)))
        low = max(0, int(end) - (c.options.get("sliding_window") or int(end)))
        if packed - max(low, arm.sinks) < 2:
            continue
        mixed = read[:end].copy()
        mixed[arm.sinks : packed] = keys[: packed - arm.sinks]
        truth.append(exact_scores(c.queries[end - 1], c.keys[low:end]))
        estimate.append(exact_scores(c.queries[end - 1], mixed[low:]))
        coded.append(slice(max(low, arm.sinks) - low, packed - low))
    if not truth:
        return None
    slope, variance = _regression(truth, estimate, coded)
    pairs = list(zip(truth, estimate, strict=True))
    taus = np.concatenate([rank_tau(t, e) for t, e in pairs])
    later = np.arange(n) >= n // 2
    norm = np.linalg.norm(want[later], axis=-1)
    errors = np.linalg.norm(want[later] - got[later], axis=-1)[norm > 0] / norm[norm > 0]
    return {
        "key_mse": relative_error(c.keys[held], keys),
        "value_mse": relative_error(c.values[held], values),
        "slope": slope,
        "score_variance": variance,
        "logit_error": float(
            np.mean([centred_error(a, b) for t, e in pairs for a, b in zip(t, e, strict=True)])
        ),
        "tau": float(np.nanmean(taus)),
        "same_top": float(np.mean([(t.argmax(1) == e.argmax(1)).mean() for t, e in pairs])),
        "same_top_no_first": float(
            np.mean([(t[:, 1:].argmax(1) == e[:, 1:].argmax(1)).mean() for t, e in pairs])
        ),
        "output_error": float(errors.mean()),
    }


def _regression(
    truth: list[np.ndarray], estimate: list[np.ndarray], coded: list[slice]
) -> tuple[float, float]:
    """Slope of estimated on true logits of compressed keys, and the variance that it leaves, in squared nats.

    Both are centred per query over the compressed keys: softmax does not see a constant. Signed errors average to
    nothing whatever the slope is, so the slope is fitted and not read off a mean.
    """
    xs, ys = [], []
    for t, e, span in zip(truth, estimate, coded, strict=True):
        x, y = t[:, span], e[:, span]
        xs.append((x - x.mean(axis=1, keepdims=True)).ravel())
        ys.append((y - y.mean(axis=1, keepdims=True)).ravel())
    x, y = np.concatenate(xs), np.concatenate(ys)
    slope = float(x @ y / max(x @ x, np.finfo(np.float64).tiny))
    return slope, float(np.mean((y - slope * x) ** 2))


def vector_scores(
    shape: ModelShape, arm: Arm, flush_tokens: int, captured: dict[int, Captured]
) -> dict[str, float] | None:
    """Means over the captured layers; None for an arm that compresses nothing."""
    found = [_layer(shape, arm, flush_tokens, layer, c) for layer, c in captured.items()]
    layers = [f for f in found if f is not None]
    if not layers:
        return None
    return {name: float(np.mean([f[name] for f in layers])) for name in layers[0]}
