"""Fixed-size records of little-endian fields: one table per record says where a field is and what it means.

Packing, parsing, limits and the tables of ``cpp/FORMAT.md`` all come from the same list of fields.
"""

from __future__ import annotations

import numbers
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tq_core.errors import TqError, ValueRangeError, check

_CODES = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q"}


@dataclass(frozen=True)
class Field:
    """One field: byte offset, type (u8, u16, u32, u64, or bytesN) and meaning."""

    offset: int
    type: str
    name: str
    meaning: str

    @cached_property
    def code(self) -> str:
        """The field in struct's notation."""
        return _CODES.get(self.type) or f"{int(self.type.removeprefix('bytes'))}s"

    @cached_property
    def nbytes(self) -> int:
        """Bytes of the field."""
        return struct.calcsize("<" + self.code)

    @cached_property
    def limit(self) -> int:
        """Largest integer that the field holds; 0 for bytes."""
        return 2 ** (8 * self.nbytes) - 1 if self.type in _CODES else 0


class Record:
    """Fields without gaps from byte 0 to ``nbytes``; raises ValueRangeError when the table leaves one or overlaps."""

    def __init__(self, title: str, nbytes: int, fields: tuple[Field, ...]) -> None:
        self.title, self.nbytes, self.fields = title, nbytes, fields
        at = 0
        for field in fields:
            check(field.offset == at, f"{title} {field.name}", f"offset {at}", field.offset, ValueRangeError)
            at += field.nbytes
        check(at == nbytes, title, f"{nbytes} bytes", at, ValueRangeError)
        self._struct = struct.Struct("<" + "".join(field.code for field in fields))
        self._by_name = {field.name: field for field in fields}
        self._codes = {field.name: struct.Struct("<" + field.code) for field in fields}

    def field(self, name: str) -> Field:
        """The field called ``name``."""
        return self._by_name[name]

    def check(self, name: str, value: Any, error: type[TqError] = ValueRangeError) -> None:
        """Raise ``error`` unless the field can hold the value."""
        field = self._by_name[name]
        if field.limit == 0:
            ok = isinstance(value, bytes) and len(value) == field.nbytes
            check(ok, f"{self.title} {name}", f"{field.nbytes} bytes", repr(value), error)
            return
        whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
        ok = whole and 0 <= value <= field.limit
        check(ok, f"{self.title} {name}", f"0..{field.limit}", repr(value), error)

    def pack(self, values: Mapping[str, Any], error: type[TqError] = ValueRangeError) -> bytes:
        """The record's bytes; fields that ``values`` lacks are zero. Raises ``error`` for a value out of range."""
        row = []
        for field in self.fields:
            value = values.get(field.name, 0 if field.limit else bytes(field.nbytes))
            self.check(field.name, value, error)
            row.append(value)
        return self._struct.pack(*row)

    def unpack(self, buffer: Any, at: int = 0) -> dict[str, Any]:
        """Every field by name, from byte ``at`` of a buffer that the caller has checked to be long enough."""
        return dict(zip(self._by_name, self._struct.unpack_from(buffer, at)))

    def get(self, buffer: Any, name: str, at: int = 0) -> Any:
        """One field of the record at byte ``at``."""
        return self._codes[name].unpack_from(buffer, at + self._by_name[name].offset)[0]

    def put(self, buffer: Any, name: str, value: Any, at: int = 0) -> None:
        """Overwrite one field of the record at byte ``at`` of a writable buffer."""
        self._codes[name].pack_into(buffer, at + self._by_name[name].offset, value)

    def markdown(self) -> str:
        """The table as Markdown."""
        rows = [f"| {f.offset} | {f.nbytes} | {f.type} | `{f.name}` | {f.meaning} |" for f in self.fields]
        return "\n".join(["| Offset | Bytes | Type | Field | Meaning |", "|---|---|---|---|---|", *rows])
