"""The numpy twin of the encoder that shapes its error; see math.shaping."""

from __future__ import annotations

import numpy as np

from tq_core.math.books import Books
from tq_core.math.shaping import shape_rows, times_matrix


def map_heads(*, x, w, y):
    """y = x w per head, n_query_heads / n_kv_heads neighbours sharing one matrix (h, head_dim, head_dim)."""
    group = x.shape[1] // len(w)
    for head in range(x.shape[1]):
        y[:, head] = times_matrix(np.ascontiguousarray(x[:, head]), w[head // group])


def shape_codes(*, y, metric, widths, levels, book_scale, boundaries, codes, scales, passes):
    """Codes and scales of rows y (n, h, head_dim), each head under its own metric (h, head_dim, head_dim)."""
    books = Books(levels, book_scale, boundaries)
    for head in range(y.shape[1]):
        rows = np.ascontiguousarray(y[:, head])
        codes[:, head], scales[:, head] = shape_rows(rows, metric[head], widths, books, passes)
