"""Structured TurboQuant: rotate, quantize each coordinate with a Lloyd-Max book, keep one scale.

TurboQuant_mse (2504.19874, Algorithm 1) with Fast-TurboQuant's transform (2606.21448: signs and a
Hadamard matrix instead of a dense rotation) and a fitted scale (EDEN; see math/quantize.py).
The transform precedes TurboQuant: DRIVE, EDEN and HIGGS rotate before a scalar book too.

Keys are rotated after RoPE and the query with them, so <Tq, Tk> = <q, k>; scores are exact integer sums
over the codes. Values are summed in the rotated basis and one inverse transform follows per head.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_core.codecs.base import F32, SILENT_DEFAULT, CodecTags, Pages, Streams
from tq_core.codecs.erase import erase_rows, erase_tiles
from tq_core.errors import CodecError, ShapeError, check
from tq_core.kernels.backend import Backend
from tq_core.kernels.layout import PAGE_TOKENS, centre_streams, code_streams
from tq_core.math import tiles
from tq_core.math.books import CODES, RATES, load_books, widths_for
from tq_core.math.pairs import PAIR_BITS, PAIR_CHANNELS, split_pairs
from tq_core.math.prng import check_seed
from tq_core.math.quantize import QUERY_MAX, SMALL_MAX, NormMode, centroid_values
from tq_core.math.rotation import StructuredRotation
from tq_core.shapes import HEAD_DIM_STEP

ARITHMETIC = ("exact", "fast", "f32")
CENTRES = ("none", "page")
CENTRE_TOKENS = 32  # keys whose mean becomes their page's centre; they leave the window together


@lru_cache(maxsize=64)
def _rotation(head_dim: int, seed: int) -> StructuredRotation:
    return StructuredRotation(head_dim, seed)


@lru_cache(maxsize=64)
def _book_arguments(bits: float, head_dim: int, code: str) -> dict[str, Any]:
    books = load_books()
    return {"widths": widths_for(bits, head_dim, code), "levels": books.levels, "book_scale": books.scale}


@dataclass(frozen=True)
class _Turbo:
    """Fields that keys and values share: nominal bits, rotation seed, rule of the stored scale, arithmetic.

    ``arithmetic`` "exact" sums integers with 16-bit queries and weights, "fast" with 8-bit ones; "f32" is the
    float32 oracle. At the half rates ``code`` "pair" stores two coordinates in one code, where "split" gives half
    of the channels a bit more.
    Raises CodecError for an unknown rate, code, rule or arithmetic, ValueRangeError for a seed outside 0..2^64-1.
    """

    bits: float
    seed: int
    norm: str
    arithmetic: str = "exact"
    code: str = field(default="split", metadata=SILENT_DEFAULT)

    flush_tokens = 1
    page_tokens = PAGE_TOKENS
    _side = ""

    def __post_init__(self) -> None:
        check(self.bits in RATES, "bits", f"one of {RATES}", self.bits, CodecError)
        check(
            self.norm in tuple(NormMode.__members__),
            "norm",
            f"one of {tuple(NormMode.__members__)}",
            self.norm,
            CodecError,
        )
        check(
            self.arithmetic in ARITHMETIC, "arithmetic", f"one of {ARITHMETIC}", self.arithmetic, CodecError
        )
        check(self.code in CODES, "code", f"one of {CODES}", self.code, CodecError)
        check_seed(self.seed)

    @property
    def pairs(self) -> bool:
        """Whether two coordinates share a code."""
        return self.code == "pair" and self.bits in PAIR_BITS

    @property
    def name(self) -> str:
        """What a page's header says: readers of pages need to know how the code stream is divided."""
        return "pair-turboquant" if self.pairs else "structured-turboquant"

    @property
    def tags(self) -> CodecTags:
        """Pair codes need pairs of channel groups."""
        return CodecTags(head_dim_step=PAIR_CHANNELS if self.pairs else HEAD_DIM_STEP)

    def check(self, head_dim: int) -> None:
        self.widths(head_dim)

    def widths(self, head_dim: int) -> npt.NDArray[np.uint8]:
        """Bits of each 16-channel group, as the kernels take them."""
        return widths_for(self.bits, head_dim, self.code)

    def streams(self, head_dim: int) -> Streams:
        return code_streams(self._side, self.widths(head_dim), self.page_tokens)

    def nominal_bits(self, head_dim: int) -> float:
        return float(self.widths(head_dim).mean())

    def fixed_bytes(self, head_dim: int) -> int:
        rotation, books = _rotation(head_dim, self.seed), load_books()
        tables = (rotation.signs, rotation.hadamard, books.levels, books.scale, books.boundaries)
        return sum(t.nbytes for t in tables) + head_dim // 16

    def rotate(self, backend: Backend, x: F32, inverse: bool) -> F32:
        """T x, or T^t x, for rows x (n, head_dim), on the backend."""
        rotation = _rotation(x.shape[-1], self.seed)
        y = np.empty_like(x)
        backend.call(
            "rotate",
            x=x,
            signs=rotation.signs,
            hadamard=rotation.hadamard,
            y=y,
            inverse=int(inverse),
            scale=rotation.unit,
        )
        return y

    def append(self, backend: Backend, pages: Pages, first: int, x: F32) -> None:
        rotation = _rotation(x.shape[-1], self.seed)
        backend.call(
            f"append_{self._side}s", x=x, signs=rotation.signs, hadamard=rotation.hadamard,
            **_book_arguments(self.bits, x.shape[-1], self.code), boundaries=load_books().boundaries, pages=pages.table,
            layout=pages.layout.words, pool=pages.pool, norm_mode=int(NormMode[self.norm]), first=first,
            **self._append_options(),
        )  # fmt: skip

    def erase(self, pages: Pages, page: int, first: int, head_dim: int) -> None:
        erase_rows(pages, page, f"{self._side}_scales", first)
        widths = self.widths(head_dim)
        erase_tiles(pages, page, f"{self._side}_codes", first, widths, self._side == "key")

    def _append_options(self) -> dict[str, int]:
        return {}

    def decode(self, pages: Pages, n_tokens: int, head_dim: int) -> F32:
        widths, heads = self.widths(head_dim), pages.layout.n_kv_heads
        out = np.empty((n_tokens, heads, head_dim), np.float32)
        codes, scales = (
            pages.stack(f"{self._side}_codes", n_tokens),
            pages.stack(f"{self._side}_scales", n_tokens),
        )
        for head in range(heads):
            flat = tiles.unpack_stream(
                np.ascontiguousarray(codes[:, head]).reshape(-1), widths, self._side == "key"
            )
            scale = np.ascontiguousarray(scales[:, head]).view(np.float16).reshape(-1, 1).astype(np.float32)
            rotated = scale * centroid_values(split_pairs(flat, widths), widths, load_books())
            out[:, head] = _rotation(head_dim, self.seed).inverse(rotated[:n_tokens])
        return out


