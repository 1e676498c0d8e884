"""What is measured: shapes, lengths, states and threads, and how often."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

KIB, MIB = 1024, 1024 * 1024
COLD_BYTES = 256 * MIB
COLD_CACHES = 8  # a cold rotation exceeds the last-level cache this many times
REPEATS_MIN = 7


@dataclass(frozen=True)
class Shape:
    """One layer's attention shape. ``n_query_heads`` is a multiple of ``n_kv_heads``."""

    name: str
    n_query_heads: int
    n_kv_heads: int
    head_dim: int


SHAPES = {
    s.name: s
    for s in (
        Shape("llama-8b", 32, 8, 128),
        Shape("smollm2", 9, 3, 64),
        Shape("gemma-3-270m", 4, 1, 256),
    )
}
REFERENCE_SHAPE = "llama-8b"  # ratios and targets are about this one
REFERENCE_TOKENS = 8192  # and about histories from here on
STATES = ("warm", "cold")  # one layer read again and again, or many in turn


@dataclass(frozen=True)
class Cell:
    """Conditions that all contestants of one comparison share."""

    shape: Shape
    tokens: int
    threads: int
    state: str


@dataclass(frozen=True)
class Plan:
    """A whole run. Times are seconds; ``sample_seconds`` is how long one sample's burst of calls should take."""

    name: str
    shapes: tuple[str, ...]
    tokens: tuple[int, ...]
    threads: tuple[int, ...]
    states: tuple[str, ...]
    repeats: int
    sample_seconds: float
    call_limit: float  # one call may not take longer
    time_limit: float  # cells that have not begun by then are left out, and named
    cold_bytes: int = COLD_BYTES
    bandwidth_bytes: int = 1024 * MIB
    parts: bool = True
    wasm: bool = True
    peers: bool = True
    peer_threads: tuple[int, ...] = (1, 2)  # thread counts at which peers are asked too
    peer_names: tuple[str, ...] = ()  # empty: all

    def cells(self) -> Iterator[Cell]:
        """Every cell, the reference's first: a run that is cut short has measured what matters."""
        made = [
            Cell(SHAPES[s], t, n, state)
            for s in self.shapes
            for t in self.tokens
            for n in self.threads
            for state in self.states
        ]
        order = [*sorted({c.tokens for c in made}, key=lambda t: (t < REFERENCE_TOKENS, t))]
        return iter(
            sorted(made, key=lambda c: (c.shape.name != REFERENCE_SHAPE, c.threads, order.index(c.tokens)))
        )

    def as_dict(self) -> dict[str, Any]:
        """JSON-able form."""
        return asdict(self)


FULL = Plan(
    name="full",
    shapes=tuple(SHAPES),
    tokens=(1 * KIB, 8 * KIB, 32 * KIB, 128 * KIB),
    threads=(1, 2),
    states=STATES,
    repeats=15,
    sample_seconds=0.005,
    call_limit=2.5,
    time_limit=5400.0,
)
QUICK = Plan(
    name="quick",
    shapes=(REFERENCE_SHAPE,),
    tokens=(8 * KIB,),
    threads=(1, 2),
    states=STATES,
    repeats=REPEATS_MIN,
    sample_seconds=0.003,
    call_limit=0.15,
    time_limit=75.0,
    peer_threads=(1,),
    bandwidth_bytes=256 * MIB,
)


def layers_for(state: str, layer_bytes: int, cold_bytes: int, cache_bytes: int) -> int:
    """Layers to rotate over: one when warm, else enough to exceed both limits together."""
    if state == "warm":
        return 1
    wanted = max(cold_bytes, COLD_CACHES * cache_bytes)
    return -(-wanted // layer_bytes)
