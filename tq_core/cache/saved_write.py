"""An image of a cache to the bytes of its file."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from tq_core.cache.identity import TOKEN_DTYPE
from tq_core.cache.page import HEADER
from tq_core.cache.saved_format import (
    BYTE_ORDER,
    ENTRY,
    LAYER,
    MAGIC,
    PAGE_ALIGN,
    PART_ALIGN,
    STORE,
    SUPER,
    VERSION,
    Image,
    align,
)
from tq_core.errors import CacheFileError


def _padded(data: bytes, to: int) -> bytes:
    return data.ljust(align(len(data), to), b"\0")


def head_bytes(image: Image) -> bytes:
    """Everything before the first page. Raises CacheFileError for a number that its field cannot hold."""
    identity = image.identity.to_json()
    tokens = image.tokens.astype(TOKEN_DTYPE).tobytes()
    n_pages = sum(len(store.pages) for store in image.stores)
    n_layers = len(image.stores[0].layers)
    parts = _padded(identity, PART_ALIGN) + _padded(tokens, PART_ALIGN)
    records = len(image.stores) * (STORE.nbytes + n_layers * LAYER.nbytes) + n_pages * ENTRY.nbytes
    pages_at = align(SUPER.nbytes + len(parts) + records, PAGE_ALIGN)
    stores, layers, entries, at = b"", b"", b"", pages_at
    for store in image.stores:
        sizes = {
            "page_bytes": store.page_bytes,
            "page_tokens": store.page_tokens,
            "n_pages": len(store.pages),
        }
        stores += STORE.pack({**sizes, "pages_at": at}, CacheFileError)
        layers += b"".join(LAYER.pack(vars(layer), CacheFileError) for layer in store.layers)
        for page in store.pages:
            entry = {"offset": at, "nbytes": store.page_bytes, "checksum": HEADER.get(page, "checksum")}
            entries += ENTRY.pack(entry, CacheFileError)
            at += store.page_bytes
    body = (parts + stores + layers + entries).ljust(pages_at - SUPER.nbytes, b"\0")
    head = SUPER.pack(
        {
            "magic": MAGIC,
            "byte_order": BYTE_ORDER,
            "version": VERSION,
            "file_bytes": at,
            "identity_bytes": len(identity),
            "n_layers": n_layers,
            "n_tokens": len(image.tokens),
            "n_pages": n_pages,
            "tables_checksum": zlib.crc32(body),
            "pages_at": pages_at,
        },
        CacheFileError,
    )[: SUPER.field("header_checksum").offset]
    return head + zlib.crc32(head).to_bytes(4, "little") + body


def chunks(image: Image) -> Iterator[bytes | memoryview]:
    """The file in pieces: what precedes the pages, then every page."""
    yield head_bytes(image)
    for store in image.stores:
        for page in store.pages:
            yield page.data
