"""Norm, gate, softmax and linear maps against float64 formulas; everything stays float32."""

from __future__ import annotations

from math import erf

import numpy as np
import pytest

from tq_core.errors import DTypeError
from tq_core.model.layers import geglu_tanh, linear, rms_norm, softmax_rows, swiglu

RANDOM = np.random.default_rng(3)


def float32(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def test_rms_norm_matches_its_formula() -> None:
    inputs, weight = float32(5, 64) * 30, float32(64)
    wide = inputs.astype(np.float64)
    expected = wide / np.sqrt((wide**2).mean(axis=-1, keepdims=True) + 1e-5) * weight
    np.testing.assert_allclose(rms_norm(inputs, weight, 1e-5), expected, rtol=3e-6, atol=1e-6)


def test_rms_norm_of_zeros_is_zero() -> None:
    assert not rms_norm(np.zeros((1, 8), np.float32), np.ones(8, np.float32), 1e-5).any()


def test_swiglu_matches_its_formula_and_its_limits() -> None:
    gate, up = float32(4, 32) * 5, float32(4, 32)
    wide = gate.astype(np.float64)
    np.testing.assert_allclose(swiglu(gate, up), wide / (1 + np.exp(-wide)) * up, rtol=1e-5, atol=1e-7)
    extreme = np.array([-200.0, 0.0, 200.0], np.float32)
    assert swiglu(extreme, np.ones(3, np.float32)).tolist() == [0.0, 0.0, 200.0]


def test_geglu_matches_its_formula_and_its_limits() -> None:
    gate, up = float32(4, 32) * 3, float32(4, 32)
    wide = gate.astype(np.float64)
    gelu = wide / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)))
    np.testing.assert_allclose(geglu_tanh(gate, up), gelu * up, rtol=1e-5, atol=1e-6)
    # Within 5e-4 of the normal distribution's own form, which it stands for.
    exact = [x / 2 * (1 + erf(x / 2**0.5)) for x in wide.ravel()]
    np.testing.assert_allclose(gelu.ravel(), exact, atol=5e-4)
    extreme = np.array([-200.0, 0.0, 200.0], np.float32)
    assert geglu_tanh(extreme, np.ones(3, np.float32)).tolist() == [0.0, 0.0, 200.0]


def test_softmax_rows_survives_large_and_hidden_scores() -> None:
    weights = softmax_rows(np.array([[500.0, 500.0, -np.inf], [-500.0, 0.0, -np.inf]], np.float32))
    assert weights.tolist() == [[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]]


def test_linear_matches_float64_and_writes_in_place() -> None:
    inputs, weight = float32(6, 48), float32(20, 48)
    out = np.empty((6, 20), np.float32)
    assert linear(inputs, weight, out) is out
    np.testing.assert_allclose(out, inputs.astype(np.float64) @ weight.T.astype(np.float64), atol=2e-5)


def test_float64_does_not_slip_through() -> None:
    with pytest.raises(DTypeError, match="float32"):
        linear(float32(2, 4).astype(np.float64), float32(3, 4))
    with pytest.raises(DTypeError, match="float32"):
        rms_norm(float32(2, 4) * np.float64(1.0), float32(4), 1e-5)
