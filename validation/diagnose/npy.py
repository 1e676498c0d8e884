"""Arrays of a stranger's .npy file as float32: no pickles, bounded sizes, and one line for whatever is wrong.

float16, float32 and float64 are taken as they are; bfloat16 has no type in numpy, so two-byte words are read as
bfloat16 only when the caller says so.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from tq_core.errors import DTypeError, ShapeError, TqError, ValueRangeError, check

F32 = npt.NDArray[np.float32]
MAX_ELEMENTS = 1 << 28  # 1 GiB as float32
MAX_HEADER = 10_000
LEAST_TOKENS = 32
AXES = "(n_tokens, n_heads, head_dim) or (n_layers, n_tokens, n_heads, head_dim)"


def _header(file: BinaryIO, label: str) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, column order and type. Nothing of the data is read, and nothing is unpickled."""
    formats = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about headers that Python 2 wrote
            version = np.lib.format.read_magic(file)
            check(
                version in formats, label, "version 1.0 or 2.0 of the .npy format", version, ValueRangeError
            )
            shape, fortran, dtype = formats[version](file, max_header_size=MAX_HEADER)  # type: ignore[arg-type]
    except (OSError, TqError):
        raise
    except Exception as error:  # the header is read as Python source, whose parsers raise much
        reason = " ".join(str(error).split())[:120]
        raise ValueRangeError(f"{label}: expected a readable .npy header, got: {reason}") from error
    return shape, fortran, dtype


def _widened(raw: np.ndarray, bfloat16: bool, label: str) -> F32:
    two_bytes = raw.dtype.itemsize == 2 and raw.dtype.kind in "uV"
    if bfloat16:
        check(two_bytes, label, "two-byte words to be read as bfloat16", raw.dtype, DTypeError)
        words = raw if raw.dtype.kind == "u" else raw.view("<u2")
        return (words.astype(np.uint32) << 16).view(np.float32)
    hint = "; if these are bfloat16 words, say so with --bfloat16" if two_bytes else ""
    want = "float16, float32 or float64"
    check(raw.dtype.kind == "f" and raw.dtype.itemsize in (2, 4, 8), label, want, f"{raw.dtype}{hint}", DTypeError)  # fmt: skip
    with np.errstate(over="ignore"):
        return raw.astype(np.float32)


def read_npy(path: Path, label: str, bfloat16: bool = False) -> F32:
    """Float32 (n_layers, n_tokens, n_heads, head_dim), finite; an array of three axes is one layer.

    Raises ValueRangeError for a file that cannot be read, is damaged, too large, holds NaN, infinity or numbers beyond
    float32, DTypeError for another element type (bfloat16 words without ``bfloat16`` too), ShapeError for another number
    of axes, an empty one, fewer than 32 tokens, or an odd head_dim.
    """
    try:
        with path.open("rb") as file:
            shape, fortran, dtype = _header(file, label)
            check(
                not dtype.hasobject and dtype.fields is None, label, "an array of numbers", dtype, DTypeError
            )
            check(len(shape) in (3, 4), label, f"shape {AXES}", shape, ShapeError)
            check(min(shape) > 0, label, f"shape {AXES}, nothing empty", shape, ShapeError)
            count = 1
            for extent in shape:
                count *= int(extent)
            check(count <= MAX_ELEMENTS, label, f"at most {MAX_ELEMENTS:,} numbers", f"{count:,}", ValueRangeError)  # fmt: skip
            held = path.stat().st_size - file.tell()
            want = count * dtype.itemsize
            check(held == want, label, f"{want:,} bytes of data", f"{held:,}", ValueRangeError)
            raw = np.fromfile(file, dtype, count)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ValueRangeError(f"{label}: expected a readable file {path.name}, got: {reason}") from error
    check(raw.size == count, label, f"{count:,} numbers", f"{raw.size:,}", ValueRangeError)
    array = _widened(raw.reshape(shape, order="F" if fortran else "C"), bfloat16, label)
    array = np.ascontiguousarray(array if array.ndim == 4 else array[None])
    finite = np.isfinite(array)
    if not finite.all():
        layer, token, head, channel = (int(i) for i in np.argwhere(~finite)[0])
        where = f"{array[layer, token, head, channel]} at layer {layer}, token {token}, head {head}, channel {channel}"
        count = int((~finite).sum())
        raise ValueRangeError(
            f"{label}: expected finite numbers within float32, got {where} ({count:,} in all)"
        )
    check_axes(array, label)
    return array


def check_axes(array: F32, label: str) -> None:
    """Raise ShapeError for too few tokens, or a head_dim that is odd or not in 8..1024."""
    _, n_tokens, _, head_dim = array.shape
    check(n_tokens >= LEAST_TOKENS, label, f"{LEAST_TOKENS} tokens or more", n_tokens, ShapeError)
    even = head_dim % 2 == 0 and 8 <= head_dim <= 1024
    check(even, label, "an even head_dim in 8..1024", head_dim, ShapeError)
