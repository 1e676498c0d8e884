"""vLLM's merged TurboQuant presets (vllm-project/vllm, quantization/turboquant): no QJL, matched norm, plain values.

Keys: H x / ||x|| without random signs, Lloyd-Max codes for N(0, 1/d), and "norm correction", which rescales the decoded
vector to length ||x||: the matched scale, folded into the stored float16 here. Values: one uniform grid per token,
code = floor((v - min) / step + 1/2) with float16 step and minimum. Bytes of a slot at d = 128: 196 for k8v4, 134 for 4bit_nc, 118 for
k3v4_nc, 102 for 3bit_nc. The presets leave the first and last two layers alone, which an arm cannot say.

Signs do not matter for a symmetric book, but without them a constant vector becomes one spike, which the book clips:
that conformance check fails, and the codec says so. Head sizes that are no power of two, for which the original builds
a larger matrix, get a Paley matrix here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tq_core.codecs.base import F32, CodecTags
from tq_core.codecs.mapped import MappedCodec, MappedKeys, MappedValues, Rows, half_bytes, halves
from tq_core.codecs.turboquant_mse import ScalarRows
from tq_core.errors import CodecError, check
from tq_core.math.bitpack import pack_bits, packed_bytes, unpack_bits
from tq_core.math.maps import Constant, Identity, LinearMap

VLLM_BITS = (3, 4)
FP8_BITS = 8
# Bits of keys and values. The keys of k8v4 are e4m3 floats under scale 1 (fp8.py), neither rotated nor normed.
PRESETS = {"k8v4": (FP8_BITS, 4), "4bit_nc": (4, 4), "k3v4_nc": (3, 4), "3bit_nc": (3, 3)}
SMALLEST_STEP = 1e-8


@dataclass(frozen=True)
class _Preset(MappedCodec):
    """Raises CodecError for other bits than 3 and 4."""

    bits: int = 4

    name = "vllm-turboquant"

    def __post_init__(self) -> None:
        check(self.bits in VLLM_BITS, "bits", f"one of {VLLM_BITS}", self.bits, CodecError)


@dataclass(frozen=True)
class VllmTurboKeys(MappedKeys, _Preset):
    """Hadamard, Lloyd-Max, matched norm."""

    tags = CodecTags(same_bits=False, known_failures=("check_constant_tokens",))

    @property
    def _codes(self) -> ScalarRows:
        return ScalarRows(self.bits, seed=0, rotation="hadamard", book="gauss", norm="matched")

    def row_streams(self, head_dim: int) -> dict[str, tuple[int, int]]:
        return self._codes.row_streams(head_dim)

    def maps(self, head_dim: int) -> tuple[LinearMap, ...]:
        return self._codes.maps(head_dim)

    def encode(self, x: F32) -> Rows:
        return self._codes.encode(x)

    def coordinates(self, rows: Rows, head_dim: int) -> tuple[F32, ...]:
        return self._codes.coordinates(rows, head_dim)


@dataclass(frozen=True)
class VllmTurboValues(MappedValues, _Preset):
    """One uniform grid per token; codes are taken against the step before it is rounded, as in the original."""

    def row_streams(self, head_dim: int) -> dict[str, tuple[int, int]]:
        return {"affine": (4, 1), "codes": (packed_bytes(head_dim, self.bits), 1)}

    def maps(self, head_dim: int) -> tuple[LinearMap, ...]:
        return Identity(), Constant(head_dim)

    def encode(self, x: F32) -> Rows:
        top = np.float32((1 << self.bits) - 1)
        low = x.min(axis=-1, keepdims=True)
        span = x.max(axis=-1, keepdims=True).astype(np.float64) - low
        step = np.maximum((span / top).astype(np.float32), np.float32(SMALLEST_STEP))
        codes = np.clip(np.floor((x - low) / step + np.float32(0.5)), 0, top).astype(np.uint8)
        affine = np.concatenate([step, low], axis=-1)
        return {"affine": half_bytes(affine, "step and minimum"), "codes": pack_bits(codes, self.bits)}

    def coordinates(self, rows: Rows, head_dim: int) -> tuple[F32, ...]:
        affine = halves(rows["affine"])
        codes = unpack_bits(rows["codes"], self.bits, head_dim).astype(np.float32)
        return affine[..., :1] * codes, affine[..., 1:]
