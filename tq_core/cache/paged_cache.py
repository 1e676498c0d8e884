"""The cache: every token enters a float16 window, leaves it into packed pages, and is read where it lies.

One layer holds, in token order, ``[sink tokens | packed pages | recent window]``. No history is ever decoded:
scores and sums run over the codes, over the float16 rows of sinks and window, and meet in one softmax.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tq_core.cache.accounting import Ledger, baseline_bytes, held_arrays
from tq_core.cache.attention import NO_MASK, Mask, SoftmaxStates
from tq_core.cache.centres import centre_scores
from tq_core.cache.layer_pages import Step
from tq_core.cache.lifecycle import Lifecycle
from tq_core.cache.many import append_many, attend_many, tokens_at_once
from tq_core.cache.store import PageStore
from tq_core.cache.tokens import check_tokens, longest
from tq_core.cache.transaction import commit, touch, undo
from tq_core.codecs.arms import Arm
from tq_core.codecs.calibration import check_model
from tq_core.codecs.fp16 import HalfKeys, HalfValues
from tq_core.errors import DTypeError, ValueRangeError, check
from tq_core.kernels.backend import Backend, get_backend
from tq_core.kernels.layout import HEADER_BYTES
from tq_core.kernels.threads import thread_count
from tq_core.shapes import ModelShape

F32 = npt.NDArray[np.float32]


class PagedCache(Lifecycle):
    """Keys and values of a model's attention under one arm.

    reserve_tokens: tokens per layer for which pages are set aside at once. threads: see kernels.threads.thread_count;
    results do not depend on it. identity: what made the tokens (a digest of model and adapter).
    key_centres: (n_layers, n_kv_heads, head_dim) float32, a fixed vector that packed keys are stored without, such as a
    projection's bias. Raises DTypeError, ShapeError, CodecError or ValueRangeError for arguments of another kind and for an arm that cannot store the shape.
    ``attend`` is all that a model needs; what else can be done with the tokens is in ``Lifecycle``.
    """

    def __init__(
        self,
        shape: ModelShape,
        arm: Arm,
        backend: Backend | None = None,
        reserve_tokens: int = 0,
        threads: int | None = None,
        identity: str | None = None,
        key_centres: F32 | None = None,
    ) -> None:
        check(isinstance(shape, ModelShape), "shape", "a ModelShape", repr(shape), DTypeError)
        check(isinstance(arm, Arm), "arm", "an Arm, as get_arm returns", repr(arm), DTypeError)
        check(
            backend is None or hasattr(backend, "call"),
            "backend",
            "a Backend, as get_backend returns",
            repr(backend),
            DTypeError,
        )
        whole = isinstance(reserve_tokens, (int, np.integer)) and not isinstance(reserve_tokens, bool)
        check(
            whole and reserve_tokens >= 0,
            "reserve_tokens",
            "a count of tokens, 0 or more",
            repr(reserve_tokens),
            ValueRangeError,
        )
        for codec in (arm.key_codec, arm.value_codec):
            codec.check(shape.head_dim)
            check_model(codec, shape)
        if key_centres is not None:
            check_tokens("key_centres", key_centres, shape.n_layers, shape.n_kv_heads, shape.head_dim)
            key_centres = key_centres.copy()
        self.backend = backend or get_backend()
        self.threads = thread_count(threads, self.backend)
        everything = (
            reserve_tokens if arm.window is None else min(reserve_tokens, arm.window + 2 * arm.flush_tokens)
        )
        packed = 0 if arm.window is None else reserve_tokens
        half, coded = (HalfKeys(), HalfValues()), (arm.key_codec, arm.value_codec)
        common = self.backend, arm.digest
        stores = (
            PageStore(shape, *half, *common, min(arm.sinks, reserve_tokens)),
            PageStore(shape, *coded, *common, packed, arm.sinks, key_centres),
            PageStore(shape, *half, *common, everything, arm.sinks),
        )
        # In a step of many tokens the old window stays until the step has happened: a little more than was reserved.
        stores[2].pool.bounded = arm.window is not None
        super().__init__(shape, arm, stores, identity)
        self._scale = float(np.float32(1.0 / np.sqrt(shape.head_dim)))
        self._scratch_bytes = 0
        self._taken_off = longest(key_centres) + getattr(arm.key_codec, "longest_offset", 0.0)
        self._off_values = float(getattr(arm.value_codec, "longest_offset", 0.0))

    def append(self, layer: int, keys: F32, values: F32) -> None:
        """Append tokens (n_tokens, n_kv_heads, head_dim) to one layer, one at a time, window first; all or none."""
        self._check_layer(layer)
        heads, d = self.shape.n_kv_heads, self.shape.head_dim
        check_tokens("keys", keys, None, heads, d, self._taken_off)
        check_tokens("values", values, len(keys), heads, d, self._off_values)
        self._append_all(layer, keys, values)

    def attend(
        self,
        layer: int,
        queries: F32,
        keys: F32,
        values: F32,
        sink_logits: F32 | None = None,
        sliding_window: int | None = None,
    ) -> F32:
        """Append each new token, then let its query attend to everything up to and including it; all or none.

        queries (n_tokens, n_query_heads, head_dim), keys and values (n_tokens, n_kv_heads, head_dim), float32, after
        RoPE. Returns (n_tokens, n_query_heads, head_dim). Softmax scale 1/sqrt(head_dim).
        sink_logits and sliding_window: see Mask; nothing is forgotten, what is hidden stays stored. Raises ShapeError,
        DTypeError or ValueRangeError before anything changes; another error or an interrupt undoes the call.
        """
        self._check_layer(layer)
        d = self.shape.head_dim
        check_tokens("queries", queries, None, self.shape.n_query_heads, d)
        n = len(queries)
        check_tokens("keys", keys, n, self.shape.n_kv_heads, d, self._taken_off)
        check_tokens("values", values, n, self.shape.n_kv_heads, d, self._off_values)
        mask = Mask(sink_logits, sliding_window)
        mask.check(self.shape.n_query_heads)
        out = np.empty((n, self.shape.n_query_heads, d), np.float32)
        self._append_all(layer, keys, values, np.ascontiguousarray(queries), out, mask)
        return out

    def _append_all(
        self,
        layer: int,
        keys: F32,
        values: F32,
        queries: F32 | None = None,
        out: F32 | None = None,
        mask: Mask = NO_MASK,
    ) -> None:
        stores, step = self.store_list, Step()
        try:
            for around in (*self.steps, step):
                touch(stores, around, layer)
            done, n = 0, len(keys)
            while done < n:
                some = slice(done, done + min(n - done, self._at_once(layer)))
                if some.stop - done == 1:
                    self._append_one(layer, keys[some], values[some])
                    if queries is not None and out is not None:
                        out[done] = self._attend_one(layer, queries[done], mask)
                else:
                    added = append_many(self, layer, keys[some], values[some])
                    if queries is not None and out is not None:
                        asked = queries[some]
                        out[some], used = attend_many(self, layer, asked, self._scale, added.parts, mask)
                        self._scratch_bytes = max(self._scratch_bytes, used)
                    self._recent.drop_oldest(layer, added.leaving)
                done = some.stop
            commit(stores, step)
        except BaseException:
            undo(stores, step)
            raise

    def _at_once(self, layer: int) -> int:
        return tokens_at_once(self, layer, self.shape.n_query_heads, self.shape.head_dim)

    def scores(self, layer: int, queries: F32) -> F32:
        """Logits (n_query_heads, n_tokens), softmax scale included, of one token's queries (n_query_heads, head_dim)."""
        self._check_layer(layer)
        check_tokens("queries", np.asarray(queries)[None], 1, self.shape.n_query_heads, self.shape.head_dim)
        return self._scores(layer, np.ascontiguousarray(queries))

    def decode(self, layer: int) -> tuple[F32, F32]:
        """Everything stored, (n_tokens, n_kv_heads, head_dim) keys and values in token order; for tests and notebooks."""
        self._check_layer(layer)
        parts = [store.decode(layer) for store in (self._sinks, self._packed, self._recent)]
        return np.concatenate([k for k, _ in parts]), np.concatenate([v for _, v in parts])

    def _check_layer(self, layer: int) -> None:
        self._check_open()
        whole = isinstance(layer, (int, np.integer)) and not isinstance(layer, bool)
        ok = whole and 0 <= layer < self.shape.n_layers
        check(ok, "layer", f"0..{self.shape.n_layers - 1}", repr(layer), ValueRangeError)

    def _append_one(self, layer: int, key: F32, value: F32) -> None:
        arm, position = self.arm, self._length(layer)
        if position < arm.sinks:
            self._sinks.append(layer, key, value, position)
            return
        self._recent.append(layer, key, value, position)
        if arm.window is None:
            return
        flush = arm.flush_tokens
        while self._recent.count(layer) >= arm.window + flush:
            keys, values = (np.ascontiguousarray(x) for x in self._recent.oldest(layer, flush))
            window = self._recent.layers[layer]
            self._packed.append(layer, keys, values, window.position + window.first)
            self._recent.drop_oldest(layer, flush)

    def _scores(self, layer: int, query: F32) -> F32:
        sinks, packed, recent = self._sinks.count(layer), self._packed.count(layer), self._recent.count(layer)
        out = np.empty((len(query), sinks + packed + recent), np.float32)
        half = HalfKeys()
        half.scores(self.backend, query, self._scale, self._sinks.pages(layer), sinks, out, 0)
        codec = self.arm.key_codec
        codec.scores(self.backend, query, self._scale, self._packed.pages(layer), packed, out, sinks)
        if self._packed.key_centres is not None:
            out[:, sinks : sinks + packed].T[:] += centre_scores(
                self._packed.key_centres, layer, query, self._scale
            )
        first = self._recent.layers[layer].first
        half.scores(
            self.backend, query, self._scale, self._recent.pages(layer), recent, out, sinks + packed, first
        )
        return out

    def _attend_one(self, layer: int, query: F32, mask: Mask = NO_MASK) -> F32:
        states = SoftmaxStates(self.backend, query[None], self._scale, self.threads)
        sinks, packed, recent = (store.count(layer) for store in self.store_list)
        hidden = mask.hidden(sinks, packed, recent)
        if sinks > hidden[0]:
            states.add_half([(self._sinks.pages(layer), sinks - hidden[0], hidden[0])])
        if packed > hidden[1]:
            coded = [(self._packed.pages(layer), packed, hidden[1])]
            shift = centre_scores(self._packed.key_centres, layer, query, self._scale)
            states.add_packed(self.arm.key_codec, self.arm.value_codec, coded, [shift])
        if recent > hidden[2]:
            first = self._recent.layers[layer].first + hidden[2]
            states.add_half([(self._recent.pages(layer), recent - hidden[2], first)])
        self._scratch_bytes = max(self._scratch_bytes, states.nbytes)
        return states.merged(mask.sink_logits)[0]

    def buffers(self) -> dict[str, int]:
        """Bytes of every buffer that the cache holds, asked of the arrays themselves."""
        sizes = {f"{name}_pool": store.pool.buffer.nbytes for name, store in self.stores.items()}
        tables = {f"{name}_tables": store.table_bytes for name, store in self.stores.items()}
        return {**sizes, **tables, "scratch": self._scratch_bytes, "fixed_tables": self._fixed_bytes()}

    def _fixed_bytes(self) -> int:
        centres = self._packed.key_centres
        tables = [c.fixed_bytes(self.shape.head_dim) for c in (self.arm.key_codec, self.arm.value_codec)]
        return sum(tables) + (0 if centres is None else centres.nbytes)

    def ledger(self) -> Ledger:
        """Where the bytes are; ``total`` equals the sum of ``buffers()``."""
        shape, packed = self.shape, self._packed
        layout, used = packed.layout, packed.pool.in_use
        halves = {
            name: s.pool.in_use * s.layout.page_bytes
            for name, s in (("recent", self._recent), ("sinks", self._sinks))
        }
        idle = sum(
            (s.pool.capacity - s.pool.in_use) * s.layout.page_bytes
            for s in (self._sinks, packed, self._recent)
        )
        tables = sum(s.table_bytes for s in self.store_list)
        channels = 2 * shape.n_kv_heads * shape.head_dim
        compressed = self.arm.window is not None
        pages = layout if compressed else self._recent.layout
        nominal = [c.nominal_bits(shape.head_dim) for c in (self.arm.key_codec, self.arm.value_codec)]
        total = sum(self.buffers().values())
        n_tokens = self.live_tokens
        return Ledger(
            payload={name: used * shape.n_kv_heads * nbytes for name, nbytes in layout.streams}
            if compressed
            else {},
            headers=used * HEADER_BYTES,
            padding=used * (layout.page_bytes - HEADER_BYTES - layout.payload_bytes),
            idle=idle,
            recent=halves["recent"],
            sinks=halves["sinks"],
            block_tables=tables,
            scratch=self._scratch_bytes,
            fixed_tables=self._fixed_bytes(),
            total=total,
            decoded_shadow=sum(
                a.nbytes for a in held_arrays(self) if a.dtype.kind == "f" and a is not packed.key_centres
            ),
            n_tokens=n_tokens,
            tokens_compressed=packed.count(0),
            tokens_recent=self._recent.count(0),
            tokens_sink=self._sinks.count(0),
            bits_per_channel_nominal=sum(nominal) / 2,
            bits_per_channel_stored=8 * pages.page_bytes / (pages.page_tokens * channels),
            bits_per_channel_now=8 * total / (n_tokens * channels * shape.n_layers) if n_tokens else 0.0,
            baselines=baseline_bytes(shape, n_tokens),
        )
