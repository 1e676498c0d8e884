"""The page map covers every byte once, the filling is the cache's own, and planted damage is answered."""

from __future__ import annotations

import numpy as np
import pytest

from tq_core.cache.page import HEADER, verify_page
from tq_core.codecs.arms import get_arm
from tq_core.kernels.backend import get_backend
from tq_core.kernels.layout import HEADER_BYTES
from tq_core.shapes import ModelShape
from tq_core.show import breaking, page_map
from tq_core.show.page_fill import Filling, fill
from tq_core.show.page_panel import ARMS, TOKENS, PagePanel
from tq_core.show.panel import Panel

SHAPES = (ModelShape(1, 1, 1, 32), ModelShape(1, 6, 3, 48), ModelShape(1, 2, 2, 80))


def filled(name: str, shape: ModelShape = SHAPES[0]) -> Filling:
    return fill(get_arm(name, **({} if name == "fp16" else {"window": 0})), shape, get_backend("numpy"))


@pytest.mark.parametrize("name", ARMS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_regions_cover_a_page_without_gap_or_overlap(name: str, shape: ModelShape) -> None:
    arm = get_arm(name)
    layout = fill(arm, shape, get_backend("numpy")).layout if name == "fp16" else filled(name, shape).layout
    found = page_map.regions(layout)
    assert [r.start for r in found[1:]] == [r.end for r in found[:-1]]
    assert (found[0].start, found[-1].end) == (0, layout.page_bytes)
    assert sum(r.nbytes for r in found if r.kind not in ("header", "padding")) == layout.payload_bytes
    assert {r.kind for r in found} <= set(page_map.KINDS)
    assert len(page_map.kinds(layout)) == layout.page_bytes


def test_header_regions_and_rows_come_from_the_table_of_fields() -> None:
    fields = page_map.header_regions()
    assert [r.start for r in fields[1:]] == [r.end for r in fields[:-1]]
    assert fields[-1].end == HEADER_BYTES
    page = filled("structured-turbo").pages[5]
    rows = {row[2]: row for row in page_map.header_rows(page)}
    assert rows["used"][3] == "5"
    assert rows["magic"][3] == "TQPG"
    assert len(rows) == len(HEADER.fields)
    assert page_map.hex_rows(page)[0][:5] == [0, "54", "51", "50", "47"]


@pytest.mark.parametrize("name", ARMS)
def test_every_page_on_the_way_is_one_that_the_reader_accepts(name: str) -> None:
    filling = filled(name)
    for t, page in enumerate(filling.pages):
        if page.any():
            flush = get_arm(name).flush_tokens
            assert verify_page(page).used == t // flush * flush
    assert verify_page(filling.pages[-1]).used == filling.tokens


def test_a_token_writes_its_scales_and_its_lanes() -> None:
    """32 channels at 4 and 3 bits: a key changes one lane of 4 bytes in at most 7 rows, and one float16."""
    filling = filled("structured-turbo")
    keys = next(r for r in page_map.regions(filling.layout) if r.name == "head 0 key_codes")
    scales = next(r for r in page_map.regions(filling.layout) if r.name == "head 0 key_scales")
    for t in (1, 17, 33, 100):
        changed = filling.changed(t)
        lane = (t - 1) % 16
        where = np.flatnonzero(changed[keys.start : keys.end])
        assert 8 <= len(where) <= 28
        assert set(where % 64 // 4) == {lane}
        scale = np.flatnonzero(changed[scales.start : scales.end])
        assert set(scale) <= {2 * (t - 1), 2 * (t - 1) + 1}
        assert filling.body_bytes(t) == changed[HEADER_BYTES:].sum()


def test_panel_shows_the_page_of_its_settings() -> None:
    view = PagePanel()
    panel = Panel(view)
    for arm in ARMS:
        for t in TOKENS:
            panel.set(arm=arm, tokens=t)
            assert 'role="status"' in panel._readout.value
            drawn = np.asarray(view._bytes.get_array()).ravel()
            page = view.filling(arm).pages[min(t, view.filling(arm).tokens)]
            drawn = drawn[: len(page)]
            changed = view.filling(arm).changed(min(t, view.filling(arm).tokens))
            assert np.array_equal(drawn == 2, changed)
            assert np.array_equal(drawn == 0, (page == 0) & ~changed)
    panel.set(arm="structured-turbo", tokens=128)
    assert "sealed with a checksum" in panel._readout.value
    assert panel.numbers["bits per channel"] == pytest.approx(8 * 3904 / (128 * 64))


def test_every_flip_of_a_sealed_page_is_refused_and_an_open_one_keeps_its_codes_unguarded() -> None:
    filling = filled("structured-turbo")
    sealed = breaking.flip_every_byte(filling.pages[-1])
    assert sum(sealed.values()) == filling.layout.page_bytes
    assert not any(said == breaking.ACCEPTED for _, said in sealed)
    assert breaking.flip_every_byte(filling.pages[-2])["streams", breaking.ACCEPTED] > 0


def test_planted_header_values_are_refused_by_name() -> None:
    page = filled("structured-turbo").pages[-1]
    assert breaking.answer(lambda: verify_page(page)) == breaking.ACCEPTED
    for (name, _), (label, said) in zip(breaking.HARM.items(), breaking.harm_rows(page), strict=True):
        assert str(label).startswith(name)
        assert str(said).startswith("PageError: page ")
