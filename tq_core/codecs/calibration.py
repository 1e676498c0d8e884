"""Tables that a codec learns from vectors of one model: frozen, and named in its identity by a digest.

The vectors are keys or values of whole layers, (n_layers, n_tokens, n_kv_heads, head_dim) float32, after RoPE as a
cache receives them: ``np.stack([k for _, k, _ in capture_qkv(model, tokens)])``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_core.codecs.base import F32, Pages
from tq_core.errors import CodecError, DTypeError, ShapeError, ValueRangeError, check
from tq_core.shapes import ModelShape, check_head_dim


class Calibration:
    """Float32 arrays by name, each (n_layers, n_kv_heads or 1, ...), fitted for one method and head_dim.

    Arrays are copied and read-only; equality and hash follow the digest. Raises ShapeError or ValueRangeError for
    arrays that disagree about the number of layers, are empty or not finite.
    """

    def __init__(self, method: str, head_dim: int, arrays: Mapping[str, npt.ArrayLike]) -> None:
        check_head_dim(head_dim)
        self.method, self.head_dim = method, head_dim
        self._arrays: dict[str, F32] = {}
        digest = hashlib.sha256(f"{method} {head_dim}".encode())
        for name in sorted(arrays):
            array = np.array(arrays[name], np.float32, order="C")
            first = next(iter(self._arrays.values()), array)
            ok = array.ndim >= 2 and array.size > 0 and len(array) == len(first)
            check(ok, name, "an array of shape (n_layers, n_kv_heads, ...)", array.shape, ShapeError)
            check(bool(np.isfinite(array).all()), name, "finite numbers", "others", ValueRangeError)
            array.setflags(write=False)
            self._arrays[name] = array
            digest.update(f" {name} {array.shape} ".encode() + array.astype("<f4").tobytes())
        check(bool(self._arrays), "arrays", "at least one", "none", ShapeError)
        self.digest = digest.hexdigest()

    @property
    def arrays(self) -> dict[str, F32]:
        """The arrays by name."""
        return dict(self._arrays)

    @property
    def n_layers(self) -> int:
        """Layers that the arrays were fitted for."""
        return len(next(iter(self._arrays.values())))

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, all layers."""
        return sum(array.nbytes for array in self._arrays.values())

    def table(self, name: str, pages: Pages) -> F32:
        """One array's entries (n_kv_heads or 1, ...) of the layer whose pages these are.

        Raises CodecError when the pages do not know their layer, ShapeError when it or the heads are not in the array.
        """
        check(pages.layer is not None, "pages", "pages that know their layer", "none", CodecError)
        array, layer, heads = self._arrays[name], int(pages.layer or 0), pages.layout.n_kv_heads
        check(layer < len(array), "calibration", f"one for layer {layer}", f"{len(array)} layers", ShapeError)
        got = array.shape[1]
        check(got in (1, heads), "calibration", f"one for {heads} KV heads", f"{got} heads", ShapeError)
        return array[layer]

    def check_shape(self, shape: ModelShape) -> None:
        """Raise ShapeError unless the arrays are for a model of this shape."""
        heads = {array.shape[1] for array in self._arrays.values()} - {1}
        got = (self.n_layers, *sorted(heads), self.head_dim)
        want = (shape.n_layers, *([shape.n_kv_heads] if heads else []), shape.head_dim)
        check(got == want, "calibration", f"layers, KV heads and head_dim {want}", got, ShapeError)

    def identity(self) -> dict[str, Any]:
        """What an identity record says of it."""
        return {"method": self.method, "digest": self.digest}

    def variants(self) -> list[Calibration]:
        """The same with one number changed, for the checks of a codec's identity."""
        changed = {name: array.copy() for name, array in self._arrays.items()}
        next(iter(changed.values())).flat[0] *= np.float32(1.5)
        return [Calibration(self.method, self.head_dim, changed)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Calibration) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Calibration({self.method!r}, head_dim={self.head_dim}, digest={self.digest[:12]!r})"


def check_fit(vectors: object, least_rows: int) -> F32:
    """The vectors to fit on. Raises DTypeError, ShapeError (fewer than ``least_rows`` tokens too) or ValueRangeError."""
    if not isinstance(vectors, np.ndarray) or vectors.dtype != np.float32:
        got = vectors.dtype if isinstance(vectors, np.ndarray) else type(vectors).__name__
        raise DTypeError(f"vectors: expected a float32 array, got {got}")
    want = "shape (n_layers, n_tokens, n_kv_heads, head_dim)"
    check(vectors.ndim == 4 and vectors.size > 0, "vectors", want, vectors.shape, ShapeError)
    check_head_dim(vectors.shape[3])
    check(
        vectors.shape[1] >= least_rows,
        "vectors",
        f"{least_rows} tokens or more",
        vectors.shape[1],
        ShapeError,
    )
    check(bool(np.isfinite(vectors).all()), "vectors", "finite values", "others", ValueRangeError)
    return vectors


def check_calibration(calibration: object, method: str, required: bool) -> None:
    """Raise CodecError unless it is a Calibration of this method, or None where that is allowed."""
    if calibration is None and not required:
        return
    ok = isinstance(calibration, Calibration) and calibration.method == method
    got = calibration.method if isinstance(calibration, Calibration) else repr(calibration)
    check(ok, "calibration", f"a Calibration fitted for {method}", got, CodecError)


def check_model(codec: Any, shape: ModelShape) -> None:
    """Raise ShapeError unless the codec's calibration, and that of a codec inside it, are for this shape."""
    calibration, inner = getattr(codec, "calibration", None), getattr(codec, "inner", None)
    if calibration is not None:
        calibration.check_shape(shape)
    if inner is not None:
        check_model(inner, shape)
