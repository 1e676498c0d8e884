"""Zeroing the slots of a page from one on, so that its bytes are as if they had never been written.

Needed when tokens are taken back: a page's bytes then depend on the tokens it holds and on nothing else.
"""

from __future__ import annotations

import numpy as np

from tq_core.codecs.base import Pages
from tq_core.math import tiles


def erase_rows(pages: Pages, page: int, stream: str, first: int) -> None:
    """Zero slots ``first`` .. of a stream whose bytes follow the slots in order, all KV heads."""
    for head in range(pages.layout.n_kv_heads):
        view = pages.layout.view(pages.pool, page, head, stream)
        view[view.size * first // pages.layout.page_tokens :] = 0


def erase_tiles(pages: Pages, page: int, stream: str, first: int, widths: np.ndarray, keys: bool) -> None:
    """Zero slots ``first`` .. of a stream of packed tiles; a tile that keeps some tokens is unpacked and packed."""
    whole = -(-first // tiles.TILE_TOKENS) * tiles.TILE_TOKENS
    erase_rows(pages, page, stream, whole)
    if whole == first:
        return
    size, last = tiles.tile_bytes(widths), whole // tiles.TILE_TOKENS - 1
    for head in range(pages.layout.n_kv_heads):
        tile = pages.layout.view(pages.pool, page, head, stream)[last * size : (last + 1) * size]
        codes = tiles.unpack_stream(tile, widths, keys)
        codes[first % tiles.TILE_TOKENS :] = 0
        tile[:] = tiles.pack_stream(codes, widths, keys)
