"""Damage that knows the format: fields are found by their records, and checksums can be made to fit again.

A reader that only compares checksums would survive random bytes; these reach the checks behind them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tq_core.cache.fields import Record
from tq_core.cache.identity import TOKEN_DTYPE
from tq_core.cache.page import HEADER, PageFlags, checksum
from tq_core.cache.saved_format import ENTRY, LAYER, PART_ALIGN, STORE, STORES, SUPER, align


@dataclass(frozen=True)
class Place:
    """A record of the file and where it lies."""

    record: Record
    at: int


def places(raw: bytes | bytearray) -> Iterator[Place]:
    """Every record that the file's own numbers lead to, as far as the bytes go; nothing is believed beyond that."""
    size = len(raw)
    if size < SUPER.nbytes:
        return
    yield Place(SUPER, 0)
    top = SUPER.unpack(raw)
    at = SUPER.nbytes + align(top["identity_bytes"], PART_ALIGN)
    at += align(top["n_tokens"] * TOKEN_DTYPE.itemsize, PART_ALIGN)
    counts = ((STORE, len(STORES)), (LAYER, len(STORES) * top["n_layers"]), (ENTRY, top["n_pages"]))
    for record, count in counts:
        for _ in range(min(count, size // record.nbytes)):
            if at + record.nbytes > size:
                return
            yield Place(record, at)
            if record is ENTRY:
                page = ENTRY.get(raw, "offset", at)
                if page + HEADER.nbytes <= size:
                    yield Place(HEADER, page)
            at += record.nbytes


def repair(raw: bytearray) -> None:
    """Make every checksum fit the bytes as they are: pages, their entries, tables, superheader."""
    data = np.frombuffer(raw, np.uint8)
    found = list(places(raw))
    for place in found:
        if place.record is not ENTRY:
            continue
        entry = ENTRY.unpack(raw, place.at)
        page = data[entry["offset"] : entry["offset"] + entry["nbytes"]]
        if (
            page.size == entry["nbytes"]
            and page.size >= HEADER.nbytes
            and HEADER.get(page, "flags") & PageFlags.SEALED
        ):
            HEADER.put(raw, "checksum", checksum(page), entry["offset"])
            ENTRY.put(raw, "checksum", checksum(page), place.at)
    if found:
        end = SUPER.get(raw, "pages_at")
        SUPER.put(raw, "tables_checksum", zlib.crc32(bytes(raw[SUPER.nbytes : max(end, SUPER.nbytes)])))
        SUPER.put(raw, "header_checksum", zlib.crc32(bytes(raw[: SUPER.field("header_checksum").offset])))
