"""The header of a safetensors file, with every length, offset and type checked before it is used.

Source: the format description of the safetensors library (its README, "Format"): eight bytes with the header's length,
little endian; the header, a JSON object of tensors by name, padded with spaces; then the tensors' bytes, which must
cover the rest of the file without a gap and without an overlap.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from math import prod
from typing import Any

from tq_core.errors import ModelFileError
from tq_core.model.gguf_header import MAX_EXTENT, MAX_TENSORS, require

LENGTH_BYTES = 8
MAX_HEADER_BYTES = 16 << 20  # a header takes about 150 bytes per tensor
MAX_DIMENSIONS = 8
_METADATA = "__metadata__"
_ELEMENT_BYTES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1, "F8_E8M0": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2,
    "I32": 4, "U32": 4, "F32": 4, "I64": 8, "U64": 8, "F64": 8, "C64": 8,
}  # fmt: skip


@dataclass(frozen=True)
class StoredTensor:
    """One tensor: its type as the format names it, its shape, and its byte range inside the file."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    n_bytes: int


def header_length(head: bytes, file_bytes: int, name: str) -> int:
    """Length of the JSON that follows the first eight bytes. Raises ModelFileError when it does not fit."""
    require(len(head) == LENGTH_BYTES, name, f"a header length of {LENGTH_BYTES} bytes", f"{len(head)} bytes")
    n_bytes = struct.unpack("<Q", head)[0]
    most = min(MAX_HEADER_BYTES, file_bytes - LENGTH_BYTES)
    require(2 <= n_bytes <= most, f"header length of {name}", f"2..{most} bytes", n_bytes)
    return n_bytes


def scan_tensors(header: bytes, file_bytes: int, name: str) -> dict[str, StoredTensor]:
    """Tensors of the file ``name`` of ``file_bytes`` bytes with this JSON header, in file order.

    Raises ModelFileError, naming the field, for anything that the format does not allow or that does not fit.
    """
    entries = _parsed(header, name)
    extra = entries.pop(_METADATA, {})
    ok = isinstance(extra, dict) and all(isinstance(value, str) for value in extra.values())
    require(ok, f"{_METADATA} of {name}", "an object of strings", type(extra).__name__)
    require(1 <= len(entries) <= MAX_TENSORS, f"tensors of {name}", f"1..{MAX_TENSORS}", len(entries))
    base = LENGTH_BYTES + len(header)
    tensors = {key: _tensor(key, entry, base) for key, entry in entries.items()}
    in_order = dict(sorted(tensors.items(), key=lambda item: (item[1].start, item[1].n_bytes)))
    free = base
    for key, tensor in in_order.items():
        require(
            tensor.start == free,
            f"data_offsets of {key[:80]}",
            f"a start at {free - base}",
            tensor.start - base,
        )
        free += tensor.n_bytes
    require(free == file_bytes, f"size of {name}", f"{free} bytes, as its header says", file_bytes)
    return in_order


def _parsed(header: bytes, name: str) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        require(len(made) == len(pairs), f"header of {name}", "each name once", "a name twice")
        return made

    try:
        entries = json.loads(header.decode("utf-8"), object_pairs_hook=once)
    except ModelFileError:
        raise
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"header of {name}: expected JSON, got {str(error)[:80]}") from error
    require(isinstance(entries, dict), f"header of {name}", "a JSON object", type(entries).__name__)
    return entries


def _tensor(key: str, entry: Any, base: int) -> StoredTensor:
    field = key[:80]
    ok = isinstance(entry, dict) and set(entry) == {"dtype", "shape", "data_offsets"}
    require(ok, field, "dtype, shape and data_offsets", f"{entry!r:.80}")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    known = isinstance(dtype, str) and dtype in _ELEMENT_BYTES
    require(known, f"dtype of {field}", f"one of {', '.join(_ELEMENT_BYTES)}", f"{dtype!r:.80}")
    ok = (
        isinstance(shape, list) and len(shape) <= MAX_DIMENSIONS and all(_whole(n, MAX_EXTENT) for n in shape)
    )
    require(ok, f"shape of {field}", f"at most {MAX_DIMENSIONS} extents", f"{shape!r:.80}")
    ok = isinstance(offsets, list) and len(offsets) == 2 and all(_whole(n, 1 << 62) for n in offsets)
    require(ok, f"data_offsets of {field}", "two offsets", f"{offsets!r:.80}")
    n_bytes = _ELEMENT_BYTES[dtype] * prod(shape)
    begin, end = offsets
    require(
        end - begin == n_bytes, f"data_offsets of {field}", f"{n_bytes} bytes of {dtype} {shape}", end - begin
    )
    return StoredTensor(dtype, tuple(shape), base + begin, n_bytes)


def _whole(value: Any, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most
