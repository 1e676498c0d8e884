"""Reading row codecs through the kernels over byte rows: the order of channels in blocks, and factors left out of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_core.codecs.base import F32, Pages
from tq_core.kernels.backend import Backend
from tq_core.kernels.forms import BLOCK, ByteForm

Order = npt.NDArray[np.intp]


def odd_first(head_dim: int) -> Order:
    """The channel at each place of whole blocks where a byte's lower half is the odd one of two neighbours.

    head_dim stands for the places beyond the last channel.
    """
    channels = np.arange(-(-head_dim // BLOCK) * BLOCK).reshape(-1, BLOCK // 2, 2)
    return np.minimum(np.concatenate([channels[..., 1], channels[..., 0]], axis=1).reshape(-1), head_dim)


def even_first(head_dim: int) -> Order:
    """The same where the lower half is the even one."""
    return odd_first(head_dim).reshape(-1, 2, BLOCK // 2)[:, ::-1].reshape(-1)


@dataclass(frozen=True)
class ByteReader:
    """Kernel calls over the byte rows of ``pages``.

    order: the channel at each place of the form, None when they are in order. gain: (n_kv_heads or 1, 1) factor of every
    vector, None for 1.
    """

    backend: Backend
    pages: Pages
    form: ByteForm
    order: Order | None
    gain: F32 | None

    def _call(self, kernel: str, **arguments: Any) -> None:
        layout = self.pages.layout
        self.backend.call(
            kernel, form=self.form.words, pages=self.pages.table, layout=layout.words, pool=self.pages.pool,
            n_kv_heads=layout.n_kv_heads, **arguments,
        )  # fmt: skip

    def _with_gain(self, rows: F32) -> F32:
        if self.gain is None:
            return rows
        by_head = rows.reshape(self.pages.layout.n_kv_heads, -1, rows.shape[1])
        return np.asarray((by_head * self.gain[:, None]).reshape(rows.shape), np.float32)

    def scores(self, queries: F32, scale: float, n_tokens: int, out: F32, offset: int) -> None:
        """scale * <query, row> to columns offset.. of out; queries (n_query_heads, channels)."""
        asked = self._with_gain(queries)
        if self.order is not None:
            asked = np.pad(asked, ((0, 0), (0, 1)))[:, self.order]
        asked = np.ascontiguousarray(asked, np.float32)
        self._call("score_bytes", query=asked, scores=out, n_tokens=n_tokens, offset=offset, scale=scale)

    def weighted_sum(self, weights: F32, n_tokens: int, offset: int) -> F32:
        """(n_query_heads, channels) sums of rows under weights[:, offset:]."""
        total = np.zeros((len(weights), self.form.padded), np.float32)
        self._call("sum_bytes", weights=weights, out=total, n_tokens=n_tokens, offset=offset)
        if self.order is not None:
            placed = np.zeros((len(weights), self.form.channels + 1), np.float32)
            placed[:, self.order] = total
            total = np.ascontiguousarray(placed[:, :-1])
        return self._with_gain(total)
