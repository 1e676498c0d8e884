"""The header of a GGUF file, scanned with a bound on every length.

GGUF stores lengths as 64-bit numbers, and ``gguf.GGUFReader`` follows them as they come: a tampered
count makes it loop or allocate without limit. This scan takes nothing on trust. Each length is
compared with the bytes that are left before it is used, so memory and time stay proportional to
the size of the file, and what does not fit is a ModelFileError that names the field.

Source: the GGUF specification, version 3 (ggml/docs/gguf.md), little endian.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise

from gguf import constants

from tq_core.errors import ModelFileError, check

MAX_KEY_VALUES = 4096
MAX_TENSORS = 1 << 16
MAX_STRING_BYTES = 1 << 20
MAX_NAME_BYTES = (1 << 16) - 1
MAX_DIMENSIONS = 4
MAX_ARRAY_ELEMENTS = 1 << 20
MAX_EXTENT = 1 << 32

Value = int | float | bool | str | list

_ALIGNMENTS = [1 << exponent for exponent in range(21)]
_TYPE = constants.GGUFValueType
_SCALARS = {
    _TYPE.UINT8: struct.Struct("<B"),
    _TYPE.INT8: struct.Struct("<b"),
    _TYPE.UINT16: struct.Struct("<H"),
    _TYPE.INT16: struct.Struct("<h"),
    _TYPE.UINT32: struct.Struct("<I"),
    _TYPE.INT32: struct.Struct("<i"),
    _TYPE.FLOAT32: struct.Struct("<f"),
    _TYPE.BOOL: struct.Struct("<?"),
    _TYPE.UINT64: struct.Struct("<Q"),
    _TYPE.INT64: struct.Struct("<q"),
    _TYPE.FLOAT64: struct.Struct("<d"),
}
_U32, _U64 = _SCALARS[_TYPE.UINT32], _SCALARS[_TYPE.UINT64]


def require(ok: bool, field: str, expected: str, got: object) -> None:
    """Raise ModelFileError unless ``ok``."""
    check(ok, field, expected, got, ModelFileError)


@dataclass(frozen=True)
class TensorInfo:
    """One tensor: ``shape`` in numpy order (slowest axis first), byte range inside the file."""

    name: str
    shape: tuple[int, ...]
    type_name: str
    start: int
    n_bytes: int


@dataclass(frozen=True)
class GgufHeader:
    """Metadata by key and tensors by name, in file order."""

    version: int
    metadata: dict[str, Value]
    tensors: dict[str, TensorInfo]


class _Cursor:
    """Reads forward through the file and never past its end."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    @property
    def left(self) -> int:
        return len(self.data) - self.position

    def advance(self, n_bytes: int, field: str) -> int:
        """Return the position before n_bytes that are known to be there."""
        if n_bytes > self.left:
            raise ModelFileError(
                f"{field}: expected {n_bytes} bytes at offset {self.position}, "
                f"got {self.left} before the end of the file"
            )
        start = self.position
        self.position = start + n_bytes
        return start

    def unpack(self, kind: struct.Struct, field: str):
        return kind.unpack_from(self.data, self.advance(kind.size, field))[0]

    def string(self, field: str, limit: int = MAX_STRING_BYTES) -> str:
        n_bytes = self.unpack(_U64, f"length of {field}")
        require(n_bytes <= limit, f"length of {field}", f"at most {limit} bytes", n_bytes)
        start = self.advance(n_bytes, field)
        raw = self.data[start : start + n_bytes]
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            raise ModelFileError(f"{field}: expected UTF-8 text, got {raw[:32]!r}") from None


def _value_type(cursor: _Cursor, field: str) -> constants.GGUFValueType:
    raw = cursor.unpack(_U32, f"type of {field}")
    try:
        return _TYPE(raw)
    except ValueError:
        raise ModelFileError(f"type of {field}: expected a GGUF value type, got {raw}") from None


def _array(cursor: _Cursor, field: str) -> list:
    element = _value_type(cursor, f"elements of {field}")
    count = cursor.unpack(_U64, f"count of {field}")
    # Python objects are larger than the bytes they come from, so the file's size alone is no bound.
    limit = MAX_ARRAY_ELEMENTS
    require(count <= limit, f"count of {field}", f"at most {limit}", count)
    if element is _TYPE.STRING:
        return [cursor.string(field) for _ in range(count)]
    if element not in _SCALARS:
        raise ModelFileError(f"elements of {field}: expected scalars or strings, got {element.name}")
    kind = _SCALARS[element]
    start = cursor.advance(count * kind.size, field)
    return list(struct.unpack_from(f"<{count}{kind.format[1:]}", cursor.data, start))


def _key_value(cursor: _Cursor) -> tuple[str, Value]:
    key = cursor.string("metadata key", MAX_NAME_BYTES)
    value_type = _value_type(cursor, key)
    if value_type is _TYPE.STRING:
        return key, cursor.string(key)
    if value_type is _TYPE.ARRAY:
        return key, _array(cursor, key)
    return key, cursor.unpack(_SCALARS[value_type], key)


