"""The bases, metrics and offsets of shaped codecs, from vectors of one model.

With S_k the covariance of the keys and S_q the second moment of the queries that read them (those of the KV head's whole
group), both after RoPE, y = R S_k^(-1/2) (k - mean) has uncorrelated coordinates of equal variance, R a structured
rotation that makes them alike in shape too, and an error e of y costs e^T M e with M = R S_k^(1/2) S_q S_k^(1/2) R^T: the
mean square of a score's error. The map does the half of a transform coder that evens out the keys, the metric the half
that looks at the queries; no channel needs bits of its own. Values: y = R S_v^(-1/2) v, S_v their second moment, and
M = R S_v R^T, the plain error of the value.

A rotary embedding makes keys of late positions other vectors than those of early ones: fit on the lengths that will be
served (validation/compare/ablation.py measures what else is lost). The tables are float32, 3 head_dim^2 + head_dim entries
per layer and KV head for keys and 3 head_dim^2 for values; the ledger counts them, and below some 800 tokens (SmolLM2)
or 1,300 (a Llama of 8B) they outweigh what the codes save: `tq plan --arm best-turbo` gives both.

Directions in which calibration has seen (nearly) nothing are taken for a part of the mean direction, so that a
key channel that is dead there costs nothing and breaks nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tq_core.codecs.base import F32
from tq_core.codecs.calibration import Calibration, check_fit
from tq_core.codecs.shaped import KEY_METHOD, VALUE_METHOD
from tq_core.errors import ShapeError, ValueRangeError, check
from tq_core.math.prng import check_seed
from tq_core.math.rotation import StructuredRotation

F64 = npt.NDArray[np.float64]
FIT_TOKENS = 32


@dataclass(frozen=True)
class ShapedParts:
    """What a fit makes use of; every part can be left out, to see what it is worth.

    floor: part of the mean eigenvalue that is added to every eigenvalue of a covariance or metric. offset: whether keys
    lose their mean. even: whether the map evens out the coordinates (else it is the rotation alone). metric: whether
    errors are weighed (else all alike). seed: of the rotation. Raises ValueRangeError for a floor outside 0.001..10.
    """

    floor: float = 0.1
    offset: bool = True
    even: bool = True
    metric: bool = True
    seed: int = 1

    def __post_init__(self) -> None:
        check(0.001 <= self.floor <= 10, "floor", "0.001..10", self.floor, ValueRangeError)
        check_seed(self.seed)

    def raised(self, matrix: F64) -> F64:
        """The matrix plus ``floor`` of its mean eigenvalue; the identity for a matrix of zeros."""
        d = len(matrix)
        mean = float(np.trace(matrix)) / d
        return matrix + self.floor * mean * np.eye(d) if mean > 0 else np.eye(d)

    def roots(self, matrix: F64) -> tuple[F64, F64]:
        """Square root and inverse square root of a covariance, times one number and its inverse.

        The number keeps the geometric mean of what the map multiplies by at 1, so that scales stay in the vectors' range.
        """
        if not self.even:
            return np.eye(len(matrix)), np.eye(len(matrix))
        values, vectors = np.linalg.eigh(self.raised(matrix))
        values = np.sqrt(np.maximum(values, values.max() * 1e-12))
        values /= np.exp(np.log(values).mean())
        return (vectors * values) @ vectors.T, (vectors / values) @ vectors.T

    def weighed(self, matrix: F64) -> F64:
        """A metric of mean eigenvalue 1, floored: it says what matters more, not how much it all matters."""
        raised = self.raised((matrix + matrix.T) / 2 if self.metric else np.eye(len(matrix)))
        return raised * (len(raised) / np.trace(raised))


def _second_moment(rows: F32) -> F64:
    x = rows.astype(np.float64)
    return x.T @ x / len(x)


def _rotation(head_dim: int, seed: int) -> F64:
    """R as a matrix: R x = rotation of x."""
    return StructuredRotation(head_dim, seed).forward(np.eye(head_dim, dtype=np.float32)).T.astype(np.float64)


def fit_shaped_keys(keys: F32, queries: F32, parts: ShapedParts = ShapedParts(seed=1)) -> Calibration:
    """Tables for ShapedKeys from keys (n_layers, n_tokens, n_kv_heads, head_dim) and queries (.., n_query_heads, ..).

    Both float32 after RoPE, 32 tokens or more; tokens of several texts may stand one after another, best without those
    that the arm keeps as sinks. Raises the errors of check_fit, and ShapeError for queries that do not fit the keys.
    """
    k, q = check_fit(keys, FIT_TOKENS), check_fit(queries, FIT_TOKENS)
    (layers, _, heads, d), rotation = k.shape, _rotation(keys.shape[3], parts.seed)
    fits = len(q) == layers and q.shape[3] == d and q.shape[2] % heads == 0
    check(fits, "queries", f"({layers}, n_tokens, a multiple of {heads} heads, {d})", q.shape, ShapeError)
    group = q.shape[2] // heads
    tables: dict[str, list[F64]] = {"offset": [], "map": [], "query_map": [], "metric": []}
    for layer in range(layers):
        for head in range(heads):
            own = k[layer, :, head].astype(np.float64)
            offset = own.mean(axis=0) * parts.offset
            root, inverse = parts.roots(_second_moment(own - offset))
            asked = q[layer, :, head * group : (head + 1) * group].reshape(-1, d)
            query_map = root @ rotation.T
            tables["offset"].append(offset)
            tables["map"].append(inverse @ rotation.T)
            tables["query_map"].append(query_map)
            tables["metric"].append(parts.weighed(query_map.T @ _second_moment(asked) @ query_map))
    return _calibration(KEY_METHOD, tables, layers, heads)


def fit_shaped_values(values: F32, parts: ShapedParts = ShapedParts(seed=2)) -> Calibration:
    """Tables for ShapedValues from values (n_layers, n_tokens, n_kv_heads, head_dim) float32, 32 tokens or more.

    Raises the errors of check_fit.
    """
    v = check_fit(values, FIT_TOKENS)
    (layers, _, heads, _), rotation = v.shape, _rotation(values.shape[3], parts.seed)
    tables: dict[str, list[F64]] = {"map": [], "sum_map": [], "metric": []}
    for layer in range(layers):
        for head in range(heads):
            root, inverse = parts.roots(_second_moment(v[layer, :, head]))
            sum_map = rotation @ root
            tables["map"].append(inverse @ rotation.T)
            tables["sum_map"].append(sum_map)
            tables["metric"].append(parts.weighed(sum_map @ sum_map.T))
    return _calibration(VALUE_METHOD, tables, layers, heads)


def _calibration(method: str, tables: dict[str, list[F64]], layers: int, heads: int) -> Calibration:
    arrays = {name: np.stack(t).reshape(layers, heads, *t[0].shape) for name, t in tables.items()}
    return Calibration(method, arrays["map"].shape[-1], arrays)
