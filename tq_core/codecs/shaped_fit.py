"""The bases, metrics and offsets of shaped codecs, from vectors of one model.

With S_k the covariance of the keys and S_q the second moment of the queries that read them (those of the KV head's whole
group), both after RoPE, y = R S_k^(-1/2) (k - mean) has uncorrelated coordinates of equal variance, R a structured
rotation that makes them alike in shape too, and an error e of y costs e^T M e with M = R S_k^(1/2) S_q S_k^(1/2) R^T: the
mean square of a score's error. The map does the half of a transform coder that evens out the keys, the metric the half
that looks at the queries; no channel needs bits of its own. Values: y = R S_v^(-1/2) v, S_v their second moment, and
M = R S_v R^T, the plain error of the value.

Directions in which calibration has seen (nearly) nothing are taken for FLOOR of the mean direction, so that a key
channel that is dead there costs nothing and breaks nothing.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tq_core.codecs.base import F32
from tq_core.codecs.calibration import Calibration, check_fit
from tq_core.codecs.shaped import KEY_METHOD, VALUE_METHOD
from tq_core.errors import ShapeError, check
from tq_core.math.rotation import StructuredRotation

F64 = npt.NDArray[np.float64]
FLOOR = 0.1  # of the mean eigenvalue, added to every eigenvalue of a covariance or metric
FIT_TOKENS = 32


def _raised(matrix: F64) -> F64:
    """The matrix plus FLOOR of its mean eigenvalue; the identity for a matrix of zeros."""
    d = len(matrix)
    mean = float(np.trace(matrix)) / d
    return matrix + FLOOR * mean * np.eye(d) if mean > 0 else np.eye(d)


def _roots(matrix: F64) -> tuple[F64, F64]:
    """Square root and inverse square root of a symmetric positive definite matrix, times one number and its inverse.

    The number keeps the geometric mean of what the map multiplies by at 1, so that scales stay in the vectors' range.
    """
    values, vectors = np.linalg.eigh(matrix)
    values = np.sqrt(np.maximum(values, values.max() * 1e-12))
    values /= np.exp(np.log(values).mean())
    return (vectors * values) @ vectors.T, (vectors / values) @ vectors.T


def _second_moment(rows: F32) -> F64:
    x = rows.astype(np.float64)
    return x.T @ x / len(x)


def _rotation(head_dim: int, seed: int) -> F64:
    """R as a matrix: R x = rotation of x."""
    return StructuredRotation(head_dim, seed).forward(np.eye(head_dim, dtype=np.float32)).T.astype(np.float64)


def fit_shaped_keys(keys: F32, queries: F32, seed: int = 1) -> Calibration:
    """Tables for ShapedKeys from keys (n_layers, n_tokens, n_kv_heads, head_dim) and queries (.., n_query_heads, ..).

    Both float32 after RoPE, 32 tokens or more; tokens of several texts may stand one after another, best without those
    that the arm keeps as sinks. Raises the errors of check_fit, and ShapeError for queries that do not fit the keys.
    """
    k, q = check_fit(keys, FIT_TOKENS), check_fit(queries, FIT_TOKENS)
    (layers, _, heads, d), rotation = k.shape, _rotation(keys.shape[3], seed)
    fits = len(q) == layers and q.shape[3] == d and q.shape[2] % heads == 0
    check(fits, "queries", f"({layers}, n_tokens, a multiple of {heads} heads, {d})", q.shape, ShapeError)
    group = q.shape[2] // heads
    tables: dict[str, list[F64]] = {"offset": [], "map": [], "query_map": [], "metric": []}
    for layer in range(layers):
        for head in range(heads):
            own = k[layer, :, head].astype(np.float64)
            offset = own.mean(axis=0)
            root, inverse = _roots(_raised(_second_moment(own - offset)))
            asked = q[layer, :, head * group : (head + 1) * group].reshape(-1, d)
            query_map = root @ rotation.T
            tables["offset"].append(offset)
            tables["map"].append(inverse @ rotation.T)
            tables["query_map"].append(query_map)
            tables["metric"].append(_metric(query_map.T @ _second_moment(asked) @ query_map))
    return _calibration(KEY_METHOD, tables, layers, heads)


def fit_shaped_values(values: F32, seed: int = 2) -> Calibration:
    """Tables for ShapedValues from values (n_layers, n_tokens, n_kv_heads, head_dim) float32, 32 tokens or more.

    Raises the errors of check_fit.
    """
    v = check_fit(values, FIT_TOKENS)
    (layers, _, heads, _), rotation = v.shape, _rotation(values.shape[3], seed)
    tables: dict[str, list[F64]] = {"map": [], "sum_map": [], "metric": []}
    for layer in range(layers):
        for head in range(heads):
            root, inverse = _roots(_raised(_second_moment(v[layer, :, head])))
            sum_map = rotation @ root
            tables["map"].append(inverse @ rotation.T)
            tables["sum_map"].append(sum_map)
            tables["metric"].append(_metric(sum_map @ sum_map.T))
    return _calibration(VALUE_METHOD, tables, layers, heads)


def _metric(matrix: F64) -> F64:
    """A metric of mean eigenvalue 1, floored: it says what matters more, not how much it all matters."""
    raised = _raised((matrix + matrix.T) / 2)
    return raised * (len(raised) / np.trace(raised))


def _calibration(method: str, tables: dict[str, list[F64]], layers: int, heads: int) -> Calibration:
    arrays = {name: np.stack(t).reshape(layers, heads, *t[0].shape) for name, t in tables.items()}
    return Calibration(method, arrays["map"].shape[-1], arrays)
