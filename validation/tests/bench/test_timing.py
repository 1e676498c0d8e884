"""The timing protocol, with a clock that the test turns."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from validation.bench.timing import (
    CALLS_MAX,
    Samples,
    Timed,
    calibrate,
    calls_per_burst,
    measure,
    order,
    paired_ratio,
)


@dataclass
class World:
    """Time passes only when somebody works; ``log`` says who worked how often."""

    now: int = 0
    log: list[tuple[str, int]] = field(default_factory=list)

    def clock(self) -> int:
        return self.now

    def contestant(self, name: str, ns: int, slower_from: int | None = None) -> Timed:
        def burst(calls: int) -> None:
            self.log.append((name, calls))
            drift = 3 if slower_from is not None and len(self.log) > slower_from else 1
            self.now += calls * ns * drift

        return Timed(name, burst, self.clock)


def test_a_sample_is_time_per_call_after_one_untimed_call() -> None:
    world = World()
    assert world.contestant("a", 250).sample(8) == 250
    assert world.log == [("a", 1), ("a", 8)]


def test_order_turns_around_and_everybody_is_in_every_round() -> None:
    assert [order(3, r) for r in range(6)] == [
        [0, 1, 2],
        [2, 1, 0],
        [1, 2, 0],
        [0, 2, 1],
        [2, 0, 1],
        [1, 0, 2],
    ]
    for n in (1, 2, 5):
        assert all(sorted(order(n, r)) == list(range(n)) for r in range(12))
        # Over 2n rounds everybody is first and last equally often.
        firsts, lasts = ([order(n, r)[at] for r in range(2 * n)] for at in (0, -1))
        assert {firsts.count(i) for i in range(n)} == {lasts.count(i) for i in range(n)} == {2}


def test_rounds_are_interleaved() -> None:
    world = World()
    measure([world.contestant("a", 1000), world.contestant("b", 2000)], 2, 1e-5, 1.0)
    timed = [name for name, calls in world.log if calls > 1]
    assert timed[-4:] == ["a", "b", "b", "a"]


def test_burst_length_follows_the_speed() -> None:
    assert calls_per_burst(1000.0, 0.001) == 1000
    assert calls_per_burst(1e12, 0.001) == 1
    assert calls_per_burst(0.0, 10.0) == CALLS_MAX
    world = World()
    found = measure([world.contestant("fast", 100), world.contestant("slow", 10_000)], 7, 1e-4, 1.0)
    assert [s.calls for s in found] == [1000, 10]
    assert [s.ns for s in found] == [[100.0] * 7, [10_000.0] * 7]


def test_one_that_is_too_slow_drops_out_with_a_reason() -> None:
    world = World()
    found = measure([world.contestant("glacier", 3_000_000_000), world.contestant("a", 10)], 7, 1e-6, 2.0)
    assert found[0].ns == [] and found[0].reason == "one call takes 3.00 s, the limit is 2 s"
    assert len(found[1].ns) == 7 and not found[1].reason


def test_one_that_fails_midway_drops_out_and_the_others_go_on() -> None:
    world = World()
    left = [6]

    def burst(calls: int) -> None:
        left[0] -= 1
        world.now += calls
        if left[0] < 0:
            raise ValueError("gone")

    found = measure([Timed("bad", burst, world.clock), world.contestant("a", 10)], 7, 1e-6, 2.0)
    assert found[0].ns == [] and found[0].reason == "ValueError: gone"
    assert len(found[1].ns) == 7


def test_drift_leaves_the_paired_ratio_alone() -> None:
    world = World()
    a, b = measure([world.contestant("a", 100, 20), world.contestant("b", 200, 20)], 9, 1e-6, 1.0)
    assert max(a.ns) == 3 * min(a.ns)
    assert paired_ratio(b, a)[0] == 2.0


def test_median_and_deviation() -> None:
    samples = Samples("a", 1, [1.0, 2.0, 3.0, 4.0, 100.0])
    assert (samples.median, samples.mad) == (3.0, 1.0)


def test_calibration_does_not_trust_a_slow_first_call() -> None:
    world, seen = World(), [0]

    def burst(calls: int) -> None:
        seen[0] += 1
        world.now += calls * (1_000_000 if seen[0] <= 2 else 100)

    assert calibrate(Timed("jit", burst, world.clock), 1e-4, 1.0).calls == pytest.approx(1000)
