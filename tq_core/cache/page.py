"""The 64-byte header at the start of every page, its checksum, and what a page must say to be believed.

``HEADER`` is the only description of the bytes; ``cpp/FORMAT.md`` shows it together with the streams that follow.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from enum import IntFlag
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_core.cache.fields import Field, Record
from tq_core.errors import CodecError, PageError, ShapeError, check
from tq_core.kernels.layout import HEAD_ALIGN, HEADER_BYTES, PageLayout
from tq_core.shapes import ModelShape, check_head_dim

MAGIC = b"TQPG"
VERSION = 1
# Numbers in stored pages: an entry is never changed or reused. 0 is left out, so that a zeroed page names no codec.
CODEC_IDS = {"fp16": 1, "structured-turboquant": 2, "kivi": 3, "pair-turboquant": 4, "shaped-turboquant": 5}
CODEC_IDS |= {"int8": 32, "q8_0": 33, "q4_0": 34, "fp8": 35, "flexgen": 36, "quarot": 37, "spinquant": 38}
CODEC_IDS |= {"qserve": 39, "kvquant": 40, "offset": 41, "value-offset": 42}
# Methods that rotate or sketch.
CODEC_IDS |= {
    "structured-turboquant-two-rounds": 64, "turboquant-mse": 65, "turboquant-prod": 66, "eden": 67, "eden-exact": 68,
    "rabitq": 69, "qjl": 70, "polarquant": 71, "turbovec": 72, "vllm-turboquant": 73, "aither-hybrid": 74,
}  # fmt: skip
# The same methods in the kernels' layout; pages of 65, 66, 69, 70 and 71 had rows.
CODEC_IDS |= {
    "turboquant-mse-tiles": 75, "turboquant-prod-tiles": 76, "rabitq-tiles": 77, "qjl-tiles": 78, "polarquant-lanes": 79,
    "drive": 80,
}  # fmt: skip
# Options of the rotating methods.
CODEC_IDS |= {"sidecar": 96, "lognorm": 97, "plane": 98}
_NAMES = {number: name for name, number in CODEC_IDS.items()}


class PageFlags(IntFlag):
    """Bits of the header's ``flags``."""

    HALF_ROWS = 1
    SEALED = 2
    KEY_SIDECAR = 4
    VALUE_SIDECAR = 8
    KEY_RESIDUAL = 16
    VALUE_RESIDUAL = 32
    KEY_CENTRE = 64


FLAG_MEANINGS = {
    PageFlags.HALF_ROWS: "keys and values are float16 rows: recent window, sink tokens, uncompressed arm",
    PageFlags.SEALED: "the checksum is valid",
    PageFlags.KEY_SIDECAR: "an outlier stream lies beside the key codes",
    PageFlags.VALUE_SIDECAR: "an outlier stream lies beside the value codes",
    PageFlags.KEY_RESIDUAL: "a residual or sketch stream lies beside the key codes",
    PageFlags.VALUE_RESIDUAL: "a residual or sketch stream lies beside the value codes",
    PageFlags.KEY_CENTRE: "a vector that every key of the page is stored without lies beside the key codes",
}
_NO_FLAGS = PageFlags(0)
_KNOWN_FLAGS = int(sum(FLAG_MEANINGS))

HEADER = Record(
    "page",
    HEADER_BYTES,
    (
        Field(0, "bytes4", "magic", 'ASCII "TQPG"'),
        Field(4, "u16", "version", f"{VERSION}"),
        Field(6, "u16", "flags", "bits, see below"),
        Field(8, "u64", "first_position", "sequence position of slot 0"),
        Field(16, "u32", "index", "pages that the layer opened in this store before this one"),
        Field(20, "u16", "layer", "layer, from 0"),
        Field(22, "u16", "used", "tokens held, in slots 0..used-1"),
        Field(24, "u16", "page_tokens", "slots of the page"),
        Field(26, "u16", "n_query_heads", "query heads of the layer; a multiple of n_kv_heads"),
        Field(28, "u16", "n_kv_heads", "KV heads, one head block each"),
        Field(30, "u16", "head_dim", "channels of a key or value vector"),
        Field(32, "u8", "key_codec", "codec of the keys, see below"),
        Field(33, "u8", "value_codec", "codec of the values"),
        Field(34, "u16", "key_code_bits", "code bits of one key vector, scales not counted"),
        Field(36, "u16", "value_code_bits", "code bits of one value vector"),
        Field(38, "u16", "reserved_a", "zero"),
        Field(40, "u32", "head_bytes", "bytes of one head block; the page has 64 + n_kv_heads * head_bytes"),
        Field(44, "u32", "checksum", "CRC-32 of the page without this field while SEALED, else zero"),
        Field(48, "bytes8", "arm_digest", "first 8 bytes of the arm's SHA-256"),
        Field(56, "u64", "reserved_b", "zero"),
    ),
)
_CHECKSUM = HEADER.field("checksum").offset


