"""Canonical JSON, so that equal facts have equal bytes and one digest.

RFC 8785 (JSON Canonicalization Scheme) restricted to what needs no number formatting: objects with ASCII names
in ascending order, arrays, strings, true, false, null and integers below 2^53 in size. Floats are refused; they
enter as text, ``float.hex()``, which names every bit. Larger integers enter as decimal text.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

from tq_core.errors import TqError, ValueRangeError, check

_SAFE_INTEGER = 2**53 - 1


def plain(value: Any) -> Any:
    """``value`` as canonical data: floats as hex text, big integers as decimal text, arrays as a digest.

    Raises ValueRangeError for a type that has no such form.
    """
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, np.integer)):
        return int(value) if abs(int(value)) <= _SAFE_INTEGER else str(int(value))
    if isinstance(value, (float, np.floating)):
        return float(value).hex()
    if isinstance(value, np.ndarray):
        return f"{value.dtype.str.replace('>', '<')}{list(value.shape)} sha256 {array_digest(value)}"
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    raise ValueRangeError(f"value: expected plain data or an array, got {type(value).__name__}")


def array_digest(array: np.ndarray) -> str:
    """SHA-256 of an array's little-endian bytes, its type and shape included."""
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    head = canonical_json({"dtype": little.dtype.str, "shape": list(little.shape)})
    return hashlib.sha256(head + b"\n" + little.tobytes()).hexdigest()


def _check(value: Any) -> None:
    if isinstance(value, dict):
        for name, item in value.items():
            check(isinstance(name, str) and name.isascii(), "name", "ASCII text", repr(name), ValueRangeError)
            _check(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _check(item)
    elif isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ValueRangeError(f"text: expected no lone surrogates, got {value!r}") from error
    else:
        whole = isinstance(value, int) and abs(value) <= _SAFE_INTEGER
        check(whole or value is None, "value", "text or an integer below 2^53", repr(value), ValueRangeError)


def canonical_json(value: Any) -> bytes:
    """UTF-8 bytes of ``value``. Raises ValueRangeError for anything outside the subset; see ``plain``."""
    _check(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def parse_canonical(raw: bytes, what: str, error: type[TqError]) -> Any:
    """Inverse of ``canonical_json``; raises ``error`` unless the bytes are exactly what it would write."""
    try:
        value = json.loads(raw)
        same = canonical_json(value) == raw  # also false for a name that occurs twice
    except (ValueError, RecursionError) as cause:  # ValueRangeError and bad UTF-8 are ValueErrors
        raise error(f"{what}: expected canonical JSON, got {str(cause)[:200]}") from cause
    check(same, what, "canonical JSON", "another spelling of it", error)
    return value


def digest(value: Any) -> str:
    """SHA-256 of the canonical JSON, in hex."""
    return hashlib.sha256(canonical_json(value)).hexdigest()
