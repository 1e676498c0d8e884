"""The 64-byte header at the start of every page, as bytes.

Little-endian: magic, version, layer, index (pages that the layer opened before this one), tokens used, tokens per
page, first position, KV heads, head_dim, code bits of a key vector and of a value vector, first 8 bytes of the
arm's digest; zeros to 64.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tq_core.errors import PageError, check
from tq_core.kernels.layout import HEADER_BYTES

MAGIC = b"TQPG"
VERSION = 1
_FORMAT = struct.Struct("<4sHHIHHQHHHH8s")
_USED = struct.calcsize("<4sHHI")  # offset of `used`


@dataclass(frozen=True)
class PageHeader:
    """What a page says of itself; key_bits and value_bits are per channel, without scales."""

    index: int
    layer: int
    used: int
    page_tokens: int
    first_position: int
    n_kv_heads: int
    head_dim: int
    key_bits: float
    value_bits: float
    arm_digest: bytes

    def pack(self) -> bytes:
        """The header as 64 bytes."""
        bits = (round(self.head_dim * self.key_bits), round(self.head_dim * self.value_bits))
        fixed = (MAGIC, VERSION, self.layer, self.index, self.used, self.page_tokens, self.first_position)
        return _FORMAT.pack(*fixed, self.n_kv_heads, self.head_dim, *bits, self.arm_digest).ljust(
            HEADER_BYTES, b"\0"
        )


def read_header(page: npt.NDArray[np.uint8]) -> PageHeader:
    """Parse a page's header. Raises PageError when it is short, of another kind or of another version."""
    check(page.size >= HEADER_BYTES, "page", f"at least {HEADER_BYTES} bytes", page.size, PageError)
    raw = page[:HEADER_BYTES].tobytes()
    magic, version, layer, index, used, tokens, first, heads, dim, kb, vb, digest = _FORMAT.unpack(
        raw[: _FORMAT.size]
    )
    check(magic == MAGIC, "page magic", repr(MAGIC), repr(magic), PageError)
    check(version == VERSION, "page version", str(VERSION), version, PageError)
    check(used <= tokens, "page tokens used", f"at most {tokens}", used, PageError)
    check(dim > 0, "page head_dim", "a positive number", dim, PageError)
    return PageHeader(index, layer, used, tokens, first, heads, dim, kb / dim, vb / dim, digest)


def write_used(page: npt.NDArray[np.uint8], used: int) -> None:
    """Update the count of tokens used in a page's header."""
    page[_USED : _USED + 2] = (used & 255, used >> 8)
