"""Grouped asymmetric integer quantization: code = round((x - min) / step), step = (max - min) / (2^b - 1).

The quantizer of KIVI (2402.02750, section 3). Minimum and step are stored as float16, and codes are taken
against the stored values, so that reconstruction uses what encoding used.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
F16 = npt.NDArray[np.float16]


def quantize_groups(x: F32, bits: int, axis: int) -> tuple[npt.NDArray[np.uint8], F16, F16]:
    """Codes, steps and minima of groups along ``axis`` (kept with extent 1); a constant group gets step 0."""
    low = x.min(axis=axis, keepdims=True)
    step = (x.max(axis=axis, keepdims=True) - low) / np.float32((1 << bits) - 1)
    low16, step16 = low.astype(np.float16), step.astype(np.float16)
    divisor = np.where(step16 > 0, step16, np.float16(1)).astype(np.float32)
    codes = np.rint((x - low16.astype(np.float32)) / divisor)
    codes = np.where(step16 > 0, np.clip(codes, 0, (1 << bits) - 1), 0)
    return codes.astype(np.uint8), step16, low16


def dequantize_groups(codes: npt.NDArray[np.uint8], step: F16, low: F16) -> F32:
    """codes * step + minimum in float32."""
    return codes.astype(np.float32) * step.astype(np.float32) + low.astype(np.float32)


def channel_groups(x: F32, group: int) -> F32:
    """(..., head_dim) to (..., n_groups, group); a short last group repeats its last channel.

    Repeating moves neither minimum nor maximum, which padding with zeros would.
    """
    pad = -x.shape[-1] % group
    padded = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, pad)], mode="edge") if pad else x
    return padded.reshape(*x.shape[:-1], -1, group)


def joined(groups: npt.NDArray, head_dim: int) -> npt.NDArray:
    """Inverse of channel_groups."""
    return groups.reshape(*groups.shape[:-2], -1)[..., :head_dim]
