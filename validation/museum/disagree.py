"""Kinds A and M: results that one metric calls better and another calls worse.

Some of them are quantizers as people build them, simulated here: vectors go through the approximation and then into an
uncompressed cache, so that nothing but the approximation differs.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tq_core.codecs.arm import Arm
from tq_core.codecs.arms import get_arm
from tq_core.codecs.turboquant_prod import ProdKeys, ProdValues
from validation.museum.exhibit import Exhibit
from validation.museum.rows import RowKeys, RowValues
from validation.museum.stops import rule
from validation.museum.study import (
    WINDOW,
    Layer,
    fixture_layer,
    gaussian_layer,
    simulated,
    trial,
    trial_readings,
)


def uniform(x: np.ndarray, bits: np.ndarray) -> np.ndarray:
    """x (n_tokens, heads, head_dim) on even grids over the tokens' range, bits (head_dim,) of each channel."""
    low, high = x.min(axis=0), x.max(axis=0)
    steps = np.maximum(2.0**bits - 1, 0)
    step = np.where(steps > 0, (high - low) / np.maximum(steps, 1), 1)
    middle = np.where(steps > 0, low + step * np.rint((x - low) / step), x.mean(axis=0))
    return middle.astype(np.float32)


def by_variance(x: np.ndarray, mean_bits: int) -> np.ndarray:
    """Bits per channel (head_dim,) that make the squared error of x least: one at a time, where it falls most."""
    left = (np.ptp(x, axis=0) ** 2).sum(axis=0)
    bits = np.zeros(x.shape[2], int)
    for _ in range(mean_bits * x.shape[2]):
        error = left / np.maximum(2.0**bits - 1, 0.5) ** 2
        gain = np.where(bits < 7, error - left / (2.0 ** (bits + 1) - 1) ** 2, -1)
        bits[gain.argmax()] += 1
    return bits


def asked_for_layer() -> Layer:
    """Keys whose loudest channels nobody asks for: queries look at the quiet half."""
    plain = gaussian_layer(12, n_tokens=80)
    loud = np.where(np.arange(64) < 32, 6.0, 0.5).astype(np.float32)
    keys = plain.keys * loud
    asked = np.where(np.arange(64) < 32, 0.0, 4.0).astype(np.float32)
    return Layer(plain.queries * asked, keys, plain.values, 12)


def offset_layer() -> Layer:
    """Keys that share a long vector per head, which no query cares about as it shifts all logits alike."""
    plain = fixture_layer(4, n_tokens=80, gain=3.0)
    shared = 4 * np.random.default_rng(4).standard_normal((1, *plain.keys.shape[1:]))
    return Layer(plain.queries, (plain.keys + shared).astype(np.float32), plain.values, 4)


def sharp_layer() -> Layer:
    """A model less certain than it could be: the true tokens follow its logits times 2."""
    plain = gaussian_layer(14, n_tokens=96, gain=0.25)
    return Layer(plain.queries, plain.keys, plain.values, 14, sharpness=2.0)


def tied_layer() -> Layer:
    """Next-token logits so close together that anything decides between them."""
    plain = fixture_layer(7, n_tokens=96, gain=3.0)
    return Layer(plain.queries, plain.keys, plain.values, 7, temperature=20.0)


def _keys(change: Any) -> Any:
    return lambda layer: simulated(layer, change(layer.keys), layer.values)


def _arm(**options: Any) -> Any:
    return lambda layer: trial(layer, get_arm("structured-turbo", window=WINDOW, **options))


def _pair(keys: Any, values: Any) -> Any:
    return lambda layer: trial(layer, Arm("exhibit", keys, values, WINDOW, 0))


_good, _mse = RowValues(4, rotation="structured"), partial(RowKeys, rotation="structured")

EXHIBITS = (
    Exhibit(
        "A2", "Unbiased and loud, biased and quiet", "turboquant_plus 45, vLLM's configuration",
        "Keys at 3 bits by TurboQuant_prod: no bias in any score, and five times the variance, which softmax does not average.",
        "All three bits in the book.",
        partial(fixture_layer, 2, n_tokens=80, gain=3.0), _pair(RowKeys(3), _good), _pair(ProdKeys(2), _good), rule("kl"), trial_readings,
    ),
    Exhibit(
        "A3", "A sketch for values", "vLLM 38479",
        "One of two bits per value channel goes to a sign sketch, which a weighted sum has no use for.",
        "Both bits in the book.",
        partial(fixture_layer, 2, n_tokens=80, gain=3.0), _pair(RowKeys(4, rotation="structured"), RowValues(2)),
        _pair(RowKeys(4, rotation="structured"), ProdValues(1)), rule("kl"), trial_readings,
    ),
    Exhibit(
        "A10", "Bits where the keys are loud", "turboquant_plus, on why mean squared error fails",
        "Grids are refitted for the least squared error of the keys: loud channels get the bits, queries look at quiet ones.",
        "The same bits for every channel, until something is known of the queries.",
        asked_for_layer, _keys(lambda x: uniform(x, np.full(64, 3))), _keys(lambda x: uniform(x, by_variance(x, 3))),
        rule("kl"), trial_readings,
    ),
    Exhibit(
        "M1", "Cosine 0.996", "turboquant-pytorch, its README",
        "Keys share an offset that is most of their length: the codes spend themselves on it, and cosine is its cosine.",
        "A centre per page is taken off first.",
        offset_layer, _arm(key_bits=4, value_bits=4, key_centre="page"), _arm(key_bits=4, value_bits=4), rule("kl"), trial_readings,
    ),
    Exhibit(
        "M2", "Perplexity better than uncompressed", "turboquant_plus, llama.cpp 21394 and 21038",
        "A constant applied twice makes every key a fifth too long: attention is sharper, and these texts like it.",
        "Scores of the uncompressed cache, whatever the texts like.",
        sharp_layer, _keys(lambda x: x), _keys(lambda x: np.float32(1.2) * x), rule("kl"), trial_readings,
        "Cosine and ranking are perfect, since all keys grow alike.",
    ),
    Exhibit(
        "M3", "A small divergence, another word", "turboquant-pytorch, its README; arXiv 2606.09864",
        "Two bits where next tokens are nearly tied: divergence is tiny, and many a best token is another one.",
        "Four bits keep nine best tokens in ten; both limits must hold.",
        tied_layer, _pair(_mse(4), _good), _pair(_mse(2), RowValues(2, rotation="structured")), rule("top1"), trial_readings,
        "Here the divergence meets its limit a hundred times over.",
    ),
)  # fmt: skip
