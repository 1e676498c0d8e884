"""Controls: llama.cpp's q8_0 and q4_0, in its own bytes.

A block is 32 channels and one float16 scale d. q8_0: d = max|x| / 127, 34 bytes; q4_0: d = (the value of largest
magnitude, with its sign) / -8, code = floor(x / d + 8.5), 18 bytes, channel i in the low nibble of byte i and channel
i + 16 in its high one. Bits count the scale, as ggml counts them: 8.5 and 4.5. The bytes equal those of the gguf
package's quantizers. llama.cpp stores a rotated cache by default; these controls do not rotate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tq_core.codecs.base import F32, CodecTags, Pages
from tq_core.codecs.rows import KeySide, Parts, Rows, ValueSide, half_bytes, halves
from tq_core.kernels.forms import BLOCK, ByteForm, Kind, Scaling
from tq_core.kernels.layout import PageLayout

_TINY = np.finfo(np.float32).tiny  # the reciprocal of a smaller scale would overflow


@dataclass(frozen=True)
class _Blocks(Rows):
    """Blocks of 32 channels; head_dim is a multiple of 32, as in ggml."""

    tags = CodecTags(head_dim_step=BLOCK)
    _kind, _first, _second = Kind.bytes, 0, 0  # of the kernels' form
    _code_bytes = 0

    def group_bytes(self, head_dim: int) -> dict[str, int]:
        return {"codes": head_dim // BLOCK * (2 + self._code_bytes)}

    def byte_form(self, layout: PageLayout, head_dim: int) -> ByteForm:
        at, block = layout.offsets[f"{self._side}_codes"], 2 + self._code_bytes
        row, codes = (
            head_dim // BLOCK * block,
            (self._kind, Scaling.step, head_dim, BLOCK, self._first, self._second),
        )
        return ByteForm(*codes, at + 2, row, block, at, row, block)

    def encode(self, x: F32, pages: Pages, position: int | None) -> Parts:
        blocks = x.reshape(*x.shape[:2], -1, BLOCK)
        scale, codes = self._block_codes(blocks)
        return {"codes": np.concatenate([half_bytes(scale), codes], axis=-1).reshape(*x.shape[:2], -1)}

    def expand(self, parts: Parts, head_dim: int, pages: Pages) -> F32:
        blocks = parts["codes"].reshape(*parts["codes"].shape[:2], -1, 2 + self._code_bytes)
        x: F32 = halves(blocks[..., :2]) * self._block_integers(blocks[..., 2:])
        return x.reshape(*x.shape[:2], head_dim)

    def _block_codes(self, blocks: F32) -> tuple[F32, np.ndarray]:
        """Scales (..., 1) and code bytes of blocks (..., 32)."""
        raise NotImplementedError

    def _block_integers(self, codes: np.ndarray) -> np.ndarray:
        """Code bytes to signed integers (..., 32)."""
        raise NotImplementedError


def _inverse(scale: F32) -> F32:
    usable = np.abs(scale) >= _TINY
    return np.where(usable, np.float32(1) / np.where(usable, scale, np.float32(1)), np.float32(0))


@dataclass(frozen=True)
class _Q8(_Blocks):
    name = "q8_0"
    _kind, _first, _second = Kind.bytes, 128, 128
    _code_bytes = 32

    def _block_codes(self, blocks: F32) -> tuple[F32, np.ndarray]:
        scale = np.abs(blocks).max(axis=-1, keepdims=True) / np.float32(127)
        ratio = blocks * _inverse(scale)
        size = np.abs(ratio)
        whole = np.floor(size)
        rounded = np.copysign(whole + (size - whole >= 0.5), ratio)  # C's roundf: halves away from zero
        return scale, rounded.astype(np.int8).view(np.uint8)

    def _block_integers(self, codes: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(codes).view(np.int8)


@dataclass(frozen=True)
class _Q4(_Blocks):
    name = "q4_0"
    _kind, _first, _second = Kind.nibbles, 0, 8
    _code_bytes = 16

    def _block_codes(self, blocks: F32) -> tuple[F32, np.ndarray]:
        where = np.abs(blocks).argmax(axis=-1)[..., None]
        scale = np.take_along_axis(blocks, where, axis=-1) / np.float32(-8)
        ratio = blocks.astype(np.float64) * _inverse(scale).astype(
            np.float64
        )  # no fused rounding to depend on
        codes = np.clip(np.trunc((ratio + 8.5).astype(np.float32)), 0, 15).astype(np.uint8)
        return scale, codes[..., :16] | codes[..., 16:] << 4

    def _block_integers(self, codes: np.ndarray) -> np.ndarray:
        return np.concatenate([codes & 15, codes >> 4], axis=-1).astype(np.int8) - np.int8(8)


@dataclass(frozen=True)
class Q8Keys(KeySide, _Q8):
    """Keys as q8_0."""


@dataclass(frozen=True)
class Q8Values(ValueSide, _Q8):
    """Values as q8_0."""


@dataclass(frozen=True)
class Q4Keys(KeySide, _Q4):
    """Keys as q4_0."""


@dataclass(frozen=True)
class Q4Values(ValueSide, _Q4):
    """Values as q4_0."""
