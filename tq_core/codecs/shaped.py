"""Keys and values in a basis of their own, with codes that shape the error: the codecs of the arm best-turbo.

A calibration gives each layer and KV head a map, a metric and, for keys, an offset (see shaped_fit). What is stored is
y = map (x - offset), in structured TurboQuant's pages: a codebook level per coordinate and one float16 scale, found by
coordinate descent under the metric (math/shaping). Queries meet y through the transposed inverse of the map, sums of
values come back through it, and <query, offset> moves the peak of the coded tokens' softmax state. So the kernels that
scan are structured TurboQuant's, and a page costs what its pages cost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tq_core.codecs.base import F32, CodecTags, Pages
from tq_core.codecs.calibration import Calibration, check_calibration
from tq_core.codecs.turbo_tiles import ARITHMETIC, TileKeys, TileValues, TurboTiles, book_arguments
from tq_core.errors import CodecError, ShapeError, check
from tq_core.kernels.backend import Backend
from tq_core.math import lanes
from tq_core.math.books import RATES, load_books

KEY_METHOD, VALUE_METHOD = "shaped-keys", "shaped-values"
PASSES = 3
ROWS = 256  # tokens encoded in a call: bounds the workspace


def by_matrix(backend: Backend, x: F32, matrices: F32) -> F32:
    """x (n, n_heads, head_dim), each row times the matrix of its KV head: y_o = sum_i x_i matrix[i, o].

    n_heads is a multiple of the number of matrices (n_kv_heads, head_dim, head_dim); neighbours share one.
    """
    y = np.empty_like(x)
    backend.call("map_heads", x=np.ascontiguousarray(x), w=matrices, y=y)
    return y


@dataclass(frozen=True)
class _Shaped(TurboTiles):
    """Fields of both sides: nominal bits, the calibration (arrays ``map`` and ``metric``, see shaped_fit), sweeps of the
    encoder, arithmetic of the scans as in turboquant. Raises CodecError for others.
    """

    bits: float
    calibration: Calibration
    passes: int = PASSES
    arithmetic: str = "exact"

    name = "shaped-turboquant"
    _method = ""

    def __post_init__(self) -> None:
        check(self.bits in RATES, "bits", f"one of {RATES}", self.bits, CodecError)
        check_calibration(self.calibration, self._method, required=True)
        whole = isinstance(self.passes, int) and not isinstance(self.passes, bool) and 0 <= self.passes <= 16
        check(whole, "passes", "0..16 sweeps", repr(self.passes), CodecError)
        known = self.arithmetic in ARITHMETIC
        check(known, "arithmetic", f"one of {ARITHMETIC}", self.arithmetic, CodecError)

    @property
    def tags(self) -> CodecTags:
        """Fitted to a model; an offset is not scaled with the token."""
        return CodecTags(needs_calibration=True, scale_free=False)

    def check(self, head_dim: int) -> None:
        super().check(head_dim)
        fitted = self.calibration.head_dim
        check(fitted == head_dim, "calibration", f"one for head_dim {head_dim}", fitted, ShapeError)

    def fixed_bytes(self, head_dim: int) -> int:
        books = load_books()
        tables = (books.levels, books.scale, books.boundaries)
        return self.calibration.nbytes + sum(t.nbytes for t in tables) + head_dim // 16

    def _offset(self, pages: Pages) -> F32 | None:
        return None

    def _inverse(self, pages: Pages) -> F32:
        raise NotImplementedError

    def append(self, backend: Backend, pages: Pages, first: int, x: F32) -> None:
        maps, metric = self.calibration.table("map", pages), self.calibration.table("metric", pages)
        check(len(maps) == x.shape[1], "x", f"{len(maps)} KV heads, as in the calibration", x.shape[1])
        offset, d, books = self._offset(pages), x.shape[2], load_books()
        arguments = book_arguments(self.bits, d, self.code)
        for at in range(0, len(x), ROWS):
            part = np.ascontiguousarray(x[at : at + ROWS])
            y = by_matrix(backend, part if offset is None else part - offset, maps)
            codes, scales = np.empty(y.shape, np.uint8), np.empty(y.shape[:2], np.uint16)
            backend.call(
                "shape_codes", y=y, metric=metric, **arguments, boundaries=books.boundaries, codes=codes,
                scales=scales, passes=self.passes,
            )  # fmt: skip
            backend.call(
                f"store_{self._side}_codes", codes=codes, scales=scales, widths=arguments["widths"],
                pages=pages.table, layout=pages.layout.words, pool=pages.pool, first=first + at,
            )  # fmt: skip

    def decode(self, pages: Pages, n_tokens: int, head_dim: int) -> F32:
        y = self.decode_codes(pages, n_tokens, head_dim)
        x: F32 = np.einsum("thi,hij->thj", y, self._inverse(pages), optimize=True)
        offset = self._offset(pages)
        return x if offset is None else x + offset


@dataclass(frozen=True)
class ShapedKeys(_Shaped, TileKeys):
    """Keys, without the calibration's offset; the calibration also has ``query_map`` and ``offset``."""

    _method = KEY_METHOD

    @property
    def tags(self) -> CodecTags:
        """Keys' own squared error is not what is made small: it is spent where no query looks."""
        return replace(super().tags, known_failures=("check_distortion_falls_with_bits",))

    def _offset(self, pages: Pages) -> F32:
        return self.calibration.table("offset", pages)

    def _inverse(self, pages: Pages) -> F32:
        return np.swapaxes(self.calibration.table("query_map", pages), 1, 2)

    def map_queries(self, backend: Backend, queries: F32, pages: Pages) -> F32:
        return by_matrix(backend, queries, self.calibration.table("query_map", pages))

    def query_shift(self, queries: F32, scale: float, pages: Pages) -> F32:
        offsets = self.calibration.table("offset", pages)
        grouped = queries.reshape(len(queries), len(offsets), -1, queries.shape[2])
        shift: F32 = lanes.dot(grouped, offsets[:, None]) * np.float32(scale)
        return shift.reshape(queries.shape[:2])


@dataclass(frozen=True)
class ShapedValues(_Shaped, TileValues):
    """Values; nothing is subtracted from them. The calibration also has ``sum_map``."""

    _method = VALUE_METHOD

    def _inverse(self, pages: Pages) -> F32:
        return self.calibration.table("sum_map", pages)

    def unmap_sums(self, backend: Backend, sums: F32, pages: Pages) -> F32:
        return by_matrix(backend, sums, self.calibration.table("sum_map", pages))
