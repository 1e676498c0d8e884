"""A page header survives its bytes, refuses what it cannot hold or believe, and the seal covers every byte."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tq_core.cache import page as page_module
from tq_core.cache.fields import Field, Record
from tq_core.cache.page import (
    CODEC_IDS,
    HEADER,
    MAGIC,
    PageFlags,
    PageHeader,
    checksum,
    header_of,
    read_header,
    seal,
    verify_page,
    write_used,
)
from tq_core.cache.paged_cache import PagedCache
from tq_core.cache.store import PageStore
from tq_core.codecs.arms import arm_names, get_arm
from tq_core.codecs.fp16 import HalfKeys, HalfValues
from tq_core.errors import CodecError, PageError, TqError, ValueRangeError
from tq_core.kernels.backend import NumpyBackend
from tq_core.kernels.layout import PageLayout
from tq_core.shapes import ModelShape
from tq_core.tests.cache.worlds import ARMS, SHAPE, make, tokens

SAMPLE = PageHeader(
    index=70_001, layer=5, used=77, page_tokens=128, first_position=2**40 + 3, n_query_heads=27, n_kv_heads=9,
    head_dim=80, key_codec="structured-turboquant", value_codec="kivi", key_bits=3.6, value_bits=3.0, head_bytes=128,
    arm_digest=bytes(range(1, 9)),
)  # fmt: skip


def page_of(header: PageHeader = SAMPLE) -> np.ndarray:
    body = np.arange(header.page_bytes - 64, dtype=np.uint64).astype(np.uint8)
    return np.concatenate([np.frombuffer(header.pack(), np.uint8), body])


def test_round_trip_through_bytes() -> None:
    page = page_of()
    assert len(SAMPLE.pack()) == 64
    assert page[:4].tobytes() == MAGIC == b"TQPG"
    assert read_header(page) == SAMPLE == verify_page(page)
    write_used(page, 128)
    full = read_header(page)
    assert full == replace(SAMPLE, used=128, flags=PageFlags.SEALED, checksum=checksum(page))
    assert full.pack() == page[:64].tobytes()
    write_used(page, 77)
    assert page[:64].tobytes() == SAMPLE.pack()


def test_bytes_are_spelled_out() -> None:
    def le(value: int, nbytes: int) -> bytes:
        return value.to_bytes(nbytes, "little")

    want = (
        b"TQPG" + le(1, 2) + le(0, 2) + le(2**40 + 3, 8) + le(70_001, 4) + le(5, 2) + le(77, 2) + le(128, 2)
        + le(27, 2) + le(9, 2) + le(80, 2) + le(2, 1) + le(3, 1) + le(288, 2) + le(240, 2) + le(0, 2) + le(128, 4)
        + le(0, 4) + bytes(range(1, 9)) + le(0, 8)
    )  # fmt: skip
    assert SAMPLE.pack() == want


@pytest.mark.parametrize(
    "field, value, says",
    [
        ("magic", b"TQPX", "magic"), ("version", 2, "version"), ("flags", 128, "flags"), ("flags", 1, "flags"),
        ("used", 129, "used"), ("page_tokens", 0, "page_tokens"), ("n_query_heads", 0, "n_query_heads"),
        ("n_query_heads", 28, "n_query_heads"), ("n_kv_heads", 0, "n_kv_heads"), ("head_dim", 0, "head_dim"),
        ("head_dim", 72, "head_dim"), ("head_dim", 272, "head_dim"), ("key_codec", 0, "key_codec"),
        ("value_codec", 255, "value_codec"), ("key_code_bits", 0, "key_code_bits"),
        ("value_code_bits", 16 * 80 + 1, "value_code_bits"), ("reserved_a", 1, "reserved_a"), ("head_bytes", 0, "head_bytes"),
        ("head_bytes", 96, "head_bytes"), ("checksum", 1, "checksum"), ("reserved_b", 1, "reserved_b"),
    ],
)  # fmt: skip
def test_a_header_that_lies_is_refused(field: str, value: Any, says: str) -> None:
    page = page_of()
    HEADER.put(page, field, value)
    with pytest.raises(PageError, match=f"^page {says}: expected .*, got "):
        read_header(page)


def test_a_short_page_is_refused() -> None:
    with pytest.raises(PageError, match="^page: expected at least 64 bytes, got 63"):
        read_header(page_of()[:63])
    with pytest.raises(PageError, match="^page: expected 1216 bytes, got 1215"):
        verify_page(page_of()[:-1])


def test_the_seal_covers_every_byte_and_bit() -> None:
    page = page_of()
    seal(page)
    verify_page(page)
    for at in range(page.size):
        for bit in range(8):
            page[at] ^= 1 << bit
            cleared = at == 6 and 1 << bit == PageFlags.SEALED  # then the checksum must be zero, and is not
            with pytest.raises(PageError, match="checksum" if cleared else "page"):
                verify_page(page)
            page[at] ^= 1 << bit
    verify_page(page)


@pytest.mark.parametrize("name", ARMS)
def test_full_pages_of_a_cache_are_sealed_and_others_are_not(name: str) -> None:
    cache = make(name, window=0, sinks=3)
    cache.append(0, *tokens(300)[1:])
    seen = set()
    for store in cache.stores.values():
        for entry in store.tables[0]:
            header = verify_page(store.pool.page(int(entry)))
            assert bool(header.flags & PageFlags.SEALED) == (header.used == header.page_tokens)
            assert bool(header.flags & PageFlags.HALF_ROWS) == (header.page_tokens == 32)
            seen.add(bool(header.flags & PageFlags.SEALED))
    assert seen == {False, True}


def test_every_codec_has_a_number() -> None:
    arms = [get_arm(name) for name in arm_names()]
    assert {c.name for arm in arms for c in (arm.key_codec, arm.value_codec)} <= set(CODEC_IDS)
    assert len(set(CODEC_IDS.values())) == len(CODEC_IDS)
    assert all(0 < number < 256 for number in CODEC_IDS.values())


def test_a_codec_without_a_number_is_refused() -> None:
    class Other(HalfKeys):
        name = "other"

    with pytest.raises(CodecError, match="^codec: expected one with a number .*, got other"):
        PageStore(SHAPE, Other(), HalfValues(), NumpyBackend(), "00" * 32)


@pytest.mark.parametrize(
    "shape", [ModelShape(65_537, 1, 1, 16), ModelShape(1, 65_536, 65_536, 16), ModelShape(1, 65_536, 1, 16)]
)
def test_shapes_beyond_the_fields_are_refused_before_anything_is_made(shape: ModelShape) -> None:
    with pytest.raises(PageError, match=r"^page (layer|n_query_heads|n_kv_heads): expected 0\.\.65535, got "):
        PagedCache(shape, get_arm("structured-turbo"), NumpyBackend())


def test_the_largest_shape_that_fits() -> None:
    PagedCache(ModelShape(2, 65_535, 65_535, 16), get_arm("fp16"), NumpyBackend())


@pytest.mark.parametrize(
    "stream, flag",
    [
        ("key_outliers", "KEY_SIDECAR"),
        ("value_outliers", "VALUE_SIDECAR"),
        ("key_residual_signs", "KEY_RESIDUAL"),
        ("value_sketch", "VALUE_RESIDUAL"),
    ],
)
def test_extra_streams_show_in_the_flags(stream: str, flag: str) -> None:
    keys, values = get_arm("structured-turbo").key_codec, get_arm("structured-turbo").value_codec
    plain = PageLayout(2, 128, keys.streams(48) + values.streams(48))
    more = PageLayout(2, 128, (*plain.streams, (stream, 64)))
    assert header_of(SHAPE, plain, keys, values, "00" * 32).flags == 0
    assert header_of(SHAPE, more, keys, values, "00" * 32).flags == PageFlags[flag]


@pytest.mark.parametrize("field", [f for f in HEADER.fields if f.limit])
def test_every_field_refuses_what_it_cannot_hold(field: Field) -> None:
    for bad in (field.limit + 1, -1, True, 1.0, None):
        with pytest.raises(PageError, match=f"^page {field.name}: expected 0..{field.limit}, got "):
            HEADER.pack({field.name: bad}, PageError)
    assert HEADER.get(HEADER.pack({"magic": MAGIC, field.name: field.limit}), field.name) == field.limit


def test_a_record_with_a_gap_is_refused() -> None:
    a, b = Field(0, "u32", "a", ""), Field(5, "u8", "b", "")
    with pytest.raises(ValueRangeError, match="^gap b: expected offset 4, got 5"):
        Record("gap", 6, (a, b))
    with pytest.raises(ValueRangeError, match="^short: expected 8 bytes, got 4"):
        Record("short", 8, (a,))


def test_without_the_seal_a_flipped_code_would_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    page = page_of()
    seal(page)
    page[200] ^= 4
    with pytest.raises(TqError, match="^page checksum"):
        verify_page(page)
    monkeypatch.setattr(page_module, "checksum", lambda _: read_header(page).checksum)
    verify_page(page)


@pytest.mark.parametrize("field, value", [("checksum", 7), ("flags", int(PageFlags.SEALED))])
def test_a_half_written_seal_is_mended(field: str, value: int) -> None:
    """What an interrupt between two bytes leaves, the next update of the page puts right."""
    page = page_of()
    HEADER.put(page, field, value)
    with pytest.raises(PageError, match="^page checksum"):
        verify_page(page)
    write_used(page, 77)
    assert verify_page(page) == SAMPLE