@dataclass(frozen=True)
class PageHeader:
    """What a page says of itself; codecs by name, key_bits and value_bits per channel, without scales."""

    index: int
    layer: int
    used: int
    page_tokens: int
    first_position: int
    n_query_heads: int
    n_kv_heads: int
    head_dim: int
    key_codec: str
    value_codec: str
    key_bits: float
    value_bits: float
    head_bytes: int
    arm_digest: bytes
    flags: PageFlags = _NO_FLAGS
    checksum: int = 0

    @property
    def page_bytes(self) -> int:
        """Bytes of the whole page."""
        return HEADER_BYTES + self.n_kv_heads * self.head_bytes

    def pack(self) -> bytes:
        """The header as 64 bytes. Raises PageError for a number that its field cannot hold."""
        values: dict[str, Any] = {**vars(self), "magic": MAGIC, "version": VERSION, "flags": int(self.flags)}
        for side in ("key", "value"):
            values[f"{side}_codec"] = codec_id(values[f"{side}_codec"])
            values[f"{side}_code_bits"] = round(self.head_dim * values[f"{side}_bits"])
        return HEADER.pack(values, PageError)


def codec_id(name: str) -> int:
    """The number that stands for a codec in stored pages. Raises CodecError for a codec that has none."""
    check(
        name in CODEC_IDS,
        "codec",
        f"one with a number in CODEC_IDS ({', '.join(CODEC_IDS)})",
        name,
        CodecError,
    )
    return CODEC_IDS[name]


def header_of(shape: ModelShape, layout: PageLayout, keys: Any, values: Any, arm_digest: str) -> PageHeader:
    """The header of an empty page of layer 0 at position 0, for two codecs that share ``layout``.

    Raises CodecError for a codec without a number, PageError for a shape beyond what the fields hold.
    """
    flags = _NO_FLAGS
    for stream, _ in layout.streams:
        side = "KEY" if stream.startswith("key") else "VALUE"
        if "outlier" in stream:
            flags |= PageFlags[f"{side}_SIDECAR"]
        if stream == "key_centres":
            flags |= PageFlags.KEY_CENTRE
        if "residual" in stream or "sketch" in stream:
            flags |= PageFlags[f"{side}_RESIDUAL"]
    if keys.name == values.name == "fp16":
        flags |= PageFlags.HALF_ROWS
    HEADER.check("layer", shape.n_layers - 1, PageError)
    header = PageHeader(
        index=0,
        layer=0,
        used=0,
        page_tokens=layout.page_tokens,
        first_position=0,
        n_query_heads=shape.n_query_heads,
        n_kv_heads=shape.n_kv_heads,
        head_dim=shape.head_dim,
        key_codec=keys.name,
        value_codec=values.name,
        key_bits=keys.nominal_bits(shape.head_dim),
        value_bits=values.nominal_bits(shape.head_dim),
        head_bytes=layout.head_bytes,
        arm_digest=bytes.fromhex(arm_digest)[:8],
        flags=flags,
    )
    header.pack()
    return header


