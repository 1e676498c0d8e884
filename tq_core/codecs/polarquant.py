"""PolarQuant: rotate, then blocks of 16 coordinates as a radius and 15 angles (2502.02617, section 4).

The angles of level 1 take 4 bits, those of levels 2 to 4 two bits each, and the block's radius is a float16:
46 + 16 bits per 16 channels, 3.875 bits per channel, with no norm beside. Two bits at level 2 are the second largest
error; see math/polar.py for the books. Not to be confused with 2502.00527 of the same name, which has no rotation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tq_core.codecs.base import F32, CodecTags, Pages, Streams
from tq_core.codecs.kernel_maps import forward, transpose
from tq_core.codecs.mapped import MappedCodec, Rows, half_bytes, halves
from tq_core.errors import CodecError, ValueRangeError, check
from tq_core.kernels.backend import Backend
from tq_core.kernels.layout import HEADER_BYTES
from tq_core.math.maps import ROTATIONS, LinearMap, rotation
from tq_core.math.polar import BLOCK, CODE_BITS, LEVEL_CODES, from_polar, to_polar
from tq_core.math.polar_pages import BLOCK_BYTES, POLAR_TOKENS, cosine_table, put_codes, unpack_codes
from tq_core.math.prng import check_seed


@dataclass(frozen=True)
class _Polar(MappedCodec):
    """Raises CodecError for an unknown rotation, ValueRangeError for a seed outside 0..2^64-1.

    In memory a row's codes are one byte each, those of level 1 first; pages have them as math/polar_pages.py says.
    """

    seed: int = 1
    rotation: str = "haar"

    name = "polarquant-lanes"
    tags = CodecTags()

    def __post_init__(self) -> None:
        check(self.rotation in ROTATIONS, "rotation", f"one of {ROTATIONS}", repr(self.rotation), CodecError)
        check_seed(self.seed)

    def row_streams(self, head_dim: int) -> dict[str, tuple[int, int]]:
        raise NotImplementedError("pages of PolarQuant have no rows")

    def streams(self, head_dim: int) -> Streams:
        blocks = head_dim // BLOCK
        return (
            (f"{self._side}_scales", 2 * POLAR_TOKENS * blocks),
            (f"{self._side}_codes", BLOCK_BYTES * blocks),
        )

    def nominal_bits(self, head_dim: int) -> float:
        return CODE_BITS / BLOCK

    def maps(self, head_dim: int) -> tuple[LinearMap, ...]:
        return (rotation(self.rotation, head_dim, self.seed),)

    def encode(self, x: F32, backend: Backend | None = None) -> Rows:
        """Rows of x (n_kv_heads, n_tokens, head_dim), rotated on the backend where there is one."""
        y = forward(backend, self.maps(x.shape[-1])[0], x)
        codes, radii = to_polar(y.reshape(*x.shape[:-1], -1, BLOCK))
        flat = [c.reshape(*x.shape[:-1], -1) for c in codes]
        return {
            "radii": half_bytes(radii[..., 0], "the radius of a block"),
            "codes": np.concatenate(flat, axis=-1),
        }

    def _levels(self, codes: np.ndarray, head_dim: int) -> list[np.ndarray]:
        blocks = head_dim // BLOCK
        ends = np.cumsum([blocks * n for n in LEVEL_CODES])[:-1]
        return [c.reshape(*codes.shape[:-1], blocks, -1) for c in np.split(codes, ends, axis=-1)]

    def coordinates(self, rows: Rows, head_dim: int) -> tuple[F32, ...]:
        radii = halves(rows["radii"])[..., None].astype(np.float64)
        y = from_polar(self._levels(rows["codes"], head_dim), radii)
        return (y.reshape(*y.shape[:-2], head_dim).astype(np.float32),)

    def _heads(self, pages: Pages, page: int, stream: str) -> np.ndarray:
        """A writable (n_kv_heads, bytes) view of one stream in one page of the pool."""
        layout = pages.layout
        start = page * layout.page_bytes + HEADER_BYTES
        heads = pages.pool[start : start + layout.n_kv_heads * layout.head_bytes]
        at = layout.offsets[f"{self._side}_{stream}"]
        return heads.reshape(layout.n_kv_heads, -1)[
            :, at : at + dict(layout.streams)[f"{self._side}_{stream}"]
        ]

    def append(self, backend: Backend, pages: Pages, first: int, x: F32) -> None:
        check(bool(np.isfinite(x).all()), "x", "finite values", "some that are not", ValueRangeError)
        if len(x) == 0:
            return
        rows = self.encode(np.ascontiguousarray(np.swapaxes(x, 0, 1)), backend)
        radii, levels = rows["radii"].view(np.uint16), self._levels(rows["codes"], x.shape[-1])
        for start in range(first // POLAR_TOKENS * POLAR_TOKENS, first + len(x), POLAR_TOKENS):
            low, high = max(first, start), min(first + len(x), start + POLAR_TOKENS)
            mine, slots = slice(low - first, high - first), slice(low - start, high - start)
            self._put(
                pages,
                int(pages.table[start // POLAR_TOKENS]),
                slots,
                [c[:, mine] for c in levels],
                radii[:, mine],
            )

    def _put(
        self, pages: Pages, page: int, slots: slice, levels: list[np.ndarray], radii: np.ndarray
    ) -> None:
        """Codes (n_kv_heads, n, blocks, ...) and radii (n_kv_heads, n, blocks) into slots of one page of the pool."""
        blocks = radii.shape[-1]
        stored, scales = self._heads(pages, page, "codes"), self._heads(pages, page, "scales")
        for head in range(len(stored)):
            put_codes(stored[head].reshape(blocks, BLOCK_BYTES), slots, [c[head] for c in levels])
            scales[head].view(np.uint16).reshape(blocks, -1)[:, slots] = radii[head].T

    def erase(self, pages: Pages, page: int, first: int, head_dim: int) -> None:
        heads, blocks = pages.layout.n_kv_heads, head_dim // BLOCK
        slots = slice(first, POLAR_TOKENS)
        n = POLAR_TOKENS - first
        codes = [np.zeros((heads, n, blocks, count), np.uint8) for count in LEVEL_CODES]
        self._put(pages, page, slots, codes, np.zeros((heads, n, blocks), np.uint16))

    def rows(self, pages: Pages, n_tokens: int, head_dim: int) -> Rows:
        blocks, n_pages = head_dim // BLOCK, -(-n_tokens // POLAR_TOKENS)
        codes, radii = [], []
        for page in pages.table[:n_pages]:
            stored, scales = self._heads(pages, int(page), "codes"), self._heads(pages, int(page), "scales")
            levels = [unpack_codes(np.ascontiguousarray(c).reshape(blocks, -1)) for c in stored]
            codes.append(
                [np.concatenate([c.reshape(POLAR_TOKENS, -1) for c in head], axis=1) for head in levels]
            )
            halfs = np.ascontiguousarray(scales).view(np.uint16).reshape(len(stored), blocks, POLAR_TOKENS)
            radii.append(np.ascontiguousarray(np.swapaxes(halfs, 1, 2)))
        return {
            "codes": np.concatenate(codes, axis=1)[:, :n_tokens],
            "radii": np.concatenate(radii, axis=1)[:, :n_tokens].view(np.uint8),
        }


@dataclass(frozen=True)
class PolarKeys(_Polar):
    """Keys of PolarQuant."""

    _side = "key"

    def scores(
        self, backend: Backend, queries: F32, scale: float, pages: Pages, n_tokens: int, out: F32, offset: int
    ) -> None:
        if n_tokens == 0:
            return
        query = forward(backend, self.maps(queries.shape[-1])[0], queries)
        backend.call(
            "score_polar", query=query, angles=cosine_table(), pages=pages.table, layout=pages.layout.words,
            pool=pages.pool, scores=out, n_kv_heads=pages.layout.n_kv_heads, n_tokens=n_tokens, offset=offset, scale=scale,
        )  # fmt: skip


@dataclass(frozen=True)
class PolarValues(_Polar):
    """Values of PolarQuant."""

    seed: int = 2
    _side = "value"

    def weighted_sum(
        self, backend: Backend, weights: F32, pages: Pages, n_tokens: int, offset: int, out: F32
    ) -> None:
        if n_tokens == 0:
            return
        total = np.zeros_like(out)
        backend.call(
            "sum_polar", weights=weights, angles=cosine_table(), pages=pages.table, layout=pages.layout.words,
            pool=pages.pool, out=total, n_kv_heads=pages.layout.n_kv_heads, n_tokens=n_tokens, offset=offset,
        )  # fmt: skip
        out += transpose(backend, self.maps(out.shape[-1])[0], total)
