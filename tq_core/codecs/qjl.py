"""QJL: keys as the signs of a random projection, outlier channels under a sketch of their own (2406.03482).

Groups of 32 tokens: the channels with the largest energy in the group are taken out, their indices stored once, and
both parts are sketched, score = f ||k_in|| <S q_in, z_in> + f' ||k_out|| <S' q_out, z_out>. The query is not quantized.
Rows of S are orthogonal, of length sqrt(d), in blocks of d, as in the authors' repository; f is the exact constant for
them (theirs, sqrt(pi/2)/m, is 1/(4 d) too large). The inliers' norm is stored itself: the repository stores ||k|| and
takes a difference of squares, at the same cost.

All in: (m + m_out + 32)/d + 64 index bits per 32 tokens and d channels; at d = 128 with m = m_out = 256, 4.27 bits. The
repository gives its first 15 layers m = 512 and m_out = 128 (5.27 bits); ``ratio`` and ``outlier_ratio`` are m / d and
m_out / d. Its values are KIVI's 2 bits in groups of 32 channels, and its newest 128 keys stay as they are.

A group of tokens is a tile of the kernels, where the query's sketch is made anew from its outlier channels; see
score_sketch in tq_core/kernels/reference_signs.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tq_core.codecs.base import F32, CodecTags, Pages
from tq_core.codecs.kernel_maps import forward
from tq_core.codecs.mapped import U8, Rows, half_bytes, halves
from tq_core.codecs.tiled import TiledCodec, Tiles, layout_words
from tq_core.errors import CodecError, check
from tq_core.kernels.backend import Backend
from tq_core.math.maps import DenseMap
from tq_core.math.prng import check_seed, splitmix64
from tq_core.math.sketch import SKETCHES, sign_bits, sign_values, sketch, sketch_constant

GROUP_TOKENS = 32
RATIOS = (1, 2, 4)
OUTLIERS = (2, 4, 8)


def _norm(x: F32) -> np.ndarray:
    return np.sqrt((x.astype(np.float64) ** 2).sum(axis=-1, keepdims=True))


@dataclass(frozen=True)
class QjlKeys(TiledCodec):
    """Sketched keys.

    Raises CodecError for an unknown ratio, count of outliers or sketch, ValueRangeError for a seed outside 0..2^64-1.
    """

    ratio: int = 2
    outlier_ratio: int = 2
    outliers: int = 8
    seed: int = 1
    sketch: str = "orthogonal"

    name = "qjl-tiles"
    tags = CodecTags(unbiased_scores=True)
    flush_tokens = GROUP_TOKENS
    _side = "key"

    def __post_init__(self) -> None:
        for label, value, allowed in (
            ("ratio", self.ratio, RATIOS),
            ("outlier_ratio", self.outlier_ratio, RATIOS),
            ("outliers", self.outliers, OUTLIERS),
        ):
            check(value in allowed, label, f"one of {allowed}", repr(value), CodecError)
        dense = tuple(kind for kind in SKETCHES if kind != "structured")
        check(self.sketch in dense, "sketch", f"one of {dense}", repr(self.sketch), CodecError)
        check_seed(self.seed)

    def _index(self, head_dim: int) -> np.dtype:
        return np.dtype(np.uint8 if head_dim <= 256 else np.uint16)

    def tiles(self, head_dim: int) -> tuple[Tiles, ...]:
        rows, outer = self.ratio * head_dim, self.outlier_ratio * head_dim
        return Tiles(1, rows), Tiles(1, outer, "outer_scales", "outer_codes")

    def row_streams(self, head_dim: int) -> dict[str, tuple[int, int]]:
        return {"outliers": (self.outliers * self._index(head_dim).itemsize, GROUP_TOKENS)}

    def maps(self, head_dim: int) -> tuple[DenseMap, ...]:  # type: ignore[override]
        seeds = [int(s) for s in splitmix64(self.seed, 2)]
        rows = [part.channels for part in self.tiles(head_dim)]
        return tuple(sketch(self.sketch, m, head_dim, s) for m, s in zip(rows, seeds, strict=True))  # type: ignore[misc]

    def factors(self, head_dim: int) -> tuple[np.float32, ...]:
        """The constants that make the two parts' scores unbiased."""
        parts = self.tiles(head_dim)
        return tuple(np.float32(sketch_constant(self.sketch, p.channels, head_dim)) for p in parts)

    def _masks(self, rows: Rows, head_dim: int) -> F32:
        """(n_kv_heads, n_groups, head_dim): 1 for the group's outlier channels, else 0."""
        index = np.ascontiguousarray(rows["outliers"]).view(self._index(head_dim)).astype(np.int64)
        mask = np.zeros((*index.shape[:-1], head_dim), np.float32)
        np.put_along_axis(mask, index, np.float32(1), axis=-1)
        return mask

    def encode(self, x: F32, backend: Backend | None = None) -> Rows:
        heads, d = len(x), x.shape[-1]
        groups = x.reshape(heads, -1, GROUP_TOKENS, d)
        energy = (groups.astype(np.float64) ** 2).sum(axis=2)
        chosen = np.argsort(-energy, axis=-1, kind="stable")[..., : self.outliers]
        index: U8 = np.ascontiguousarray(np.sort(chosen, axis=-1).astype(self._index(d))).view(np.uint8)
        mask = self._masks({"outliers": index}, d)[:, :, None]
        rows: Rows = {"outliers": index}
        for m, part, share in zip(self.maps(d), self.tiles(d), (1 - mask, mask), strict=True):
            own = (groups * share).reshape(x.shape)
            rows[part.scales] = half_bytes(_norm(own), "the norm of a part")
            rows[part.codes] = sign_bits(forward(backend, m, own))
        return rows

    def coordinates(self, rows: Rows, head_dim: int) -> tuple[F32, ...]:
        parts = zip(self.tiles(head_dim), self.factors(head_dim), strict=True)
        return tuple(f * halves(rows[p.scales]) * sign_values(rows[p.codes]) for p, f in parts)

    def vectors(self, rows: Rows, head_dim: int) -> F32:
        inner, outer = (m.transpose(y) for m, y in zip(self.maps(head_dim), self.coordinates(rows, head_dim)))
        mask = np.repeat(self._masks(rows, head_dim), GROUP_TOKENS, axis=1)[:, : inner.shape[1]]
        return (1 - mask) * inner + mask * outer

    def scores(
        self, backend: Backend, queries: F32, scale: float, pages: Pages, n_tokens: int, out: F32, offset: int
    ) -> None:
        if n_tokens == 0:
            return
        d, at = queries.shape[-1], pages.layout.offsets
        inner, outer = self.maps(d)
        factor, outer_factor = self.factors(d)
        query = queries * np.float32(scale)
        backend.call(
            "score_sketch",
            query=query,
            sketched=forward(backend, inner, query),
            inner=inner.single_transposed,
            outer=outer.single_transposed,
            pages=pages.table,
            layout=layout_words(pages.layout, self._side, self.tiles(d)[0]),
            pool=pages.pool,
            scores=out,
            n_kv_heads=pages.layout.n_kv_heads,
            n_tokens=n_tokens,
            offset=offset,
            n_outliers=self.outliers,
            outliers_at=at["key_outliers"],
            outer_scales_at=at["key_outer_scales"],
            outer_codes_at=at["key_outer_codes"],
            inner_factor=factor,
            outer_factor=outer_factor,
        )
