"""The bytes of a saved cache: its fixed records, and how many bytes each part takes.

One file, little-endian, every part at the only place where it may be:

    superheader | identity JSON | token ids | stores | layers | page table | pages

The three parts after the superheader are zero-padded to 8 bytes, the pages start at a multiple of 64, and nothing
follows them. There is one spelling of a cache, so what is accepted can be written again byte for byte.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tq_core.cache.fields import Field, Record
from tq_core.cache.identity import CacheIdentity

MAGIC = b"\x89TQKV\r\n\x1a"  # as PNG's: a transfer that changes bytes or line ends is seen in the first eight
BYTE_ORDER = 0x01020304
VERSION = 1
STORES = ("sinks", "packed", "recent")  # token order; every file has all three
PAGE_ALIGN = 64
PART_ALIGN = 8
MAX_IDENTITY = 1 << 16

SUPER = Record(
    "saved cache",
    64,
    (
        Field(0, "bytes8", "magic", "89 54 51 4b 56 0d 0a 1a"),
        Field(8, "u32", "byte_order", "0x01020304; another order of these bytes is a foreign machine's file"),
        Field(12, "u32", "version", f"{VERSION}"),
        Field(16, "u64", "file_bytes", "bytes of the whole file"),
        Field(24, "u32", "identity_bytes", f"bytes of the identity JSON, at most {MAX_IDENTITY}"),
        Field(28, "u32", "n_layers", "layers"),
        Field(32, "u64", "n_tokens", "token ids; the sequence length of every layer"),
        Field(40, "u32", "n_pages", "entries of the page table"),
        Field(44, "u32", "tables_checksum", "CRC-32 of bytes 64 .. pages_at"),
        Field(48, "u64", "pages_at", "offset of the first page"),
        Field(56, "u32", "reserved", "zero"),
        Field(60, "u32", "header_checksum", "CRC-32 of bytes 0..59"),
    ),
)
STORE = Record(
    "store",
    24,
    (
        Field(0, "u32", "page_bytes", "bytes of a page of this store"),
        Field(4, "u32", "page_tokens", "slots of a page"),
        Field(8, "u32", "n_pages", "pages of this store"),
        Field(12, "u32", "reserved", "zero"),
        Field(16, "u64", "pages_at", "offset of the store's first page"),
    ),
)
LAYER = Record(
    "layer",
    32,
    (
        Field(0, "u32", "n_pages", "pages of this layer in this store, in token order"),
        Field(4, "u32", "first", "first live slot"),
        Field(8, "u32", "end", "one past the last live slot"),
        Field(12, "u32", "dropped", "pages that the layer gave back before these"),
        Field(16, "u64", "position", "sequence position of slot 0"),
        Field(24, "u64", "valid", "sequence position of the first slot that was written, live or not"),
    ),
)
ENTRY = Record(
    "page table",
    16,
    (
        Field(0, "u64", "offset", "offset of the page"),
        Field(8, "u32", "nbytes", "bytes of the page"),
        Field(12, "u32", "checksum", "the page's checksum, as its header has it"),
    ),
)


def align(n: int, to: int) -> int:
    """The smallest multiple of ``to`` that is not below n."""
    return -(-n // to) * to


@dataclass(frozen=True)
class Layer:
    """The state of one layer of one store; fields as in ``LAYER``."""

    n_pages: int
    first: int
    end: int
    dropped: int
    position: int
    valid: int

    @property
    def live(self) -> int:
        """Tokens that can be read."""
        return self.end - self.first

    @property
    def start_position(self) -> int:
        """Sequence position of the first live slot."""
        return self.position + self.first

    @property
    def end_position(self) -> int:
        """Sequence position that the next token of this store gets."""
        return self.position + self.end


def sequence_length(sinks: Layer, recent: Layer, n_sinks: int) -> int:
    """Tokens of a layer so far, those that slid away included: its states in two stores, and how many sinks it keeps."""
    return sinks.end if sinks.end < n_sinks else max(n_sinks, recent.end_position)


@dataclass(frozen=True)
class Store:
    """One store: page size, layers, and its pages in layer order, (n_pages, page_bytes) uint8, all sealed."""

    page_bytes: int
    page_tokens: int
    layers: tuple[Layer, ...]
    pages: npt.NDArray[np.uint8]

    def tables(self) -> list[npt.NDArray[np.uint32]]:
        """Block table of every layer into ``pages``."""
        ends = np.cumsum([0] + [layer.n_pages for layer in self.layers])
        return [np.arange(a, b, dtype=np.uint32) for a, b in zip(ends, ends[1:])]


@dataclass(frozen=True)
class Image:
    """A whole saved cache: identity, token ids (n_tokens,) int32, and the three stores in the order of STORES."""

    identity: CacheIdentity
    tokens: npt.NDArray[np.int32]
    stores: tuple[Store, ...]
