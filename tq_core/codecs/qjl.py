"""QJL: keys as the signs of a random projection, outlier channels under a sketch of their own (2406.03482).

Groups of 32 tokens: the channels with the largest energy in the group are taken out, their indices stored once, and
both parts are sketched, score = f ||k_in|| <S q_in, z_in> + f' ||k_out|| <S' q_out, z_out>. The query is not quantized.
Rows of S are orthogonal, of length sqrt(d), in blocks of d, as in the authors' repository; f is the exact constant for
them (theirs, sqrt(pi/2)/m, is 1/(4 d) too large). The inliers' norm is stored itself: the repository stores ||k|| and
takes a difference of squares, at the same cost.

All in: (m + m_out + 32)/d + 64 index bits per 32 tokens and d channels; at d = 128 with m = m_out = 256, 4.27 bits. The
repository gives its first 15 layers m = 512 and m_out = 128 (5.27 bits); ``ratio`` and ``outlier_ratio`` are m / d and
m_out / d. Its values are KIVI's 2 bits in groups of 32 channels, and its newest 128 keys stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tq_core.codecs.base import F32, CodecTags
from tq_core.codecs.mapped import U8, MappedKeys, Rows, half_bytes, halves
from tq_core.errors import CodecError, check
from tq_core.math.bitpack import pack_bits, unpack_bits
from tq_core.math.maps import LinearMap
from tq_core.math.prng import check_seed, splitmix64
from tq_core.math.sketch import SKETCHES, sign_bits, sign_values, sketch, sketch_constant

GROUP_TOKENS = 32
RATIOS = (1, 2, 4)
OUTLIERS = (2, 4, 8)


def _norm(x: F32) -> np.ndarray:
    return np.sqrt((x.astype(np.float64) ** 2).sum(axis=-1, keepdims=True))


@dataclass(frozen=True)
class QjlKeys(MappedKeys):
    """Sketched keys.

    Raises CodecError for an unknown ratio, count of outliers or sketch, ValueRangeError for a seed outside 0..2^64-1.
    """

    ratio: int = 2
    outlier_ratio: int = 2
    outliers: int = 8
    seed: int = 1
    sketch: str = "orthogonal"

    name = "qjl"
    tags = CodecTags(same_bits=False, unbiased_scores=True)
    flush_tokens = GROUP_TOKENS

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

    def row_streams(self, head_dim: int) -> dict[str, tuple[int, int]]:
        bits = (self.ratio + self.outlier_ratio) * head_dim
        index = self.outliers * self._index(head_dim).itemsize
        return {"norms": (4, 1), "outliers": (index, GROUP_TOKENS), "codes": (bits // 8, 1)}

    def maps(self, head_dim: int) -> tuple[LinearMap, ...]:
        seeds = [int(s) for s in splitmix64(self.seed, 2)]
        rows = (self.ratio * head_dim, self.outlier_ratio * head_dim)
        return tuple(sketch(self.sketch, m, head_dim, s) for m, s in zip(rows, seeds, strict=True))

    def _masks(self, rows: Rows, head_dim: int) -> F32:
        """(n_kv_heads, n_groups, head_dim): 1 for the group's outlier channels, else 0."""
        index = np.ascontiguousarray(rows["outliers"]).view(self._index(head_dim)).astype(np.int64)
        mask = np.zeros((*index.shape[:-1], head_dim), np.float32)
        np.put_along_axis(mask, index, np.float32(1), axis=-1)
        return mask

    def encode(self, x: F32) -> Rows:
        heads, d = len(x), x.shape[-1]
        groups = x.reshape(heads, -1, GROUP_TOKENS, d)
        energy = (groups.astype(np.float64) ** 2).sum(axis=2)
        chosen = np.argsort(-energy, axis=-1, kind="stable")[..., : self.outliers]
        index: U8 = np.ascontiguousarray(np.sort(chosen, axis=-1).astype(self._index(d))).view(np.uint8)
        mask = self._masks({"outliers": index}, d)[:, :, None]
        inner, outer = (groups * (1 - mask)).reshape(x.shape), (groups * mask).reshape(x.shape)
        signs = [sign_bits(m.forward(part)) for m, part in zip(self.maps(d), (inner, outer), strict=True)]
        norms = np.concatenate([_norm(inner), _norm(outer)], axis=-1)
        return {
            "norms": half_bytes(norms, "the norm of a part"),
            "outliers": index,
            "codes": pack_bits(np.concatenate(signs, axis=-1), 1),
        }

    def coordinates(self, rows: Rows, head_dim: int) -> tuple[F32, ...]:
        m, m_out = self.ratio * head_dim, self.outlier_ratio * head_dim
        z = sign_values(unpack_bits(rows["codes"], 1, m + m_out))
        norms = halves(rows["norms"])
        f, f_out = (np.float32(sketch_constant(self.sketch, n, head_dim)) for n in (m, m_out))
        return f * norms[..., :1] * z[..., :m], f_out * norms[..., 1:] * z[..., m:]

    def vectors(self, rows: Rows, head_dim: int) -> F32:
        inner, outer = (m.transpose(y) for m, y in zip(self.maps(head_dim), self.coordinates(rows, head_dim)))
        mask = np.repeat(self._masks(rows, head_dim), GROUP_TOKENS, axis=1)[:, : inner.shape[1]]
        return (1 - mask) * inner + mask * outer

    def logits(self, queries: F32, rows: Rows) -> F32:
        heads, group, d = queries.shape
        mask = self._masks(rows, d)[:, :, None]  # KV head, group of tokens, query head, channel
        total = np.zeros((heads, mask.shape[1], group, GROUP_TOKENS), np.float32)
        for m, y, part in zip(self.maps(d), self.coordinates(rows, d), (1 - mask, mask), strict=True):
            padded = np.zeros((heads, mask.shape[1] * GROUP_TOKENS, y.shape[-1]), np.float32)
            padded[:, : y.shape[1]] = y
            z = padded.reshape(heads, -1, GROUP_TOKENS, y.shape[-1])
            total += np.matmul(m.forward(queries[:, None] * part), np.swapaxes(z, -1, -2))
        out: F32 = np.moveaxis(total, 1, 2).reshape(heads, group, -1)
        return out
