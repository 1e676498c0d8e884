"""A small reader of WebAssembly binaries that trusts no length.

Only what the opcode gate needs is decoded: imports, exports, and the byte range of every function
body. Anything else is skipped by its declared size, after that size was checked against the bytes
that are left. Source: WebAssembly core specification, chapter "Binary Format".
"""

from __future__ import annotations

from dataclasses import dataclass

from tq_core.errors import TqError

MAGIC = b"\0asm\x01\0\0\0"
KINDS = ("func", "table", "memory", "global", "tag")
# Section ids in the order in which the format wants them; custom sections (0) may stand anywhere.
SECTION_ORDER = (1, 2, 3, 4, 5, 13, 6, 7, 8, 9, 12, 10, 11)
MAX_LOCALS = 50_000


class WasmFormatError(TqError):
    """The bytes are not a well-formed WebAssembly module of the kind that this reader accepts."""


class Reader:
    """A cursor over ``data[position:end]``; every read checks that the bytes exist."""

    def __init__(self, data: bytes, position: int = 0, end: int | None = None) -> None:
        self.data, self.position = data, position
        self.end = len(data) if end is None else end

    def fail(self, expected: str) -> WasmFormatError:
        return WasmFormatError(f"wasm binary, offset {self.position}: expected {expected}")

    @property
    def left(self) -> int:
        return self.end - self.position

    def take(self, n: int, what: str) -> bytes:
        if n > self.left:
            raise self.fail(f"{n} bytes of {what}, got {self.left}")
        self.position += n
        return self.data[self.position - n : self.position]

    def byte(self, what: str) -> int:
        return self.take(1, what)[0]

    def unsigned(self, what: str, bits: int = 32) -> int:
        """An unsigned LEB128 number of at most ``bits`` bits, unused high bits zero."""
        value = shift = 0
        while True:
            byte = self.byte(what)
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                break
            if shift >= bits:
                raise self.fail(f"{what} in at most {(bits + 6) // 7} LEB128 bytes")
        if value >> bits:
            raise self.fail(f"{what} below 2**{bits}, got {value}")
        return value

    def signed(self, what: str, bits: int) -> int:
        """A signed LEB128 number of at most ``bits`` bits."""
        value = shift = 0
        while True:
            byte = self.byte(what)
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                break
            if shift >= bits:
                raise self.fail(f"{what} in at most {(bits + 6) // 7} LEB128 bytes")
        if byte & 0x40:
            value -= 1 << shift
        if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            raise self.fail(f"{what} in {bits} signed bits, got {value}")
        return value

    def count(self, what: str) -> int:
        """The length of a vector; each entry takes a byte at least, which bounds it."""
        n = self.unsigned(f"number of {what}")
        if n > self.left:
            raise self.fail(f"at most {self.left} {what}, got {n}")
        return n

    def name(self, what: str) -> str:
        try:
            return self.take(self.unsigned(f"length of {what}"), what).decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.fail(f"{what} in UTF-8") from error

    def sub(self, n: int, what: str) -> Reader:
        """A reader of the next ``n`` bytes, which this one steps over."""
        self.take(n, what)
        return Reader(self.data, self.position - n, self.position)


@dataclass(frozen=True)
class Module:
    """``imports``: (module, name, kind); ``exports``: name -> (kind, index); ``bodies``: (start, end) in bytes."""

    imports: tuple[tuple[str, str, str], ...]
    exports: dict[str, tuple[str, int]]
    bodies: tuple[tuple[int, int], ...]

    @property
    def imported_functions(self) -> int:
        return sum(kind == "func" for _, _, kind in self.imports)

    def function_name(self, index: int) -> str:
        """``function 7 (score_keys)``, or the bare index when the function is not exported."""
        names = [name for name, (kind, i) in self.exports.items() if kind == "func" and i == index]
        return f"function {index}" + (f" ({', '.join(names)})" if names else "")


def _limits(reader: Reader) -> None:
    flags = reader.byte("limits flags")
    if flags > 1:  # shared, 64-bit and custom page sizes belong to threads and later proposals
        raise reader.fail(f"plain 32-bit limits (flags 0 or 1), got {flags}")
    for what in ("minimum", "maximum")[: 1 + flags]:
        reader.unsigned(what)


def _import(reader: Reader) -> tuple[str, str, str]:
    module, name = reader.name("import module"), reader.name("import name")
    kind = reader.byte("import kind")
    if kind == 0:
        reader.unsigned("type index")
    elif kind == 1:
        reader.byte("table type")
        _limits(reader)
    elif kind == 2:
        _limits(reader)
    elif kind == 3:
        reader.take(2, "global type")
    else:
        raise reader.fail(f"an import of a function, table, memory or global, got kind {kind}")
    return module, name, KINDS[kind]


def _export(reader: Reader) -> tuple[str, tuple[str, int]]:
    name, kind = reader.name("export name"), reader.byte("export kind")
    if kind >= len(KINDS):
        raise reader.fail(f"an export kind below {len(KINDS)}, got {kind}")
    return name, (KINDS[kind], reader.unsigned("export index"))


def _body(reader: Reader) -> tuple[int, int]:
    body = reader.sub(reader.unsigned("body size"), "function body")
    total = 0
    for _ in range(body.count("local groups")):
        total += body.unsigned("locals of one type")
        body.byte("local type")
        if total > MAX_LOCALS:
            raise body.fail(f"at most {MAX_LOCALS} locals, got {total}")
    return body.position, body.end


def parse(data: bytes) -> Module:
    """Read a module's imports, exports and body ranges.

    Raises WasmFormatError when a length, count, order or encoding is wrong.
    """
    reader = Reader(data)
    if reader.take(len(MAGIC), "magic and version") != MAGIC:
        raise WasmFormatError(f"wasm binary: expected {MAGIC!r} at the start, got {data[:8]!r}")
    imports: list[tuple[str, str, str]] = []
    exports: dict[str, tuple[str, int]] = {}
    bodies: list[tuple[int, int]] = []
    declared, last = 0, -1
    while reader.left:
        section_id = reader.byte("section id")
        section = reader.sub(reader.unsigned("section size"), f"section {section_id}")
        if section_id == 0:
            section.name("custom section name")
            continue
        if section_id not in SECTION_ORDER or SECTION_ORDER.index(section_id) <= last:
            raise section.fail(f"sections 1-13 once each and in order, got {section_id}")
        last = SECTION_ORDER.index(section_id)
        if section_id == 2:
            imports = [_import(section) for _ in range(section.count("imports"))]
        elif section_id == 3:
            declared = section.count("functions")
            for _ in range(declared):
                section.unsigned("type index")
        elif section_id == 5:
            for _ in range(section.count("memories")):
                _limits(section)
        elif section_id == 7:
            entries = [_export(section) for _ in range(section.count("exports"))]
            exports = dict(entries)
            if len(exports) != len(entries):
                raise section.fail("export names that differ")
        elif section_id == 10:
            bodies = [_body(section) for _ in range(section.count("function bodies"))]
        else:
            continue
        if section.left:
            raise section.fail(f"the end of section {section_id}, got {section.left} more bytes")
    if declared != len(bodies):
        raise WasmFormatError(f"wasm binary: expected {declared} function bodies, got {len(bodies)}")
    return Module(tuple(imports), exports, tuple(bodies))
