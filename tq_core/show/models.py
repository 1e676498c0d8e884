"""The model of the real-model notebook, or the tiny one in its place, said plainly."""

from __future__ import annotations

import numpy as np

from tq_core.errors import ModelUnavailable
from tq_core.model.interface import LanguageModel
from tq_core.model.zoo import load_model
from tq_core.show.nb import not_exercised


def real_or_tiny() -> tuple[LanguageModel, bool]:
    """(SmolLM2, True), or (the tiny model, False) after saying that the real one was not exercised."""
    try:
        return load_model("smollm2"), True
    except ModelUnavailable as error:
        not_exercised("SmolLM2", f"{error} The tiny model takes its place below.")
        return load_model("tiny"), False


def offset_share(keys: np.ndarray) -> float:
    """Share of the keys' power that is one constant vector per head: ||mean||^2 / mean ||k||^2, keys (n_tokens, heads, d)."""
    k = keys.astype(np.float64)
    mean = k.mean(axis=0)
    return float((mean**2).sum() / (k**2).sum(axis=(1, 2)).mean())