def _tensor_info(cursor: _Cursor) -> TensorInfo:
    name = cursor.string("tensor name", MAX_NAME_BYTES)
    n_dims = cursor.unpack(_U32, f"dimensions of {name}")
    require(1 <= n_dims <= MAX_DIMENSIONS, f"dimensions of {name}", f"1..{MAX_DIMENSIONS}", n_dims)
    extents = [cursor.unpack(_U64, f"shape of {name}") for _ in range(n_dims)]
    require(all(1 <= n <= MAX_EXTENT for n in extents), f"shape of {name}", "positive extents", extents)
    raw_type = cursor.unpack(_U32, f"type of {name}")
    try:
        tensor_type = constants.GGMLQuantizationType(raw_type)
        block, block_bytes = constants.GGML_QUANT_SIZES[tensor_type]
    except (ValueError, KeyError):
        raise ModelFileError(f"type of {name}: expected a GGML type, got {raw_type}") from None
    require(
        extents[0] % block == 0,
        f"shape of {name}",
        f"rows of a multiple of {block} for {tensor_type.name}",
        extents[0],
    )
    n_bytes = block_bytes
    for extent in (extents[0] // block, *extents[1:]):
        n_bytes *= extent
    offset = cursor.unpack(_U64, f"offset of {name}")
    return TensorInfo(name, tuple(reversed(extents)), tensor_type.name, offset, n_bytes)


def _place(infos: list[TensorInfo], cursor: _Cursor, metadata: dict[str, Value]) -> dict[str, TensorInfo]:
    """Turn offsets inside the data section into byte ranges of the file, checked against its size."""
    alignment = metadata.get("general.alignment", constants.GGUF_DEFAULT_ALIGNMENT)
    if not isinstance(alignment, int) or alignment not in _ALIGNMENTS:
        raise ModelFileError(f"general.alignment: expected a power of two up to 2**20, got {alignment!r}")
    data_start = -(-cursor.position // alignment) * alignment
    tensors: dict[str, TensorInfo] = {}
    for info in infos:
        require(info.name not in tensors, "tensor name", "each name once", info.name)
        require(
            info.start % alignment == 0, f"offset of {info.name}", f"a multiple of {alignment}", info.start
        )
        start = data_start + info.start
        require(
            start + info.n_bytes <= len(cursor.data),
            f"data of {info.name}",
            f"{info.n_bytes} bytes from {start} on",
            f"a file of {len(cursor.data)} bytes",
        )
        tensors[info.name] = TensorInfo(info.name, info.shape, info.type_name, start, info.n_bytes)
    in_order = sorted(tensors.values(), key=lambda info: info.start)
    for before, after in pairwise(in_order):
        free = before.start + before.n_bytes
        require(after.start >= free, f"offset of {after.name}", f"{free} or more", after.start)
    return tensors


def _opening(cursor: _Cursor) -> tuple[int, int, dict[str, Value]]:
    """(version, tensor count, metadata): everything before the tensors."""
    magic = cursor.unpack(_U32, "GGUF magic")
    require(magic == constants.GGUF_MAGIC, "GGUF magic", f"{constants.GGUF_MAGIC:#x}", f"{magic:#x}")
    version = cursor.unpack(_U32, "GGUF version")
    require(version in (2, constants.GGUF_VERSION), "GGUF version", f"2 or {constants.GGUF_VERSION}", version)
    n_tensors = cursor.unpack(_U64, "tensor count")
    require(n_tensors <= MAX_TENSORS, "tensor count", f"at most {MAX_TENSORS}", n_tensors)
    n_key_values = cursor.unpack(_U64, "metadata count")
    require(n_key_values <= MAX_KEY_VALUES, "metadata count", f"at most {MAX_KEY_VALUES}", n_key_values)
    metadata: dict[str, Value] = {}
    for _ in range(n_key_values):
        key, value = _key_value(cursor)
        require(key not in metadata, "metadata key", "each key once", key)
        metadata[key] = value
    return version, n_tensors, metadata


def scan_metadata(head: bytes) -> dict[str, Value]:
    """Metadata of a GGUF file of any size, from its first bytes.

    Raises ModelFileError, naming the field, when it is not what the format allows or does not end within ``head``.
    """
    return _opening(_Cursor(head))[2]


def scan_header(data: bytes) -> GgufHeader:
    """Scan the header of the GGUF file whose whole content is ``data``.

    Raises ModelFileError, naming the field, when anything in it is not what the format allows or
    does not fit into the file.
    """
    cursor = _Cursor(data)
    version, n_tensors, metadata = _opening(cursor)
    infos = [_tensor_info(cursor) for _ in range(n_tensors)]
    return GgufHeader(version, metadata, _place(infos, cursor, metadata))
