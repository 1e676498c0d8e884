"""Files that are damaged, foreign or lie about themselves, each refused with its reason."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tq_core.cache.canonical import canonical_json
from tq_core.cache.page import HEADER
from tq_core.cache.saved import image_of, load_cache, open_saved
from tq_core.cache.saved_format import ENTRY, LAYER, STORE, SUPER
from tq_core.cache.saved_read import parse
from tq_core.cache.saved_write import chunks
from tq_core.errors import CacheFileError, IdentityMismatch, PageError, TqError
from tq_core.kernels.backend import NumpyBackend
from tq_core.tests.cache.savings import filled
from validation.fuzz.forge import places, repair

CACHE, IDENTITY, IDS = filled("structured-turbo", 60)
GOOD = b"".join(chunks(image_of(CACHE, IDENTITY, IDS)))
Forge = Callable[[bytearray], None]


def read(raw: bytes) -> object:
    return parse(np.frombuffer(raw, np.uint8))


def at(record: object, n: int = 0) -> int:
    """Offset of the n-th record of a kind in the good file."""
    return [place.at for place in places(GOOD) if place.record is record][n]


def field(record, name: str, value: object, n: int = 0) -> Forge:
    return lambda raw: record.put(raw, name, value, at(record, n))


def add(record, name: str, value: int, n: int = 0) -> Forge:
    return lambda raw: record.put(raw, name, record.get(raw, name, at(record, n)) + value, at(record, n))


def flip(position: int) -> Forge:
    def forge(raw: bytearray) -> None:
        raw[position] ^= 0x10

    return forge


def swap_bytes_of_every_word(raw: bytearray) -> None:
    for place in places(GOOD):
        for f in place.record.fields:
            if f.limit:
                start = place.at + f.offset
                raw[start : start + f.nbytes] = raw[start : start + f.nbytes][::-1]


IDENTITY_AT, IDENTITY_SIZE = SUPER.nbytes, SUPER.get(GOOD, "identity_bytes")
TOKENS_AT = at(STORE) - 4 * len(IDS)
PAGES = SUPER.get(GOOD, "pages_at")


def another_identity(**changes: object) -> Forge:
    """Replace values of the same length inside the identity JSON."""

    def forge(raw: bytearray) -> None:
        stored = json.loads(bytes(raw[IDENTITY_AT : IDENTITY_AT + IDENTITY_SIZE]))
        text = canonical_json(stored | changes)
        assert len(text) == IDENTITY_SIZE
        raw[IDENTITY_AT : IDENTITY_AT + IDENTITY_SIZE] = text

    return forge


# name: (what is done, whether checksums are made to fit again, what the refusal says)
FORGERIES: dict[str, tuple[Forge, bool, str]] = {
    "magic": (field(SUPER, "magic", b"\x89TQKV\n\x1a\x00"), True, "saved cache magic"),
    "foreign-endian": (swap_bytes_of_every_word, False, "saved cache byte order: expected little-endian.*big-endian"),
    "unknown byte order": (field(SUPER, "byte_order", 0x02010403), True, "saved cache byte order"),
    "other version": (field(SUPER, "version", 2), True, "saved cache version: expected 1, got 2"),
    "superheader damaged": (flip(40), False, "saved cache header checksum"),
    "reserved": (field(SUPER, "reserved", 1), True, "saved cache reserved"),
    "file too long by its own word": (add(SUPER, "file_bytes", 64), True, "a truncated file"),
    "file too short by its own word": (add(SUPER, "file_bytes", -64), True, "trailing bytes"),
    "file_bytes overflows": (field(SUPER, "file_bytes", 2**64 - 1), True, "a truncated file"),
    "identity_bytes overflows": (field(SUPER, "identity_bytes", 2**32 - 1), True, "saved cache identity_bytes"),
    "identity_bytes zero": (field(SUPER, "identity_bytes", 0), True, "saved cache identity_bytes"),
    "identity_bytes moved": (add(SUPER, "identity_bytes", -1), True, "identity"),
    "n_tokens overflows": (field(SUPER, "n_tokens", 2**63), True, "saved cache pages_at"),
    "n_tokens moved": (add(SUPER, "n_tokens", 1), True, "saved cache|identity|context_tokens"),
    "n_layers overflows": (field(SUPER, "n_layers", 2**32 - 1), True, "saved cache pages_at"),
    "n_pages overflows": (field(SUPER, "n_pages", 2**32 - 1), True, "saved cache pages_at"),
    "pages_at overflows": (field(SUPER, "pages_at", 2**64 - 64), True, "saved cache pages_at"),
    "tables damaged": (flip(at(LAYER)), False, "saved cache tables checksum"),
    "identity damaged": (flip(IDENTITY_AT + 30), False, "saved cache tables checksum"),
    "identity not JSON": (flip(IDENTITY_AT), True, "identity: expected canonical JSON"),
    "identity in another spelling": (flip(IDENTITY_AT + IDENTITY_SIZE - 1), True, "identity: expected canonical JSON"),
    "identity of other layers": (another_identity(n_layers=3), True, "saved cache n_layers: expected 3"),
    "identity of another head_dim": (another_identity(head_dim=64), True, "head_dim: expected 64, got 48"),
    "identity of another arm": (another_identity(arm_digest="ab" * 32), True, "arm: expected abababababababab"),
    "another token": (flip(TOKENS_AT), True, "context_tokens: expected .*, got tokens of digest"),
    "negative token": (flip(TOKENS_AT + 3), True, "context_tokens|tokens"),
    "store reserved": (field(STORE, "reserved", 1, 1), True, "packed reserved"),
    "store page_bytes odd": (add(STORE, "page_bytes", 8, 1), True, "packed page_bytes"),
    "store page_bytes overflows": (field(STORE, "page_bytes", 2**32 - 64, 1), True, "packed pages"),
    "store page_tokens zero": (field(STORE, "page_tokens", 0, 2), True, "recent page_tokens"),
    "store n_pages too many": (field(STORE, "n_pages", 2**32 - 1, 0), True, "sinks n_pages"),
    "overlapping stores": (add(STORE, "pages_at", -64, 1), True, "overlapping pages"),
    "gap between stores": (add(STORE, "pages_at", 64, 1), True, "a gap"),
    "overlapping pages": (lambda raw: ENTRY.put(raw, "offset", ENTRY.get(raw, "offset", at(ENTRY)), at(ENTRY, 1)), False, "tables checksum"),
    "overlapping pages, checksums fitted": (lambda raw: ENTRY.put(raw, "offset", ENTRY.get(raw, "offset", at(ENTRY)), at(ENTRY, 1)), True, "overlapping pages"),
    "gap between pages": (add(ENTRY, "offset", 64, 1), True, "a gap"),
    "entry beyond the file": (field(ENTRY, "offset", 2**64 - 64, 1), True, "a gap"),
    "entry size": (add(ENTRY, "nbytes", 64, 1), True, "nbytes: expected"),
    "entry checksum": (add(ENTRY, "checksum", 1, 1), False, "tables checksum"),
    "layer first beyond end": (field(LAYER, "first", 2**32 - 1, 2), True, "first: expected at most"),
    "layer end longer": (add(LAYER, "end", 1, 2), True, "used: expected"),
    "layer end overflows": (field(LAYER, "end", 2**32 - 1, 2), True, "n_pages: expected"),
    "layer n_pages": (add(LAYER, "n_pages", 1, 2), True, "n_pages: expected"),
    "layer dropped": (add(LAYER, "dropped", 1, 2), True, "index: expected"),
    "layer valid": (add(LAYER, "valid", 10, 2), True, "valid: expected"),
    "layer position": (add(LAYER, "position", -1, 2), True, "valid: expected|first_position: expected"),
    "layer shorter than the tokens": (add(LAYER, "first", 1, 4), True, "layer 0 packed end: expected"),
    "page code flipped": (flip(PAGES + 100), False, "page checksum"),
    "page header flipped": (flip(PAGES + 16), False, "page checksum"),
    "page not sealed": (lambda raw: (HEADER.put(raw, "flags", 1, PAGES), HEADER.put(raw, "checksum", 0, PAGES)), False, "seal: expected SEALED"),
    "page of another version": (field(HEADER, "version", 9), True, "page version"),
    "page of another layer": (field(HEADER, "layer", 1), True, "layer: expected 0, got 1"),
    "page with other used": (field(HEADER, "used", 4), True, "used: expected 3, got 4"),
    "page of another size": (add(HEADER, "head_bytes", 64), True, "page: expected"),
    "page of other query heads": (field(HEADER, "n_query_heads", 8), True, "n_query_heads: expected 6, got 8"),
    "page of another arm": (field(HEADER, "arm_digest", bytes(8)), True, "arm: expected"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_refused_with_the_reason(name: str) -> None:
    forge, fitted, says = FORGERIES[name]
    raw = bytearray(GOOD)
    forge(raw)
    assert raw != GOOD
    if fitted:
        repair(raw)
    with pytest.raises((CacheFileError, PageError, IdentityMismatch), match=says):
        read(bytes(raw))


def test_the_good_file_is_read_and_repair_changes_nothing_in_it() -> None:
    raw = bytearray(GOOD)
    repair(raw)
    assert raw == GOOD
    assert read(GOOD)
    assert {place.record.title for place in places(GOOD)} == {
        "saved cache",
        "store",
        "layer",
        "page table",
        "page",
    }


def test_every_truncation_is_refused() -> None:
    cuts = sorted({*range(0, PAGES + 130), *range(PAGES, len(GOOD), 97), len(GOOD) - 1})
    for n in cuts:
        with pytest.raises(CacheFileError, match="superheader|a truncated file"):
            read(GOOD[:n])


@pytest.mark.parametrize("extra", [b"\0", b"\0" * 64, GOOD])
def test_trailing_bytes_are_refused(extra: bytes) -> None:
    with pytest.raises(CacheFileError, match="trailing bytes"):
        read(GOOD + extra)


def test_every_damaged_byte_is_refused() -> None:
    """One bit of every byte before the pages, and of a sample within them; checksums as they were."""
    for position in [*range(PAGES), *range(PAGES, len(GOOD), 61)]:
        raw = bytearray(GOOD)
        raw[position] ^= 1 << position % 8
        with pytest.raises(TqError):
            read(bytes(raw))


def test_page_sizes_of_another_arm_are_refused_at_loading(tmp_path: Path) -> None:
    """Identity, arm and checksums all fit; only the sizes of the pages do not: their layout decides."""
    raw = bytearray(GOOD)
    for n in (0, 2):
        STORE.put(raw, "page_tokens", 64, at(STORE, n))
    for page in [
        p.at for p in places(GOOD) if p.record is HEADER and HEADER.get(GOOD, "page_tokens", p.at) == 32
    ]:
        HEADER.put(raw, "page_tokens", 64, page)
    repair(raw)
    (tmp_path / "cache").write_bytes(raw)
    open_saved(tmp_path / "cache")
    with pytest.raises(
        CacheFileError, match=r"^sinks pages: expected \(bytes, tokens\) \(\d+, 32\), got \(\d+, 64\)"
    ):
        load_cache(tmp_path / "cache", IDENTITY, CACHE.arm, NumpyBackend())


def test_a_page_table_that_names_another_checksum_is_refused() -> None:
    """Everything around the entry is made to fit again, so that only the page's own header contradicts it."""
    raw = bytearray(GOOD)
    ENTRY.put(raw, "checksum", ENTRY.get(raw, "checksum", at(ENTRY)) ^ 1, at(ENTRY))
    tables = zlib.crc32(raw[SUPER.nbytes : SUPER.get(raw, "pages_at")])
    SUPER.put(raw, "tables_checksum", tables)
    SUPER.put(raw, "header_checksum", zlib.crc32(raw[: SUPER.field("header_checksum").offset]))
    with pytest.raises(CacheFileError, match="^saved cache sinks layer 0 page 0 checksum: expected 0x"):
        read(bytes(raw))
