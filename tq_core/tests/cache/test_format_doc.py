"""cpp/FORMAT.md says what the code does: generated parts are up to date, and its formulas find the bytes."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tq_core.cache.format_doc import DOCUMENT, PARTS, code_place, rendered
from tq_core.cache.page import HEADER
from tq_core.codecs.arms import arm_names, get_arm
from tq_core.kernels.layout import PageLayout
from tq_core.math.books import RATES, widths_for
from tq_core.math.tiles import pack_stream


def test_generated_parts_are_up_to_date() -> None:
    text = DOCUMENT.read_text()
    assert re.findall(r"<!-- begin (.*?) -->", text) == re.findall(r"<!-- end (.*?) -->", text)
    assert set(re.findall(r"<!-- begin (.*?) -->", text)) == set(PARTS)
    assert rendered(text) == text, "python -m tq_core.cache.format_doc"


def test_a_stale_part_is_noticed() -> None:
    text = DOCUMENT.read_text().replace("| 22 | 2 | u16 | `used` |", "| 24 | 2 | u16 | `used` |")
    assert text != DOCUMENT.read_text() == rendered(text)


def test_the_header_fields_cover_the_64_bytes() -> None:
    assert [f.offset for f in HEADER.fields] == list(np.cumsum([0] + [f.nbytes for f in HEADER.fields])[:-1])
    assert HEADER.nbytes == 64


@pytest.mark.parametrize("bits", [1, 2, 3, 4])
@pytest.mark.parametrize("side", ["key", "value"])
def test_the_place_of_every_code(side: str, bits: int) -> None:
    """Read each code with the document's formula alone, from two tiles along the tokens."""
    codes = np.random.default_rng(bits).integers(0, 1 << bits, (64, 16)).astype(np.uint8)
    stream = pack_stream(codes, np.array([bits], np.uint8), side == "key")
    for token in range(64):
        for channel in range(16):
            at, bit = code_place(side, token, channel, bits)
            column = int(stream[at]) | (int(stream[at + 64]) << 8 if bit + bits > 8 else 0)
            assert column >> bit & (1 << bits) - 1 == codes[token, channel]


@pytest.mark.parametrize("head_dim", [16, 80, 128, 256])
@pytest.mark.parametrize("rate", RATES)
def test_the_allocation_follows_from_the_code_bits(rate: float, head_dim: int) -> None:
    widths = widths_for(rate, head_dim)
    groups, total = head_dim // 16, int(widths.sum())
    assert [total // groups + (i < total % groups) for i in range(groups)] == widths.tolist()


@pytest.mark.parametrize("name", arm_names())
def test_streams_are_aligned_as_documented(name: str) -> None:
    arm = get_arm(name)
    step = arm.key_codec.tags.head_dim_step
    for head_dim in (d for d in (16, 64, 80, 256) if d % step == 0):
        streams = arm.key_codec.streams(head_dim) + arm.value_codec.streams(head_dim)
        layout = PageLayout(3, arm.key_codec.page_tokens, streams)
        assert all(offset % 16 == 0 for offset in layout.offsets.values())
        assert layout.head_bytes % 64 == 0 == layout.page_bytes % 64
