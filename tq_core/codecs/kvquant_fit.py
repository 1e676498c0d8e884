"""Calibration of KVQuant (2401.18079): thresholds per channel, points per layer, Q-Norm at 2 bits."""

from __future__ import annotations

import numpy as np

from tq_core.codecs.base import F32
from tq_core.codecs.calibration import Calibration, check_fit
from tq_core.codecs.kvquant import KEY_METHOD, NUQ_BITS, OUTLIERS
from tq_core.codecs.kvquant_values import VALUE_METHOD, split_outliers
from tq_core.errors import ShapeError, check
from tq_core.math.nuq import fit_points, nearest
from tq_core.math.rotary import Rotary

FIT_TOKENS = 200  # then one value lies beyond each percentile
NORMED_BITS = 2


def fit_kvquant_keys(keys: F32, rotary: Rotary | None, weights: F32 | None = None) -> Calibration:
    """Thresholds and points from keys (n_layers, n_tokens, n_kv_heads, head_dim) at positions 0, 1, ..., after RoPE.

    ``weights``: shaped like the keys, the squared gradients of the loss by them (Fisher information); None weighs all
    alike. ``rotary`` as the codec gets it. Raises the errors of check_fit, for fewer than 200 tokens too.
    """
    x = check_fit(keys, FIT_TOKENS)
    check(weights is None or weights.shape == x.shape, "weights", f"shape {x.shape}", getattr(weights, "shape", None), ShapeError)  # fmt: skip
    if rotary is not None:
        x = np.stack([rotary.rotate(layer, np.arange(x.shape[1]), inverse=True) for layer in x])
    low, high = np.quantile(x, [OUTLIERS / 2, 1 - OUTLIERS / 2], axis=1).astype(np.float32)
    middle, width = ((low + high) / 2)[:, None], ((high - low) / 2)[:, None]
    ratio = (x - middle) / np.where(width > 0, width, np.float32(1))
    arrays = {"low": low, "high": high}
    for layer in range(len(x)):
        inside = np.abs(ratio[layer]) <= 1
        given = None if weights is None else weights[layer][inside]
        _add_points(arrays, layer, ratio[layer][inside], given)
    return Calibration(KEY_METHOD, x.shape[3], arrays)


def fit_kvquant_values(values: F32, weights: F32 | None = None) -> Calibration:
    """Points from values (n_layers, n_tokens, n_kv_heads, head_dim); otherwise as fit_kvquant_keys."""
    x = check_fit(values, FIT_TOKENS)
    check(weights is None or weights.shape == x.shape, "weights", f"shape {x.shape}", getattr(weights, "shape", None), ShapeError)  # fmt: skip
    arrays: dict[str, F32] = {}
    for layer, tokens in enumerate(x):
        channels, low, high = split_outliers(tokens)
        width = (high - low) / 2
        ratio = (tokens - (low + high) / 2) / np.where(width > 0, width, np.float32(1))
        inside = np.ones(ratio.shape, bool)
        np.put_along_axis(inside, channels, False, axis=-1)
        _add_points(arrays, layer, ratio[inside], None if weights is None else weights[layer][inside])
    return Calibration(VALUE_METHOD, x.shape[3], arrays)


def _add_points(arrays: dict[str, F32], layer: int, ratio: F32, weights: F32 | None) -> None:
    """Append one layer's points for every rate, (1, 2^b): "points" to encode with, "outputs" to decode with.

    Q-Norm: at 2 bits the outputs are moved and stretched so that coded data has the data's mean and deviation.
    """
    for bits in NUQ_BITS:
        points = fit_points(ratio, 1 << bits, weights)
        outputs = points
        if bits == NORMED_BITS:
            coded = points[nearest(ratio, points)]
            spread = float(coded.std())
            stretch = float(ratio.std()) / spread if spread > 0 else 1.0
            outputs = (points - coded.mean()) * stretch + float(ratio.mean())
        for kind, row in (("points", points), ("outputs", outputs)):
            made = row.astype(np.float32)[None, None]
            name = f"{kind}_{bits}"
            arrays[name] = made if layer == 0 else np.concatenate([arrays[name], made])
