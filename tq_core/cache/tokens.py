"""What a cache takes: float32 tokens of its shape whose vectors every codec can store."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tq_core.errors import DTypeError, ShapeError, ValueRangeError, check

F32 = npt.NDArray[np.float32]
HALF_MAX = 65504.0
ROUNDING = 2.0**-11  # of a channel's size: half a step of float16


def _norms(x: F32) -> npt.NDArray[np.float64]:
    """(n_tokens, heads) lengths of the vectors."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.sqrt(np.einsum("thd,thd->th", x, x, dtype=np.float64))


def longest(vectors: npt.NDArray | None) -> float:
    """Largest length of vectors along the last axis; 0 for None."""
    return (
        0.0 if vectors is None else float(np.linalg.norm(vectors.astype(np.float64), axis=-1).max(initial=0))
    )


def check_tokens(
    name: str, x: object, n_tokens: int | None, heads: int, head_dim: int, taken_off: float = 0.0
) -> None:
    """Raise unless x is float32 (n_tokens, heads, head_dim), finite, every vector's norm at most 65504 - taken_off.

    What the window takes in, the codec must be able to store when the tokens leave it. So the norm of the float16 form
    counts, which rounding can lengthen, and ``taken_off``, the length of what is subtracted before tokens are stored.
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
    limit = HALF_MAX - (taken_off + 0.01 if taken_off else 0.0)  # the difference is rounded too
    if limit * (1 - ROUNDING) < most <= limit:
        most = float(_norms(x.astype(np.float16).astype(np.float32)).max())
    expected = f"vectors of norm at most {limit:.0f}, the float16 range"
    expected += f" less {taken_off:.0f} that are taken off" if taken_off else ""
    check(most <= limit, name, expected, most, ValueRangeError)
