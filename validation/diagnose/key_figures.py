"""Figures of one head's keys or values: norms, channels, kurtosis, shared offset. float64 throughout."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tq_core.math.rotary import Rotary
from tq_core.math.rotation import StructuredRotation, haar_rotation
from tq_core.shapes import is_head_dim
from validation.diagnose.thresholds import OUTLIER_CHANNEL

F64 = npt.NDArray[np.float64]
PAGES = (32, 64, 128)
SEED = 1  # of the rotation whose kurtosis is shown, as in the arms
FP16_MAX = 65504.0


def _or_none(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def ratio(a: float, b: float) -> float | None:
    """a / b; None when b is zero."""
    return _or_none(a / b) if b > 0 else None


def mean_norm(x: F64) -> float:
    """Mean length of the rows of x (n_tokens, head_dim)."""
    return float(np.linalg.norm(x, axis=1).mean())


def kurtosis(x: F64) -> float | None:
    """Excess kurtosis of all coordinates, rows scaled to one length; None when no row has a length.

    -6 / (head_dim + 2) for Gaussian rows, -2 for rows of coordinates that differ in sign alone.
    """
    norms = np.linalg.norm(x, axis=1)
    if not norms.any():
        return None
    unit = x[norms > 0] / norms[norms > 0, None]
    return float((unit**4).mean() / (unit**2).mean() ** 2 - 3)


def rotated(x: F64) -> F64:
    """x under the rotation of the arms (one round of signs and Hadamard); a dense one for other head sizes."""
    d = x.shape[1]
    largest = float(np.abs(x).max()) or 1.0  # the transform is float32, and its sums must not overflow
    if is_head_dim(d):
        turned = StructuredRotation(d, SEED).forward((x / largest).astype(np.float32))
        return np.asarray(turned, np.float64) * largest
    return np.asarray(x @ haar_rotation(d, SEED).T, np.float64)


def mean_share(x: F64) -> float | None:
    """Share of the energy of x (n_tokens, head_dim) that is in its mean row."""
    energy = float((x**2).sum(axis=1).mean())
    return ratio(float((x.mean(axis=0) ** 2).sum()), energy)


def page_share(x: F64, page_tokens: int) -> float | None:
    """The same with one mean per whole page; None for fewer tokens than a page."""
    n_pages = len(x) // page_tokens
    if n_pages == 0:
        return None
    pages = x[: n_pages * page_tokens].reshape(n_pages, page_tokens, -1)
    return ratio(float((pages.mean(axis=1) ** 2).sum(axis=1).mean()), float((pages**2).sum(axis=2).mean()))


def channels(x: F64) -> dict[str, Any]:
    """Peak over mean energy per channel, the channels far above the usual, their share of the energy, dead channels.

    An outlier channel has OUTLIER_CHANNEL times the root mean square of the median living channel.
    """
    energy = (x**2).mean(axis=0)
    living = energy[energy > 0]
    if not len(living):
        return {
            "peak_channel_energy": None,
            "outlier_channels": [],
            "outlier_share": None,
            "dead_channels": x.shape[1],
        }
    usual = float(np.median(np.sqrt(living)))
    found = np.flatnonzero(np.sqrt(energy) > OUTLIER_CHANNEL.value * usual)
    return {
        "peak_channel_energy": ratio(float(energy.max()), float(energy.mean())),
        "outlier_channels": [int(i) for i in found],
        "outlier_share": ratio(float(energy[found].sum()), float(energy.sum())),
        "dead_channels": int((energy == 0).sum()),
    }


def key_figures(keys: F64, values: F64 | None, rotary: Rotary | None) -> dict[str, Any]:
    """Figures of one KV head from keys and values (n_tokens, head_dim)."""
    centred = keys - keys.mean(axis=0)
    out: dict[str, Any] = {
        "key_norm": mean_norm(keys),
        "key_norm_centred": mean_norm(centred),
        "largest_number": float(np.abs(keys).max()),
        "zero_tokens": int((~keys.any(axis=1)).sum()),
        "distinct_tokens": len(np.unique(keys, axis=0)),
        **channels(keys),
        "kurtosis": kurtosis(keys),
        "kurtosis_rotated": kurtosis(rotated(keys)),
        "static_mean_share": mean_share(keys),
        **{f"page_{p}_share": page_share(keys, p) for p in PAGES},
        "pre_rope_mean_share": None,
    }
    if rotary is not None:
        plain = rotary.rotate(keys[:, None].astype(np.float32), np.arange(len(keys)), inverse=True)[:, 0]
        out["pre_rope_mean_share"] = mean_share(plain.astype(np.float64))
    if values is not None:
        out |= {
            "value_norm": mean_norm(values),
            "norm_ratio": ratio(out["key_norm"], mean_norm(values)),
            "norm_ratio_centred": ratio(out["key_norm_centred"], mean_norm(values)),
            "value_kurtosis": kurtosis(values),
            "value_kurtosis_rotated": kurtosis(rotated(values)),
            "value_mean_share": mean_share(values),
            "value_peak_channel_energy": channels(values)["peak_channel_energy"],
        }
        out["largest_number"] = max(out["largest_number"], float(np.abs(values).max()))
    return out
