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

import numpy as np

from tq_core.codecs.base import F32, SILENT_DEFAULT, CodecTags, Pages, Streams
from tq_core.codecs.erase import erase_rows
from tq_core.codecs.turbo_tiles import ARITHMETIC, TileKeys, TileValues, TurboTiles, book_arguments
from tq_core.errors import CodecError, ShapeError, check
from tq_core.kernels.backend import Backend
from tq_core.kernels.layout import centre_streams
from tq_core.math.books import CODES, RATES, load_books
from tq_core.math.pairs import PAIR_CHANNELS
from tq_core.math.prng import check_seed
from tq_core.math.quantize import NormMode
from tq_core.math.rotation import StructuredRotation
from tq_core.shapes import HEAD_DIM_STEP

CENTRES = ("none", "page")
CENTRE_TOKENS = 32  # keys whose mean becomes their page's centre; they leave the window together


@lru_cache(maxsize=64)
def _rotation(head_dim: int, seed: int) -> StructuredRotation:
    return StructuredRotation(head_dim, seed)


@dataclass(frozen=True)
class _Turbo(TurboTiles):
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
    def name(self) -> str:
        """What a page's header says: readers of pages need to know how the code stream is divided."""
        return "pair-turboquant" if self.pairs else "structured-turboquant"

    @property
    def tags(self) -> CodecTags:
        """Pair codes need pairs of channel groups."""
        return CodecTags(head_dim_step=PAIR_CHANNELS if self.pairs else HEAD_DIM_STEP)

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

    def map_queries(self, backend: Backend, queries: F32, pages: Pages) -> F32:
        """Queries (n, n_query_heads, head_dim) as they meet the codes of these pages."""
        return self.rotate(backend, queries.reshape(-1, queries.shape[-1]), inverse=False).reshape(
            queries.shape
        )

    def unmap_sums(self, backend: Backend, sums: F32, pages: Pages) -> F32:
        """Sums of coded values (n, n_query_heads, head_dim) as sums of values."""
        return self.rotate(backend, sums.reshape(-1, sums.shape[-1]), inverse=True).reshape(sums.shape)

    def append(self, backend: Backend, pages: Pages, first: int, x: F32) -> None:
        rotation = _rotation(x.shape[-1], self.seed)
        backend.call(
            f"append_{self._side}s", x=x, signs=rotation.signs, hadamard=rotation.hadamard,
            **book_arguments(self.bits, x.shape[-1], self.code), boundaries=load_books().boundaries, pages=pages.table,
            layout=pages.layout.words, pool=pages.pool, norm_mode=int(NormMode[self.norm]), first=first,
            **self._append_options(),
        )  # fmt: skip

    def _append_options(self) -> dict[str, int]:
        return {}

    def decode(self, pages: Pages, n_tokens: int, head_dim: int) -> F32:
        y = self.decode_codes(pages, n_tokens, head_dim)
        return _rotation(head_dim, self.seed).inverse(y)


@dataclass(frozen=True)
class TurboKeys(_Turbo, TileKeys):
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


@dataclass(frozen=True)
class TurboValues(_Turbo, TileValues):
    """Values: least squared error by default, since they are read through a sum and not a direction."""

    bits: float = 3.0
    seed: int = 2
    norm: str = "min_mse"
    _side = "value"
