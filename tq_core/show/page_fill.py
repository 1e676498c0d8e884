"""A page filled token by token by the cache itself, and what each token writes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.arms import Arm
from tq_core.kernels.backend import Backend
from tq_core.kernels.layout import HEADER_BYTES, PageLayout
from tq_core.shapes import ModelShape

U8 = npt.NDArray[np.uint8]
SHAPE = ModelShape(n_layers=1, n_query_heads=1, n_kv_heads=1, head_dim=32)


@dataclass(frozen=True)
class Filling:
    """``pages[t]``: bytes of the first page after t tokens; zeros before it is opened."""

    layout: PageLayout
    pages: npt.NDArray[np.uint8]

    @property
    def tokens(self) -> int:
        """Tokens that fill the page."""
        return len(self.pages) - 1

    def changed(self, t: int, since: int | None = None) -> npt.NDArray[np.bool_]:
        """(page_bytes,) whether a byte differs after token t from after token ``since`` (t - 1 unless given)."""
        before = max(t - 1, 0) if since is None else since
        changed: npt.NDArray[np.bool_] = self.pages[t] != self.pages[before]
        return changed

    def body_bytes(self, t: int) -> int:
        """Bytes outside the header that token t changed; a code that happens to be zero changes nothing."""
        return int(self.changed(t)[HEADER_BYTES:].sum())


def fill(arm: Arm, shape: ModelShape = SHAPE, backend: Backend | None = None, seed: int = 5) -> Filling:
    """Append Gaussian tokens one at a time until the first page of layer 0 is full. The arm's window should be 0, or None."""
    cache = PagedCache(shape, arm, backend)
    store = cache.stores["recent" if arm.window is None else "packed"]
    layout, rng = store.layout, np.random.default_rng(seed)
    pages = np.zeros((layout.page_tokens + 1, layout.page_bytes), np.uint8)
    for t in range(1, layout.page_tokens + 1):
        k, v = rng.standard_normal((2, 1, shape.n_kv_heads, shape.head_dim)).astype(np.float32)
        cache.append(0, k, v)
        table = store.pages(0).table
        if len(table):
            pages[t] = store.pool.page(int(table[0]))
    return Filling(layout, pages)
