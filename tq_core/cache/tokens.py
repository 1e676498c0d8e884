"""What a cache takes: float32 tokens of its shape whose vectors every codec can store."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tq_core.errors import DTypeError, ShapeError, ValueRangeError, check

F32 = npt.NDArray[np.float32]
HALF_MAX = 65504.0
HALF_NEAR = HALF_MAX * (1 - 2.0**-11)  # vectors up to here stay in range when their channels are rounded


def _norms(x: F32) -> npt.NDArray[np.float64]:
    """(n_tokens, heads) lengths of the vectors."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.sqrt(np.einsum("thd,thd->th", x, x, dtype=np.float64))


def check_tokens(name: str, x: object, n_tokens: int | None, heads: int, head_dim: int) -> None:
    """Raise unless x is float32 (n_tokens, heads, head_dim), finite, every vector's norm at most 65504.

    The norm of the float16 form counts too: rounding can lengthen a vector, and what the window takes in its codec must
    be able to store when the tokens leave it.
    """
    if not isinstance(x, np.ndarray) or x.dtype != np.float32:
        got = x.dtype if isinstance(x, np.ndarray) else type(x).__name__
        raise DTypeError(f"{name}: expected a float32 array, got {got}")
    shape_ok = x.ndim == 3 and x.shape[1:] == (heads, head_dim) and n_tokens in (None, len(x))
    rows = "n_tokens" if n_tokens is None else n_tokens
    check(shape_ok, name, f"shape ({rows}, {heads}, {head_dim})", x.shape, ShapeError)
    norms = _norms(x)
    if not np.isfinite(norms).all():
        token, head, channel = (int(i[0]) for i in np.nonzero(~np.isfinite(x)))
        got = f"{x[token, head, channel]} at token {token}, head {head}, channel {channel}"
        raise ValueRangeError(f"{name}: expected finite values, got {got}")
    most = float(norms.max(initial=0.0))
    if HALF_NEAR < most <= HALF_MAX:
        most = float(_norms(x.astype(np.float16).astype(np.float32)).max())
    check(
        most <= HALF_MAX,
        name,
        f"vectors of norm at most {HALF_MAX:.0f}, the float16 range",
        most,
        ValueRangeError,
    )
