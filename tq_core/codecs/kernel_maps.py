"""Linear maps run on a backend: the same bits on every one, since each kernel adds in an order of its own definition.

A dense matrix is rounded to float32 and goes through ``linear``, rounds of signs and Hadamard through ``rotate``. Other
maps are numpy's, row by row in a fixed order, which no backend changes.
"""

from __future__ import annotations

import numpy as np

from tq_core.codecs.base import F32
from tq_core.kernels.backend import Backend
from tq_core.math.maps import DenseMap, LinearMap, Rounds
from tq_core.math.rotation import StructuredRotation
from tq_core.math.sketch import StructuredSketch

ROWS = 256  # rows in a call of ``linear``: the numpy twin's workspace is 16 times the result


def _linear(backend: Backend, x: F32, matrix: F32) -> F32:
    rows = np.ascontiguousarray(x, np.float32).reshape(-1, matrix.shape[1])
    out = np.empty((len(rows), len(matrix)), np.float32)
    for first in range(0, len(rows), ROWS):
        part = slice(first, first + ROWS)
        backend.call("linear", x=rows[part], w=matrix, y=out[part])
    return out.reshape(*x.shape[:-1], len(matrix))


def _rotate(backend: Backend, x: F32, rotation: StructuredRotation, inverse: bool) -> F32:
    rows = np.ascontiguousarray(x, np.float32).reshape(-1, x.shape[-1])
    out = np.empty_like(rows)
    backend.call(
        "rotate", x=rows, signs=rotation.signs, hadamard=rotation.hadamard, y=out, inverse=int(inverse),
        scale=rotation.unit,
    )  # fmt: skip
    return out.reshape(x.shape)


def forward(backend: Backend | None, m: LinearMap, x: F32) -> F32:
    """M x along the last axis, on the backend; without one as ``m`` itself does it."""
    if backend is not None and isinstance(m, DenseMap):
        return _linear(backend, x, m.single)
    if backend is not None and isinstance(m, Rounds):
        for part in m.parts:
            x = _rotate(backend, x, part, inverse=False)
        return x
    if backend is not None and isinstance(m, StructuredSketch):
        return m.root * forward(backend, m.map, x)
    return m.forward(x)


def transpose(backend: Backend | None, m: LinearMap, y: F32) -> F32:
    """M^t y along the last axis, likewise."""
    if backend is not None and isinstance(m, DenseMap):
        return _linear(backend, y, m.single_transposed)
    if backend is not None and isinstance(m, Rounds):
        for part in reversed(m.parts):
            y = _rotate(backend, y, part, inverse=True)
        return y
    if backend is not None and isinstance(m, StructuredSketch):
        return m.root * transpose(backend, m.map, y)
    return m.transpose(y)
