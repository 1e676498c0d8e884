"""The arithmetic between the attention steps: linear maps, RMSNorm and the gated feed-forward unit.

Everything stays float32. A single numpy float64 scalar in an expression would turn all that follows
into float64 (NEP 50): results improve unnoticed and speed falls several times. Hence the checks.
"""

from __future__ import annotations

import numpy as np

from tq_core.errors import DTypeError, check

_GELU_SLOPE, _GELU_CUBIC = np.float32((2 / np.pi) ** 0.5), np.float32(0.044715)


def require_float32(argument: str, array: np.ndarray) -> np.ndarray:
    """Return ``array``; DTypeError unless it is float32."""
    check(array.dtype == np.float32, argument, "float32", array.dtype, DTypeError)
    return array


def linear(inputs: np.ndarray, weight: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """``inputs @ weight.T``: float32 (n_tokens, n_in) and (n_out, n_in) to (n_tokens, n_out).

    Written into ``out`` when there is one. Raises DTypeError when the result would not be float32.

    The sum runs in BLAS, in an order that depends on its build and on n_tokens: results agree between
    machines to float32 rounding, not to the bit.
    """
    return require_float32("linear output", np.matmul(inputs, weight.T, out=out))


def rms_norm(inputs: np.ndarray, weight: np.ndarray, epsilon: float) -> np.ndarray:
    """``inputs / sqrt(mean(inputs**2) + epsilon) * weight`` over the last axis, float32.

    Zhang and Sennrich, "Root Mean Square Layer Normalization" (arXiv 1910.07467), eq. 4.
    """
    mean_square = np.mean(np.square(inputs), axis=-1, keepdims=True)
    scale = np.float32(1.0) / np.sqrt(mean_square + np.float32(epsilon))
    return require_float32("rms_norm output", inputs * scale * weight)


def swiglu(gate: np.ndarray, up: np.ndarray) -> np.ndarray:
    """``gate * sigmoid(gate) * up``, float32, elementwise.

    Shazeer, "GLU Variants Improve Transformer" (arXiv 2002.05202), SwiGLU with beta = 1.
    """
    with np.errstate(over="ignore"):  # exp(-gate) = inf gives the right limit: zero
        activated = gate / (np.float32(1.0) + np.exp(-gate))
    return require_float32("swiglu output", activated * up)


def geglu_tanh(gate: np.ndarray, up: np.ndarray) -> np.ndarray:
    """``gelu(gate) * up``, float32, elementwise, with GELU's tanh form.

    Shazeer (arXiv 2002.05202), GEGLU; Hendrycks and Gimpel, "Gaussian Error Linear Units" (arXiv 1606.08415),
    section 2: gelu(x) is about ``x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))``.
    """
    inner = _GELU_SLOPE * (gate + _GELU_CUBIC * (gate * gate * gate))
    activated = np.float32(0.5) * gate * (np.float32(1.0) + np.tanh(inner))
    return require_float32("geglu output", activated * up)


GATES = {"silu": swiglu, "gelu_tanh": geglu_tanh}


def softmax_rows(scores: np.ndarray) -> np.ndarray:
    """Softmax over the last axis, float32, written over ``scores``; -inf entries get weight zero."""
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return require_float32("softmax output", scores)
