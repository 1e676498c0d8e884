"""What can happen to a cache besides growing: taking back, sliding, forking, forgetting, changing the model.

Every call happens as a whole or not at all: an error, MemoryError or KeyboardInterrupt leaves the cache as it was.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from tq_core.cache.checkpoint import Checkpoint
from tq_core.cache.layer_pages import Step
from tq_core.cache.rewind import end_position, rewind_layer, slide_layer, start_position
from tq_core.cache.store import PageStore
from tq_core.cache.transaction import OpenStep, commit, touch, undo
from tq_core.codecs.arms import Arm
from tq_core.errors import CacheStateError, DTypeError, IdentityMismatch, ValueRangeError, check
from tq_core.shapes import ModelShape

Self = TypeVar("Self", bound="Lifecycle")
T = TypeVar("T")


def check_count(name: str, value: object, low: int, high: int, expected: str) -> None:
    """Raise ValueRangeError unless value is an integer in low..high."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    check(whole and low <= value <= high, name, expected, repr(value), ValueRangeError)  # type: ignore[operator]


class Lifecycle:
    """The part of a PagedCache that manages tokens without reading them; ``identity`` names what made them."""

    def __init__(
        self, shape: ModelShape, arm: Arm, stores: Sequence[PageStore], identity: str | None
    ) -> None:
        check(identity is None or isinstance(identity, str), "identity", "a str", repr(identity), DTypeError)
        self.shape, self.arm, self.identity = shape, arm, identity
        self._sinks, self._packed, self._recent = stores
        self.steps: list[Step] = []
        self._checkpoint: Checkpoint | None = None
        self._closed = False

    @property
    def store_list(self) -> tuple[PageStore, PageStore, PageStore]:
        """The stores in token order: sinks, packed, recent."""
        return self._sinks, self._packed, self._recent

    @property
    def stores(self) -> dict[str, PageStore]:
        """The page stores by name, in token order: sinks, packed, recent. To look at, not to change."""
        return dict(zip(("sinks", "packed", "recent"), self.store_list))

    @property
    def length(self) -> int:
        """Sequence position of the next token: tokens of every layer so far, those that slid away included.

        Layers differ only while a forward pass runs; then it is the shortest one's.
        """
        return min(self._length(layer) for layer in range(self.shape.n_layers))

    @property
    def live_tokens(self) -> int:
        """Tokens that can still be read: ``length`` without those that slid away."""
        return min(sum(s.count(layer) for s in self.store_list) for layer in range(self.shape.n_layers))

    def _length(self, layer: int) -> int:
        return end_position(self.arm, self.store_list, layer)

    def step(self) -> OpenStep:
        """``with cache.step():`` makes all that is appended inside one step: left by an exception, none of it happened.

        Layers may be at different lengths. While a step is open only attend, append and reading are allowed.
        """
        self._check_open()
        return OpenStep(self)

    def truncate(self, length: int) -> None:
        """Take back all tokens from position ``length`` on, in every layer; whole or not at all.

        Packed tokens that the window at this length would hold go back to float16 where their rows are still there:
        always when no token has left the window since, or when a checkpoint was open. The cache is then, bit for
        bit, one that never saw the tokens. Rows that are gone stay packed and the window is shorter; as soon as
        it is full again, every byte is as without the rollback. Where a group of flush_tokens is cut
        whose rows are gone, up to flush_tokens - 1 tokens return to the window as their codes decode. Raises
        ValueRangeError for a length that is negative, beyond ``length``, or among tokens that slid away, and
        CacheStateError inside an open step or before an open checkpoint.
        """
        self.check_idle("truncate", checkpoint=True)
        self._check_length(length)
        opened = self.open_checkpoint
        least = max(opened.lengths) if opened else 0
        check(length >= least, "length", f"{least} or more, the checkpoint", length, CacheStateError)
        self.rewind([length] * self.shape.n_layers)

    def _check_length(self, length: int) -> None:
        start = max(start_position(self.store_list, layer) for layer in range(self.shape.n_layers))
        sinks, end = self.arm.sinks, self.length
        ranges = f"0..{end}" if start <= sinks else f"0..{sinks} or {start}..{end}"
        check_count("length", length, 0, end, ranges)
        check(length <= sinks or length >= start, "length", ranges, length, ValueRangeError)

    def rewind(self, lengths: Sequence[int]) -> None:
        """Take back what each layer holds beyond its length; for checkpoints, who keep the rows that this needs."""

        def body(layer: int) -> None:
            if self._length(layer) > lengths[layer]:
                rewind_layer(self.arm, self.store_list, layer, int(lengths[layer]))

        self._whole(body, tidy=True)

    def slide(self, keep_tokens: int) -> int:
        """Drop the oldest tokens behind the sinks while ``keep_tokens`` of them remain; the most that a layer dropped.

        Packed tokens go page by page, so up to a page more than ``keep_tokens`` may stay; all of them go when the
        window alone holds enough. ``length`` does not change: positions go on. Raises ValueRangeError for a
        count that is not 0 or more, CacheStateError inside an open step or checkpoint.
        """
        self.check_idle("slide")
        check_count("keep_tokens", keep_tokens, 0, 2**63, "a count of tokens, 0 or more")
        return max(self._whole(lambda layer: slide_layer(self.store_list, layer, int(keep_tokens))))

    def _whole(self, body: Callable[[int], T], tidy: bool = False) -> list[T]:
        """Run ``body`` for every layer as one step."""
        step = Step()
        try:
            out = []
            for layer in range(self.shape.n_layers):
                touch(self.store_list, step, layer)
                out.append(body(layer))
            commit(self.store_list, step, tidy)
            return out
        except BaseException:
            undo(self.store_list, step)
            raise

    def checkpoint(self) -> Checkpoint:
        """Keep the float16 rows of every token from now on, so that ``truncate`` is exact down to this length.

        Attention does not change: tokens leave the window as ever. The rows are in the ledger (recent) until
        ``commit`` or ``rollback``. Raises CacheStateError inside an open step or checkpoint.
        """
        self.check_idle("checkpoint")
        self._checkpoint = Checkpoint(self, [self._length(layer) for layer in range(self.shape.n_layers)])
        self._recent.retained = tuple(state.table.head for state in self._recent.layers)
        return self._checkpoint

    @property
    def open_checkpoint(self) -> Checkpoint | None:
        """The checkpoint that is open now."""
        return self._checkpoint if self._recent.retained else None

    def end_checkpoint(self) -> None:
        """Give back the rows that the open checkpoint kept; nothing happens without one."""
        try:
            self._recent.release_retained()
        except BaseException:
            self._recent.pool.recount()
            raise

    def fork(self: Self) -> Self:
        """A second cache with the same tokens, in the same pages of the same pools.

        Pages are copied when either cache writes to them. ``close`` the fork when it is done with. An open
        checkpoint stays with this cache. Raises CacheStateError inside an open step.
        """
        self.check_idle("fork", checkpoint=True)
        made: list[PageStore] = []
        try:
            for store in self.store_list:
                made.append(store.fork())
            other = copy.copy(self)
            other.steps, other._checkpoint = [], None
            other._sinks, other._packed, other._recent = made
            for store in made:
                store.pool.adopt(store)
            return other
        except BaseException:
            for store in made:
                store.layers = store.empty_layers()
            for store in self.store_list:
                store.pool.recount()
            raise

    def reset(self) -> None:
        """Forget all tokens and end an open checkpoint; the pools keep their memory. CacheStateError inside a step."""
        self.check_idle("reset", checkpoint=True)
        before = [(store.layers, store.retained) for store in self.store_list]
        try:
            for store in self.store_list:
                store.layers, store.retained = store.empty_layers(), ()
            for store in self.store_list:
                store.pool.recount()
        except BaseException:
            for store, (layers, retained) in zip(self.store_list, before):
                store.layers, store.retained = layers, retained
                store.pool.recount()
            raise

    def close(self) -> None:
        """Forget all tokens and refuse further calls; closing twice is fine. CacheStateError inside a step."""
        if not self._closed:
            self.reset()
            self._closed = True

    def switch_model(self, identity: str) -> bool:
        """Go over to another model or adapter; True when the tokens were forgotten, because they were not its own."""
        self.check_idle("switch_model", checkpoint=True)
        check(isinstance(identity, str), "identity", "a str", repr(identity), DTypeError)
        changed = identity != self.identity
        if changed:
            self.reset()
            self.identity = identity
        return changed

    def require_model(self, identity: str) -> None:
        """Raise IdentityMismatch, forgetting nothing, unless the tokens are of this model and adapter."""
        self._check_open()
        check(identity == self.identity, "identity", repr(self.identity), repr(identity), IdentityMismatch)

    def _check_open(self) -> None:
        check(not self._closed, "cache", "an open cache", "a closed one", CacheStateError)

    def check_idle(self, call: str, checkpoint: bool = False) -> None:
        """Raise CacheStateError when closed, inside a step, or (unless allowed) while a checkpoint is open."""
        self._check_open()
        check(not self.steps, call, "no open step", "a call inside one", CacheStateError)
        busy = self.open_checkpoint is not None and not checkpoint
        check(not busy, call, "no open checkpoint", "a call inside one", CacheStateError)
