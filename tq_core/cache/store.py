"""Tokens of all layers under one pair of codecs, in pages that one pool supplies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tq_core.cache.page import PageHeader, write_used
from tq_core.cache.pool import PagePool
from tq_core.codecs.base import KeyCodec, Pages, ValueCodec
from tq_core.errors import ValueRangeError, check
from tq_core.kernels.backend import Backend
from tq_core.kernels.layout import PageLayout
from tq_core.shapes import ModelShape

F32 = npt.NDArray[np.float32]


class PageStore:
    """Append-only token storage per layer; the oldest tokens can be dropped, page by page.

    Token i of a layer (counting dropped ones) sits in slot ``i - dropped`` of the layer's block table.
    """

    def __init__(
        self,
        shape: ModelShape,
        key_codec: KeyCodec,
        value_codec: ValueCodec,
        backend: Backend,
        arm_digest: str,
        reserve_tokens: int = 0,
    ) -> None:
        streams = key_codec.streams(shape.head_dim) + value_codec.streams(shape.head_dim)
        self.layout = PageLayout(shape.n_kv_heads, key_codec.page_tokens, streams)
        self.keys, self.values = key_codec, value_codec
        self._shape, self._backend = shape, backend
        self._digest = bytes.fromhex(arm_digest)[:8]
        pages = shape.n_layers * -(-reserve_tokens // self.layout.page_tokens)
        self.pool = PagePool(self.layout.page_bytes, pages)
        self._tables: list[npt.NDArray[np.uint32]] = [np.zeros(0, np.uint32) for _ in range(shape.n_layers)]
        self.first = [0] * shape.n_layers  # first live slot
        self.end = [0] * shape.n_layers  # one past the last live slot
        self.position = [0] * shape.n_layers  # sequence position of slot 0
        self._dropped = [0] * shape.n_layers  # pages given back since the store was empty

    def count(self, layer: int) -> int:
        """Live tokens of a layer."""
        return self.end[layer] - self.first[layer]

    def pages(self, layer: int) -> Pages:
        """The layer's pages as codecs and kernels take them."""
        return Pages(self.pool.buffer, self._tables[layer], self.layout)

    @property
    def tables(self) -> Sequence[npt.NDArray[np.uint32]]:
        """Block table of every layer."""
        return self._tables

    def append(self, layer: int, keys: F32, values: F32, position: int) -> None:
        """Encode tokens (n_tokens, n_kv_heads, head_dim) whose first has this sequence position."""
        n, per = len(keys), self.layout.page_tokens
        start = self.end[layer]
        if start == 0:
            self.position[layer] = position
        while len(self._tables[layer]) * per < start + n:
            self._open_page(layer)
        pages = self.pages(layer)
        self.keys.append(self._backend, pages, start, keys)
        self.values.append(self._backend, pages, start, values)
        self.end[layer] = start + n
        for index in range(start // per, -(-(start + n) // per)):
            write_used(self.pool.page(int(self._tables[layer][index])), min(per, start + n - index * per))

    def _open_page(self, layer: int) -> None:
        table, shape = self._tables[layer], self._shape
        page = self.pool.allocate()
        header = PageHeader(
            index=self._dropped[layer] + len(table),
            layer=layer,
            used=0,
            page_tokens=self.layout.page_tokens,
            first_position=self.position[layer] + len(table) * self.layout.page_tokens,
            n_kv_heads=shape.n_kv_heads,
            head_dim=shape.head_dim,
            key_bits=self.keys.nominal_bits(shape.head_dim),
            value_bits=self.values.nominal_bits(shape.head_dim),
            arm_digest=self._digest,
        )
        self.pool.page(page)[:64] = np.frombuffer(header.pack(), np.uint8)
        self._tables[layer] = np.append(table, np.uint32(page))

    def drop_oldest(self, layer: int, n: int) -> None:
        """Forget the n oldest live tokens; pages without live tokens go back to the pool.

        Raises ValueRangeError when there are fewer than n.
        """
        self._check_live(layer, n)
        self.first[layer] += n
        per = self.layout.page_tokens
        gone = self.first[layer] // per
        for page in self._tables[layer][:gone]:
            self.pool.release(int(page))
        self._tables[layer] = self._tables[layer][gone:].copy()
        self._dropped[layer] += gone
        self.first[layer] -= gone * per
        self.end[layer] -= gone * per
        self.position[layer] += gone * per

    def decode(self, layer: int) -> tuple[F32, F32]:
        """Live keys and values, (n_tokens, n_kv_heads, head_dim) each."""
        pages, end, first, d = self.pages(layer), self.end[layer], self.first[layer], self._shape.head_dim
        return self.keys.decode(pages, end, d)[first:], self.values.decode(pages, end, d)[first:]

    def oldest(self, layer: int, n: int) -> tuple[F32, F32]:
        """The n oldest live tokens' keys and values; decodes only the pages that hold them.

        Raises ValueRangeError when there are fewer than n.
        """
        self._check_live(layer, n)
        pages, first, d = self.pages(layer), self.first[layer], self._shape.head_dim
        return self.keys.decode(pages, first + n, d)[first:], self.values.decode(pages, first + n, d)[first:]

    def _check_live(self, layer: int, n: int) -> None:
        live = self.count(layer)
        check(0 <= n <= live, "n", f"0..{live}", n, ValueRangeError)

    def clear(self) -> None:
        """Forget every token; all pages go back to the pool."""
        for layer, table in enumerate(self._tables):
            for page in table:
                self.pool.release(int(page))
            self._tables[layer] = np.zeros(0, np.uint32)
            self.first[layer] = self.end[layer] = self.position[layer] = self._dropped[layer] = 0
