"""KVQuant's keys (2401.18079, sections 3.1 to 3.4): per channel before RoPE, non-uniform points, sparse outliers.

Calibration gives every channel two thresholds, percentiles that leave out 1 % of its values, and every layer 2^b
points between -1 and 1: k-means on the values that the thresholds keep, normalised to them, weighted by squared
gradients where these are known. A key is turned back to position 0, coded point by point, and turned again when it is
read, so that queries stay as they are. Values beyond a threshold are kept exactly, as float16 with a 16-bit index.

The paper's sparse rows have any length. A page has room for 1 % of each 32 tokens: the largest excesses get it, what
is left is clamped. b + 32 * floor(0.32 head_dim) / (32 head_dim) bits per channel: 3.3 at 3 bits. The first tokens
stay float16: the arm's sinks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tq_core.codecs.base import F32, CodecTags, Pages
from tq_core.codecs.calibration import Calibration, check_calibration
from tq_core.codecs.rows import U8, KeySide, Parts, half_bytes, halves
from tq_core.errors import CodecError, check
from tq_core.math.bitpack import pack_bits, unpack_bits
from tq_core.math.nuq import nearest
from tq_core.math.rotary import Rotary

NUQ_BITS = (2, 3, 4)
KEY_METHOD = "kvquant-keys"
OUTLIERS = 0.01
GROUP_TOKENS = 32
CHANNEL_BITS = 10  # of an outlier's index; the token inside its group takes the rest
FREE = 0xFFFF


def points_of(calibration: Calibration, bits: int, pages: Pages) -> tuple[F32, F32]:
    """Points that codes stand for in encoding, and in decoding: they differ where Q-Norm moved them."""
    return calibration.table(f"points_{bits}", pages)[0], calibration.table(f"outputs_{bits}", pages)[0]


def check_bits(bits: object) -> None:
    """Raise CodecError unless bits is 2, 3 or 4."""
    check(isinstance(bits, int) and bits in NUQ_BITS, "bits", f"one of {NUQ_BITS}", repr(bits), CodecError)


@dataclass(frozen=True)
class KVQuantKeys(KeySide):
    """Keys by KVQuant. ``rotary`` None codes them as they come, after RoPE: the paper's ablation.

    Raises CodecError for other bits, a missing calibration or another method's.
    """

    calibration: Calibration
    bits: int = 3
    rotary: Rotary | None = None

    name = "kvquant"
    flush_tokens = GROUP_TOKENS

    def __post_init__(self) -> None:
        check_bits(self.bits)
        check_calibration(self.calibration, KEY_METHOD, required=True)

    @property
    def tags(self) -> CodecTags:  # type: ignore[override]
        """Thresholds are absolute numbers."""
        before = self.rotary is not None
        return CodecTags(False, True, True, pre_rope=before, same_bits=False, scale_free=False)

    def _room(self, head_dim: int) -> int:
        """Outliers that a group of tokens can hold."""
        return max(int(OUTLIERS * GROUP_TOKENS * head_dim), 1)

    def group_bytes(self, head_dim: int) -> dict[str, int]:
        room = self._room(head_dim)
        return {"outliers": 2 * room, "indices": 2 * room, "codes": GROUP_TOKENS * head_dim * self.bits // 8}

    def _turn(self, x: F32, position: int | None, inverse: bool) -> F32:
        if self.rotary is None:
            return x
        check(position is not None, "pages", "pages that know their position", "none", CodecError)
        return self.rotary.rotate(x, np.arange(len(x)) + int(position or 0), inverse)

    def _range(self, pages: Pages) -> tuple[F32, F32]:
        """Middle and half width of every channel, (n_kv_heads, head_dim) each."""
        low, high = self.calibration.table("low", pages), self.calibration.table("high", pages)
        half = np.float32(0.5)
        return (low + high) * half, (high - low) * half

    def encode(self, x: F32, pages: Pages, position: int | None) -> Parts:
        keys = self._turn(x, position, inverse=True)
        (middle, width), (points, _) = self._range(pages), points_of(self.calibration, self.bits, pages)
        ratio = (keys - middle) / np.where(width > 0, width, np.float32(1))
        excess = np.maximum(np.abs(keys - middle) - width, np.float32(0))
        room = self._room(x.shape[2])
        kept, indices = largest_excesses(in_groups(keys), in_groups(excess), x.shape[2], room)
        codes = pack_bits(in_groups(nearest(ratio, points)), self.bits)
        return {"outliers": kept, "indices": indices, "codes": codes}

    def expand(self, parts: Parts, head_dim: int, pages: Pages) -> F32:
        (middle, width), (_, outputs) = self._range(pages), points_of(self.calibration, self.bits, pages)
        codes = unpack_bits(parts["codes"], self.bits, GROUP_TOKENS * head_dim)
        groups, heads = codes.shape[:2]
        dense = outputs[codes].reshape(groups, heads, GROUP_TOKENS, head_dim)
        dense = dense * width[:, None] + middle[:, None]
        index = np.ascontiguousarray(parts["indices"]).view(np.uint16).astype(np.int64)
        at = np.nonzero(index != FREE)
        token, channel = index[at] >> CHANNEL_BITS, index[at] & ((1 << CHANNEL_BITS) - 1)
        dense[at[0], at[1], token, channel] = halves(parts["outliers"])[at]
        keys = np.swapaxes(dense, 1, 2).reshape(-1, heads, head_dim)
        return self._turn(keys, pages.position, inverse=False)


def in_groups(tokens: npt.NDArray) -> npt.NDArray:
    """(n_tokens, n_kv_heads, head_dim) to (groups, n_kv_heads, GROUP_TOKENS * head_dim), contiguous."""
    groups = np.swapaxes(tokens.reshape(-1, GROUP_TOKENS, *tokens.shape[1:]), 1, 2)
    return np.ascontiguousarray(groups).reshape(len(groups), tokens.shape[1], -1)


def largest_excesses(x: F32, excess: F32, head_dim: int, room: int) -> tuple[U8, U8]:
    """Bytes of the ``room`` values (float16) whose excess is largest and above 0, and of their indices (uint16).

    x and excess: (groups, heads, tokens * head_dim). An index is token << 10 | channel; entries are in its order, free
    ones last.
    """
    best = np.argsort(-excess, axis=-1, kind="stable")[..., :room]
    used = np.take_along_axis(excess, best, axis=-1) > 0
    place = np.sort(np.where(used, best, x.shape[-1]), axis=-1)
    free = place == x.shape[-1]
    inside = np.where(free, 0, place)
    value = np.where(free, np.float32(0), np.take_along_axis(x, inside, axis=-1))
    index = np.where(free, FREE, inside // head_dim << CHANNEL_BITS | inside % head_dim).astype(np.uint16)
    packed: npt.NDArray[np.uint8] = np.ascontiguousarray(index).view(np.uint8)
    return half_bytes(value), packed
