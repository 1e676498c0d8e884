"""Random lives of a family of caches: grown, taken back, slid, forked, reordered, stopped half-way, forgotten.

TQ_LIFECYCLE_STEPS sets how many calls are made over all arms (`make lifecycle` makes 10,000).
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tq_core.cache.beams import bytes_together, reorder
from tq_core.cache.paged_cache import PagedCache
from tq_core.errors import CacheStateError, TqError
from tq_core.kernels.backend import Backend, NumpyBackend, get_backend
from tq_core.tests.cache.invariants import check_consistent, image
from tq_core.tests.cache.plain import KEYS, SHAPE, Plain, add, attend, rows
from tq_core.tests.cache.worlds import arm

STEPS = int(os.environ.get("TQ_LIFECYCLE_STEPS", "0"))
LENGTH = 50 if STEPS else 25
MOST_TOKENS, MOST_CACHES = 420, 4
MACHINE_ARMS = ("structured-turbo", "kivi-control", "fp16", "paged-halves")
which, counts = st.integers(0, MOST_CACHES - 1), st.sampled_from([1, 2, 5, 31, 33, 70])


class CacheFamily(RuleBasedStateMachine):
    """Caches that share pools, each beside the plain list of its tokens."""

    name: str
    backend: Backend
    calls: Counter[str]

    @initialize(
        window=st.sampled_from([0, 1, 30, 40]),
        sinks=st.sampled_from([0, 2, 33]),
        reserve=st.sampled_from([0, 90]),
        n=st.sampled_from([0, 50, 135, 230]),
    )
    def start(self, window: int, sinks: int, reserve: int, n: int) -> None:
        self.arm = arm(self.name, window=window, sinks=sinks)
        self.caches = [PagedCache(SHAPE, self.arm, self.backend, reserve, identity="a")]
        self.plains = [Plain(self.arm, self.backend)]
        self.next_id = 0
        self.append(0, n)

    def pick(self, i: int) -> tuple[PagedCache, Plain]:
        i %= len(self.caches)
        return self.caches[i], self.plains[i]

    def new_ids(self, n: int, plain: Plain) -> list[int]:
        n = min(n, MOST_TOKENS - len(plain.ids))
        self.next_id = (self.next_id + n) % (len(KEYS) - 100)
        return list(range(self.next_id, self.next_id + n))

    def count(self, call: str) -> None:
        self.calls[call] += 1

    @rule(i=which, n=counts)
    def grow(self, i: int, n: int) -> None:
        self.append(i, n)

    @rule(i=which, n=counts)
    def grow_more(self, i: int, n: int) -> None:
        self.append(i, n)

    def append(self, i: int, n: int) -> None:
        self.count("append")
        cache, plain = self.pick(i)
        ids = self.new_ids(n, plain)
        add(cache, ids)
        plain.ids += ids

    @rule(i=which, n=st.integers(1, 4))
    def attend(self, i: int, n: int) -> None:
        self.count("attend")
        cache, plain = self.pick(i)
        ids = self.new_ids(n, plain)
        before = plain.reference() if plain.exact else None
        got = attend(cache, ids)
        plain.ids += ids
        if before is not None:
            assert got == attend(before, ids)

    @rule(i=which, n=counts, layer=st.integers(0, 1))
    def stopped(self, i: int, n: int, layer: int) -> None:
        self.count("stopped")
        cache, plain = self.pick(i)
        ids = self.new_ids(n, plain)
        before = image(cache)
        with pytest.raises(KeyboardInterrupt), cache.step():
            cache.append(0, *rows(0, ids)[1:])
            if layer:
                cache.attend(1, *rows(1, ids[:2]))
            raise KeyboardInterrupt
        assert image(cache) == before

    @rule(i=which, share=st.floats(0, 1))
    def truncate(self, i: int, share: float) -> None:
        cache, plain = self.pick(i)
        n = len(plain.ids)
        gone = n - cache.live_tokens
        least = plain.checkpoint if plain.checkpoint is not None else gone + self.arm.sinks if gone else 0
        self.count("truncate")
        length = max(least, n - int(share * share * 200)) if n else 0
        cache.truncate(length)
        plain.cut(length)

    @rule(i=which)
    def checkpoint(self, i: int) -> None:
        self.count("checkpoint")
        cache, plain = self.pick(i)
        if plain.checkpoint is None:
            assert cache.checkpoint().length == len(plain.ids)
            plain.checkpoint = len(plain.ids)
        else:
            with pytest.raises(CacheStateError):
                cache.checkpoint()

    def with_checkpoint(self) -> list[int]:
        return [i for i, plain in enumerate(self.plains) if plain.checkpoint is not None]

    @precondition(lambda self: self.with_checkpoint())
    @rule(i=which, share=st.floats(0, 1))
    def commit(self, i: int, share: float) -> None:
        self.count("commit")
        cache, plain = self.pick(self.with_checkpoint()[i % len(self.with_checkpoint())])
        opened, n = cache.open_checkpoint, len(plain.ids)
        assert opened is not None and plain.checkpoint is not None
        length = n - int(share * (n - plain.checkpoint))
        opened.commit(length)
        plain.cut(length)
        plain.checkpoint = None

    @precondition(lambda self: self.with_checkpoint())
    @rule(i=which)
    def rollback(self, i: int) -> None:
        self.count("rollback")
        cache, plain = self.pick(self.with_checkpoint()[i % len(self.with_checkpoint())])
        opened = cache.open_checkpoint
        assert opened is not None and plain.checkpoint is not None
        opened.rollback()
        plain.cut(plain.checkpoint)
        plain.checkpoint = None

    @rule(i=which, keep=st.sampled_from([0, 3, 60, 150, 500]))
    def slide(self, i: int, keep: int) -> None:
        self.count("slide")
        cache, plain = self.pick(i)
        if plain.checkpoint is not None:
            return
        before, sinks = cache.live_tokens, min(len(plain.ids), self.arm.sinks)
        dropped = cache.slide(keep)
        left = before - sinks - dropped
        assert cache.live_tokens == before - dropped
        assert left >= min(keep, before - sinks)
        assert left < keep + cache.stores["packed"].layout.page_tokens or dropped == 0
        if dropped:
            plain.slides.append((len(plain.ids), keep))
            plain.twin = None

    @precondition(lambda self: len(self.caches) < MOST_CACHES)
    @rule(i=which)
    def fork(self, i: int) -> None:
        self.count("fork")
        cache, plain = self.pick(i)
        used = [s.pool.in_use for s in cache.store_list]
        self.caches.append(cache.fork())
        self.plains.append(plain.copy())
        assert used == [s.pool.in_use for s in cache.store_list]

    @precondition(lambda self: len(self.caches) > 1)
    @rule(i=which, politely=st.booleans())
    def part(self, i: int, politely: bool) -> None:
        self.count("part")
        i %= len(self.caches)
        cache = self.caches.pop(i)
        del self.plains[i]
        cache.close()
        with pytest.raises(CacheStateError, match="closed"):
            cache.fork() if politely else add(cache, [1])

    @precondition(lambda self: not self.with_checkpoint())
    @rule(data=st.data())
    def reorder(self, data: Any) -> None:
        self.count("reorder")
        n = len(self.caches)
        beams = data.draw(st.lists(st.integers(0, n - 1), min_size=n, max_size=n))
        reorder(self.caches, beams)
        old = self.plains
        self.plains = [old[b] if i == b else old[b].copy() for i, b in enumerate(beams)]

    @rule(i=which, other=st.booleans(), rarely=st.integers(0, 3))
    def reset(self, i: int, other: bool, rarely: int) -> None:
        if rarely < 3:
            return self.append(i, 9)
        self.count("reset")
        i %= len(self.caches)
        cache = self.caches[i]
        if not other:
            cache.reset()
        elif not cache.switch_model("a" if cache.identity == "b" else "b"):
            raise AssertionError("another model's tokens were kept")
        self.plains[i] = Plain(self.arm, self.backend)
        return None

    @rule(i=which, call=st.integers(0, 5))
    def refused(self, i: int, call: int) -> None:
        self.count("refused")
        cache, plain = self.pick(i)
        before = image(cache)
        bad = [
            lambda: cache.truncate(len(plain.ids) + 1),
            lambda: cache.truncate(-1),
            lambda: cache.slide(-1),
            lambda: cache.append(0, KEYS[:2] * float("nan"), KEYS[:2]),
            lambda: reorder(self.caches, [len(self.caches)] * len(self.caches)),
            lambda: cache.require_model("c"),
        ][call]
        with pytest.raises(TqError, match="expected .*, got "):
            bad()
        assert image(cache) == before

    @invariant()
    def everything_holds(self) -> None:
        check_consistent(*self.caches)
        for cache, plain in zip(self.caches, self.plains, strict=True):
            assert (cache.open_checkpoint is not None) == (plain.checkpoint is not None)
            plain.check(cache)
        first = self.caches[0].ledger()
        parts = first.headers + first.padding + first.idle + first.recent + first.sinks + first.block_tables
        assert first.total == parts + sum(first.payload.values()) + first.scratch + first.fixed_tables
        pools = sum(s.pool.nbytes for s in self.caches[0].store_list)
        assert bytes_together(self.caches) >= pools


@pytest.mark.parametrize("name", [pytest.param(MACHINE_ARMS[0], marks=pytest.mark.slow), *MACHINE_ARMS[1:]])
def test_random_lives(name: str) -> None:
    wanted = -(-STEPS // len(MACHINE_ARMS)) or 100
    examples = -(-5 * wanted // (4 * LENGTH)) + 3  # some lives end early
    backend = get_backend() if STEPS else NumpyBackend()
    fields: dict[str, Any] = {"name": name, "backend": backend, "calls": Counter()}
    machine = type(f"Family_{name}", (CacheFamily,), fields)
    rules = settings(
        max_examples=examples, stateful_step_count=LENGTH, deadline=None, derandomize=True,
        suppress_health_check=list(HealthCheck), database=None, phases=[Phase.generate],
    )  # fmt: skip
    run_state_machine_as_test(machine, settings=rules)
    calls = fields["calls"]
    print(f"{name}: {sum(calls.values())} calls, {dict(sorted(calls.items()))}")
    assert sum(calls.values()) >= wanted
    assert len(calls) >= (13 if STEPS else 9)  # else the lives were too tame to mean anything
