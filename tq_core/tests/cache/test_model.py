"""Random calls against a list of vectors: whatever the order, every live token is readable and no page is lost."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tq_core.shapes import ModelShape
from tq_core.tests.cache.test_boundaries import check_everything, check_headers
from tq_core.tests.cache.test_lifecycle import pools_are_consistent
from tq_core.tests.cache.worlds import ARMS, exact_attention, make, tokens

SHAPE = ModelShape(n_layers=1, n_query_heads=3, n_kv_heads=1, head_dim=32)


class CacheMachine(RuleBasedStateMachine):
    """Append, attend, bad calls and reset on one cache, with the tokens kept in plain arrays beside it."""

    name = ""
    tokens_compressed: list[int]

    @initialize(
        window=st.sampled_from([0, 1, 30]),
        sinks=st.sampled_from([0, 2]),
        reserve=st.sampled_from([0, 50]),
    )
    def start(self, window: int, sinks: int, reserve: int) -> None:
        self.cache = make(self.name, SHAPE, reserve, window=window, sinks=sinks)
        self.seed = 0
        self.forget()

    def forget(self) -> None:
        self.q, self.k, self.v = (np.zeros((0, heads, 32), np.float32) for heads in (3, 1, 1))

    def more(self, n: int) -> tuple[np.ndarray, ...]:
        self.seed += 1
        new = tokens(n, SHAPE, self.seed)
        self.q, self.k, self.v = (np.concatenate([old, x]) for old, x in zip((self.q, self.k, self.v), new))
        return new

    @rule(n=st.sampled_from([0, 1, 2, 31, 33, 70]))
    def append(self, n: int) -> None:
        _, k, v = self.more(n)
        self.cache.append(0, k, v)

    @rule(n=st.integers(1, 4))
    def attend(self, n: int) -> None:
        q, k, v = self.more(n)
        out = self.cache.attend(0, q, k, v)
        np.testing.assert_allclose(out[-1], exact_attention(SHAPE, q[-1], *self.cache.decode(0)), atol=2e-4)

    @rule(place=st.integers(0, 1))
    def refused(self, place: int) -> None:
        bad: list[Any] = list(tokens(5, SHAPE)[1:])
        bad[place][4] = np.nan
        with pytest.raises(ValueError, match="expected finite values"):
            self.cache.append(0, *bad)

    @rule()
    def reset(self) -> None:
        self.cache.reset()
        self.forget()

    @invariant()
    def everything_is_there(self) -> None:
        self.tokens_compressed.append(self.cache.ledger().tokens_compressed)
        assert pools_are_consistent(self.cache)
        check_headers(self.cache)
        if len(self.k):
            check_everything(self.cache, self.k, self.v, self.q[-1])
        else:
            assert self.cache.length == 0


@pytest.mark.parametrize("name", ARMS)
def test_random_calls(name: str) -> None:
    machine = type(f"Machine_{name}", (CacheMachine,), {"name": name, "tokens_compressed": []})
    run_state_machine_as_test(
        machine,
        settings=settings(max_examples=20, stateful_step_count=12, deadline=None, derandomize=True),
    )
    most = max(machine.tokens_compressed)
    assert most == 0 if name == "fp16" else most > 100  # else the examples were too tame to mean anything
