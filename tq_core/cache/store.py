"""Tokens of all layers under one pair of codecs, in pages that one pool supplies.

Stores of forked caches share a pool. A page that several tables refer to is never written: it is copied first.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tq_core.cache.centres import centred_digest
from tq_core.cache.layer_pages import LayerPages, Mark, Step
from tq_core.cache.page import header_of, write_used
from tq_core.cache.pool import PagePool
from tq_core.codecs.base import KeyCodec, Pages, ValueCodec
from tq_core.errors import ValueRangeError, check
from tq_core.kernels.backend import Backend
from tq_core.kernels.layout import HEADER_BYTES, PageLayout
from tq_core.shapes import ModelShape

F32 = npt.NDArray[np.float32]
U32 = npt.NDArray[np.uint32]


class PageStore:
    """Append-only token storage per layer; the oldest tokens can be dropped, page by page, the newest taken back.

    Token i of a layer (counting dropped ones) sits in slot ``i - dropped`` of the layer's block table. ``base`` is
    the sequence position of an empty store's first token. key_centres: (n_layers, n_kv_heads, head_dim), see centres.
    """

    def __init__(
        self,
        shape: ModelShape,
        key_codec: KeyCodec,
        value_codec: ValueCodec,
        backend: Backend,
        arm_digest: str,
        reserve_tokens: int = 0,
        base: int = 0,
        key_centres: F32 | None = None,
    ) -> None:
        streams = key_codec.streams(shape.head_dim) + value_codec.streams(shape.head_dim)
        self.layout = PageLayout(shape.n_kv_heads, key_codec.page_tokens, streams)
        self.keys, self.values, self.base = key_codec, value_codec, base
        self._shape, self._backend = shape, backend
        self.key_centres = key_centres
        self._header = header_of(
            shape, self.layout, key_codec, value_codec, centred_digest(arm_digest, key_centres)
        )
        pages = shape.n_layers * -(-reserve_tokens // self.layout.page_tokens)
        self.pool = PagePool(self.layout.page_bytes, pages, backend)
        self.layers = self.empty_layers()
        # Per layer, first ordinal that a checkpoint keeps; () without one.
        self.retained: tuple[int, ...] = ()
        self.pool.adopt(self)

    def empty_layers(self) -> list[LayerPages]:
        """Layers without tokens."""
        return [LayerPages(self.base, self.base) for _ in range(self._shape.n_layers)]

    def count(self, layer: int) -> int:
        """Live tokens of a layer."""
        state = self.layers[layer]
        return state.end - state.first

    @property
    def first(self) -> Sequence[int]:
        """First live slot of every layer."""
        return [state.first for state in self.layers]

    @property
    def end(self) -> Sequence[int]:
        """One past the last live slot of every layer."""
        return [state.end for state in self.layers]

    def pages(self, layer: int) -> Pages:
        """The layer's pages as codecs and kernels take them: views, no copies."""
        state = self.layers[layer]
        return Pages(self.pool.buffer, state.table.view(), self.layout, layer, state.position)

    @property
    def tables(self) -> Sequence[U32]:
        """Live entries of every layer's block table (views)."""
        return [state.table.view() for state in self.layers]

    @property
    def table_bytes(self) -> int:
        """Bytes of all block tables, spare entries included, and of the pool's reference counts."""
        return sum(state.table.nbytes for state in self.layers) + self.pool.references.nbytes

    def append(self, layer: int, keys: F32, values: F32, position: int) -> None:
        """Encode tokens (n_tokens, n_kv_heads, head_dim) whose first has this sequence position."""
        n, per = len(keys), self.layout.page_tokens
        state = self.layers[layer]
        start, table = state.end, state.table
        if start == 0 and position != state.position:
            state.position = state.valid = position
        elif start % per and n and len(table):
            self.own_tail(layer)
        while len(table) * per < start + n:
            self._open_page(layer)
        pages = self.pages(layer)
        if self.key_centres is not None:
            keys = keys - self.key_centres[layer]
        self.keys.append(self._backend, pages, start, keys)
        self.values.append(self._backend, pages, start, values)
        state.end = start + n
        for index in range(start // per, -(-(start + n) // per)):
            page = self.pool.page(table.page(table.head + index))
            write_used(page, min(per, start + n - index * per))

    def _open_page(self, layer: int) -> None:
        state = self.layers[layer]
        table = state.table
        table.make_room(min(table.head, self._oldest_retained(layer)))
        header = replace(
            self._header,
            index=table.end,
            layer=layer,
            first_position=state.position + len(table) * self.layout.page_tokens,
        )
        page = self.pool.allocate()
        self.pool.page(page)[:HEADER_BYTES] = np.frombuffer(header.pack(), np.uint8)
        table.put(table.end, page)
        table.end += 1

    def own_tail(self, layer: int) -> None:
        """Copy the last page first when other tables refer to it, so that it may be written."""
        state = self.layers[layer]
        table, last = state.table, state.table.end - 1
        shared = table.page(last)
        if self.pool.references[shared] == 1:
            return
        page = self.pool.allocate()
        self.pool.page(page)[:] = self.pool.page(shared)
        marks = [m for m in state.marks if m.step.open and m.low <= last < m.end]
        if any(last != m.end - 1 for m in marks):  # such a mark reads the entry itself
            table.held = (table.held[0].copy(), table.held[1])
        table.put(last, page)
        if not marks:  # else the page goes back when the step is settled
            self.pool.release(shared)

    def drop_oldest(self, layer: int, n: int) -> None:
        """Forget the n oldest live tokens; pages without live tokens go back to the pool.

        Raises ValueRangeError when there are fewer than n.
        """
        self._check_live(layer, n)
        state, per = self.layers[layer], self.layout.page_tokens
        state.first += n
        gone = state.first // per
        if gone == 0:
            return
        table = state.table
        dropped = range(table.head, table.head + gone)
        table.head += gone
        state.first -= gone * per
        state.end -= gone * per
        state.position += gone * per
        for ordinal in dropped:
            page = table.page(ordinal)
            if not self._kept(layer, ordinal, page):
                self.pool.release(page)

    def _oldest_retained(self, layer: int) -> int:
        return self.retained[layer] if self.retained else self.layers[layer].table.head

    def _kept(self, layer: int, ordinal: int, page: int, but: Step | None = None) -> bool:
        """Whether a checkpoint, or a step other than ``but``, still needs a page that is not live."""
        if self.retained and self.retained[layer] <= ordinal < self.layers[layer].table.head:
            return self.layers[layer].table.page(ordinal) == page
        return any(
            m.step is not but and m.step.open and m.low <= ordinal < m.end and m.page(ordinal) == page
            for m in self.layers[layer].marks
        )

    def mark(self, layer: int, step: Step) -> None:
        """Keep the layer's pages, and know how it is now, until the step ends."""
        state = self.layers[layer]
        state.mark(step, min(state.table.head, self._oldest_retained(layer)))

    def settle(self, layer: int, mark: Mark) -> None:
        """Give back what only the mark of a finished step held."""
        table = self.layers[layer].table
        same = table.head == mark.head and table.end >= mark.end and table.held[0] is mark.entries
        for ordinal in range(mark.end - 1 if same else mark.low, mark.end):
            if ordinal < mark.low:
                continue
            page = mark.page(ordinal)
            live = table.head <= ordinal < table.end and table.page(ordinal) == page
            if not live and not self._kept(layer, ordinal, page, mark.step):
                self.pool.release(page)

    def release_retained(self) -> None:
        """End the retention of a checkpoint and give back the pages that it kept."""
        retained, self.retained = self.retained, ()
        for layer, first in enumerate(retained):
            table = self.layers[layer].table
            for ordinal in range(first, table.head):
                if not self._kept(layer, ordinal, table.page(ordinal)):
                    self.pool.release(table.page(ordinal))

    def tidy_tail(self, layer: int) -> None:
        """Make the bytes of the last page those of the tokens that it holds. It must not be shared."""
        state, per, d = self.layers[layer], self.layout.page_tokens, self._shape.head_dim
        table = state.table
        used = state.end - (len(table) - 1) * per
        if len(table) == 0:
            return
        page, pages = table.page(table.end - 1), self.pages(layer)
        if used < per:
            self.keys.erase(pages, page, used, d)
            self.values.erase(pages, page, used, d)
        write_used(self.pool.page(page), used)

    def held(self) -> U32:
        """Every page that a live entry, a checkpoint or an open step refers to."""
        pages: list[int] = []
        for layer in range(len(self.layers)):
            pages += self.layers[layer].table.view().tolist()
            pages += self._hidden(layer)
        return np.array(pages, np.uint32)

    def _hidden(self, layer: int) -> Iterator[int]:
        """Pages that are not live and are kept all the same, each once."""
        state, found = self.layers[layer], set()
        table = state.table
        if self.retained:
            found |= {(o, table.page(o)) for o in range(self.retained[layer], table.head)}
        for m in state.marks:
            if m.step.open:
                found |= {(o, m.page(o)) for o in range(m.low, m.end)}
        live = {(o, table.page(o)) for o in range(table.head, table.end)}
        return (page for _, page in found - live)

    def decode(self, layer: int) -> tuple[F32, F32]:
        """Live keys and values, (n_tokens, n_kv_heads, head_dim) each."""
        return self.oldest(layer, self.count(layer))

    def oldest(self, layer: int, n: int) -> tuple[F32, F32]:
        """The n oldest live tokens' keys and values; decodes only the pages that hold them.

        Raises ValueRangeError when there are fewer than n.
        """
        self._check_live(layer, n)
        pages, first, d = self.pages(layer), self.layers[layer].first, self._shape.head_dim
        keys, values = (c.decode(pages, first + n, d)[first:] for c in (self.keys, self.values))
        return keys if self.key_centres is None else keys + self.key_centres[layer], values

    def _check_live(self, layer: int, n: int) -> None:
        live = self.count(layer)
        check(0 <= n <= live, "n", f"0..{live}", n, ValueRangeError)

    def fork(self) -> PageStore:
        """A store with the same tokens in the same pages, one more reference to each; not yet adopted by the pool."""
        other = copy.copy(self)
        other.layers = [state.copy() for state in self.layers]
        other.retained = ()
        for table in other.tables:
            self.pool.share(table)
        return other
