"""Vectors without an offset, within what a page can hold."""

from __future__ import annotations

import numpy as np

from tq_core.codecs.base import F32

LONGEST = 65440.0  # two steps below the largest float16, so that no rounding leaves it


def without(x: F32, offset: F32) -> F32:
    """x - offset, float32; what is longer than LONGEST is shortened to it, since codecs store lengths as float16.

    Both x and offset fit float16, but two at its opposite ends are twice as far apart. Such a token was appended in
    good faith earlier, so it is stored as far as the format goes rather than refused when it leaves the window.
    """
    moved: F32 = np.ascontiguousarray(x - offset)
    norms = np.sqrt(np.einsum("...d,...d->...", moved, moved, dtype=np.float64))[..., None]
    if not norms.size or norms.max() <= LONGEST:
        return moved
    shorter: F32 = np.where(norms > LONGEST, moved * (LONGEST / np.maximum(norms, LONGEST)), moved).astype(
        np.float32
    )
    return shorter