@dataclass(frozen=True)
class TurboKeys(_Turbo):
    """Keys: matched norm by default, which keeps the variance of random queries' logits.

    ``centre`` "page" takes a vector off every key of a page before it is rotated: the float16 mean of the page's first
    CENTRE_TOKENS keys, fixed when the page opens, so that later tokens change no byte. It is stored once per page and
    its score goes back onto the page's logits, so these stay on the scale of window and sinks. An offset that keys
    share would else take most of the codes' range, since a rotation spreads it and does not remove it. It costs
    16 / page_tokens bits per channel, and the window keeps up to CENTRE_TOKENS - 1 tokens more.
    """

    bits: float = 3.5
    seed: int = 1
    norm: str = "matched"
    centre: str = field(default="none", metadata=SILENT_DEFAULT)
    _side = "key"

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self.centre in CENTRES, "centre", f"one of {CENTRES}", self.centre, CodecError)

    @property
    def flush_tokens(self) -> int:  # type: ignore[override]
        """CENTRE_TOKENS where pages are centred, else 1."""
        return CENTRE_TOKENS if self.centre == "page" else 1

    def streams(self, head_dim: int) -> Streams:
        return super().streams(head_dim) + (centre_streams(head_dim) if self.centre == "page" else ())

    def _append_options(self) -> dict[str, int]:
        return {"centre_tokens": CENTRE_TOKENS if self.centre == "page" else 0}

    def append(self, backend: Backend, pages: Pages, first: int, x: F32) -> None:
        check(
            first % self.flush_tokens == 0 and len(x) % self.flush_tokens == 0,
            "x",
            f"keys in groups of {self.flush_tokens}, from slot 0 on",
            (first, len(x)),
            ShapeError,
        )
        super().append(backend, pages, first, x)

    def erase(self, pages: Pages, page: int, first: int, head_dim: int) -> None:
        super().erase(pages, page, first, head_dim)
        if self.centre == "page" and first == 0:
            erase_rows(pages, page, "key_centres", 0)

    def decode(self, pages: Pages, n_tokens: int, head_dim: int) -> F32:
        out = super().decode(pages, n_tokens, head_dim)
        if self.centre == "page" and n_tokens:
            centres = np.ascontiguousarray(pages.stack("key_centres", n_tokens)).view(np.float16)
            out += np.repeat(centres.astype(np.float32), self.page_tokens, axis=0)[:n_tokens]
        return out

    def centre_query(self, queries: F32, scale: float) -> F32:
        """What scores a page's centre: the queries times the softmax scale, or no channels without centres."""
        return queries * np.float32(scale) if self.centre == "page" else queries[:, :0].copy()

    def scores(
        self, backend: Backend, queries: F32, scale: float, pages: Pages, n_tokens: int, out: F32, offset: int
    ) -> None:
        if n_tokens == 0:
            return
        rotated = self.rotate(backend, queries, inverse=False)
        common = {
            "centre_query": self.centre_query(queries, scale),
            **_book_arguments(self.bits, queries.shape[-1], self.code), "pages": pages.table, "layout": pages.layout.words,
            "pool": pages.pool, "scores": out, "n_kv_heads": pages.layout.n_kv_heads, "n_tokens": n_tokens, "offset": offset,
        }  # fmt: skip
        if self.arithmetic == "f32":
            backend.call("score_keys_f32", query=rotated, scale=scale, **common)
            return
        query, step = np.empty(rotated.shape, np.int16), np.empty(len(rotated), np.float32)
        limit = SMALL_MAX if self.arithmetic == "fast" else QUERY_MAX
        backend.call("quantize_query", x=rotated, query=query, step=step, scale=scale, limit=float(limit))
        backend.call("score_keys", query=query, step=step, **common)


@dataclass(frozen=True)
class TurboValues(_Turbo):
    """Values: least squared error by default, since they are read through a sum and not a direction."""

    bits: float = 3.0
    seed: int = 2
    norm: str = "min_mse"
    _side = "value"

    def weighted_sum(
        self, backend: Backend, weights: F32, pages: Pages, n_tokens: int, offset: int, out: F32
    ) -> None:
        if n_tokens == 0:
            return
        rotated = np.zeros_like(out)
        kernel = "sum_values_f32" if self.arithmetic == "f32" else "sum_values"
        backend.call(
            kernel, weights=weights, **_book_arguments(self.bits, out.shape[-1], self.code), pages=pages.table,
            layout=pages.layout.words, pool=pages.pool, out=rotated, n_kv_heads=pages.layout.n_kv_heads,
            n_tokens=n_tokens, offset=offset,
        )  # fmt: skip
        out += self.rotate(backend, rotated, inverse=True)