def read_header(page: npt.NDArray[np.uint8]) -> PageHeader:
    """Parse a page's header.

    Raises PageError naming the field when it is short, of another kind or version, or contradicts itself.
    The checksum is not compared: that takes the whole page, see ``verify_page``.
    """
    check(page.size >= HEADER_BYTES, "page", f"at least {HEADER_BYTES} bytes", page.size, PageError)
    raw = HEADER.unpack(page[:HEADER_BYTES].tobytes())

    def need(field: str, ok: bool, expected: str) -> None:
        check(ok, f"page {field}", expected, repr(raw[field]), PageError)

    need("magic", raw["magic"] == MAGIC, repr(MAGIC))
    need("version", raw["version"] == VERSION, str(VERSION))
    for name in ("reserved_a", "reserved_b"):
        need(name, raw[name] == 0, "0")
    need("flags", raw["flags"] & ~_KNOWN_FLAGS == 0, f"bits of {_KNOWN_FLAGS:#x} alone")
    flags = PageFlags(raw["flags"])
    need("page_tokens", raw["page_tokens"] > 0, "1 or more")
    need("used", raw["used"] <= raw["page_tokens"], f"at most {raw['page_tokens']}")
    dim, heads = raw["head_dim"], raw["n_kv_heads"]
    try:
        check_head_dim(dim)
    except ShapeError as error:
        raise PageError(f"page {error}") from error
    need("n_kv_heads", heads > 0, "1 or more")
    need(
        "n_query_heads",
        raw["n_query_heads"] > 0 and raw["n_query_heads"] % heads == 0,
        f"a multiple of {heads}",
    )
    need(
        "head_bytes",
        raw["head_bytes"] > 0 and raw["head_bytes"] % HEAD_ALIGN == 0,
        f"a multiple of {HEAD_ALIGN}",
    )
    for side in ("key", "value"):
        need(f"{side}_codec", raw[f"{side}_codec"] in _NAMES, f"one of {sorted(_NAMES)}")
        need(f"{side}_code_bits", 0 < raw[f"{side}_code_bits"] <= 16 * dim, f"1..{16 * dim}")
    half = raw["key_codec"] == raw["value_codec"] == CODEC_IDS["fp16"]
    need("flags", bool(flags & PageFlags.HALF_ROWS) == half, "HALF_ROWS just where both codecs are fp16")
    need("checksum", bool(flags & PageFlags.SEALED) or raw["checksum"] == 0, "0 without SEALED")
    kept = {name: raw[name] for name in PageHeader.__dataclass_fields__ if name in raw}
    kept |= {"flags": flags, "key_codec": _NAMES[raw["key_codec"]], "value_codec": _NAMES[raw["value_codec"]]}
    return PageHeader(**kept, key_bits=raw["key_code_bits"] / dim, value_bits=raw["value_code_bits"] / dim)


def verify_page(page: npt.NDArray[np.uint8]) -> PageHeader:
    """Parse a whole page and compare its checksum. Raises PageError also when its size is not what it says."""
    header = read_header(page)
    check(page.size == header.page_bytes, "page", f"{header.page_bytes} bytes", page.size, PageError)
    if header.flags & PageFlags.SEALED:
        real = checksum(page)
        check(
            real == header.checksum, "page checksum", f"{header.checksum:#010x}", f"{real:#010x}", PageError
        )
    return header


def checksum(page: npt.NDArray[np.uint8]) -> int:
    """CRC-32 (zlib's) of a page's bytes, its checksum field left out."""
    return zlib.crc32(page[_CHECKSUM + 4 :].data, zlib.crc32(page[:_CHECKSUM].data))


def seal(page: npt.NDArray[np.uint8]) -> None:
    """Mark a page as complete: set SEALED and write the checksum."""
    HEADER.put(page, "flags", HEADER.get(page, "flags") | PageFlags.SEALED)
    HEADER.put(page, "checksum", checksum(page))


def write_used(page: npt.NDArray[np.uint8], used: int) -> None:
    """Update the count of tokens used, after their codes are written.

    A page that becomes full is sealed; one that is not full any more (or gets more tokens) is not.
    """
    HEADER.put(page, "used", used)
    if used == HEADER.get(page, "page_tokens"):
        seal(page)
        return
    # Both without looking: an interrupt may have left one of them behind, and this is what mends the page.
    HEADER.put(page, "flags", HEADER.get(page, "flags") & ~PageFlags.SEALED)
    HEADER.put(page, "checksum", 0)
