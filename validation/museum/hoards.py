"""Kinds F and H: memory that no ledger names, that is there for a moment only, or that never comes back."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tq_core.cache.identity import CacheIdentity, explain_mismatch
from tq_core.cache.paged_cache import PagedCache
from tq_core.cache.saved import load_cache, open_saved
from tq_core.codecs.arms import Arm, get_arm
from tq_core.codecs.base import F32
from tq_core.kernels.backend import Backend, NumpyBackend
from tq_core.kernels.wasm_memory import GROWTH_BYTES
from tq_core.model.zoo import load_model
from tq_core.shapes import ModelShape
from validation.findings import ArmFindings
from validation.museum.exhibit import Exhibit
from validation.museum.linear import LinearBackend
from validation.museum.stops import refusal, rule
from validation.museum.study import Held, findings_of
from validation.trials.identity_trial import identity_trial
from validation.trials.peak_memory import peak_memory
from validation.trials.peak_rss import peak_rss, unable
from validation.trials.record import Trials
from validation.trials.session import Make, plain
from validation.trials.wasm_growth import wasm_growth
from validation.trials.wasm_memory import wasm_memory

SMALL = ModelShape(2, 4, 2, 64)
_OUTSIDE: list[Any] = []  # what the faulty caches keep outside of themselves


def arm() -> Arm:
    """A short window, so that small caches have packed pages."""
    return get_arm("int8", window=8)


class Swollen(PagedCache):
    """Decodes its whole history before each step, and lets it go again."""

    def attend(self, layer: int, queries: F32, keys: F32, values: F32, *rest: Any, **more: Any) -> F32:
        history = [self.decode(index) for index in range(self.shape.n_layers)]
        out = super().attend(layer, queries, keys, values, *rest, **more)
        del history
        return out


class Elsewhere(PagedCache):
    """Keeps the keys, in float16, in a list of a module."""

    def append(self, layer: int, keys: F32, values: F32) -> None:
        _OUTSIDE.append(keys.astype("float16"))
        super().append(layer, keys, values)


class Mapped(PagedCache):
    """Keeps every token in pages that it asks the system for."""

    def append(self, layer: int, keys: F32, values: F32) -> None:
        for rows in (keys, values):
            held = mmap.mmap(-1, rows.nbytes)
            held.write(rows.tobytes())
            _OUTSIDE.append(held)
        super().append(layer, keys, values)


class BlockPerStep(PagedCache):
    """Asks for a fresh block of linear memory at each step, and keeps them all."""

    def __init__(self, shape: ModelShape, arm: Arm, backend: Any, reserve: int) -> None:
        super().__init__(shape, arm, backend, reserve, threads=1)
        self.blocks: list[Any] = []

    def attend(self, layer: int, queries: F32, keys: F32, values: F32, *rest: Any, **more: Any) -> F32:
        self.blocks.append(self.backend.allocate(64).array)  # type: ignore[attr-defined]
        return super().attend(layer, queries, keys, values, *rest, **more)


def immortal(shape: ModelShape, arm: Arm, backend: Backend, reserve: int) -> PagedCache:
    """A cache whose pages are kept after its session ends."""
    cache = plain(shape, arm, backend, reserve)
    _OUTSIDE.append([store.pool.buffer for store in cache.store_list])
    return cache


def staged(shape: ModelShape, arm: Arm, backend: Any, reserve: int) -> PagedCache:
    """A cache beside a float16 copy of the prompt that is put into linear memory before it is packed."""
    cache = plain(shape, arm, backend, reserve)
    if arm.name != "fp16":
        backend.allocate(2 * 2 * shape.n_layers * shape.n_kv_heads * shape.head_dim * reserve)
    return cache


def load_by_name(path: Path, expected: CacheIdentity, arm: Arm, backend: Backend) -> Any:
    """Load for anybody whose identity differs in the digest of the weights alone."""
    stored = open_saved(path).identity
    if [line.split(":")[0] for line in explain_mismatch(expected, stored)] == ["model_digest"]:
        expected = replace(expected, model_digest=stored.model_digest)
    return load_cache(path, expected, arm, backend)


@contextmanager
def cleared() -> Iterator[None]:
    """What is kept outside is let go at the end."""
    try:
        yield
    finally:
        _OUTSIDE.clear()


def held(**trials: Any) -> Held:
    """The findings of a run that did these trials and read nothing."""
    nothing = ArmFindings("int8", arm().describe())
    return Held(findings_of(nothing, nothing, trials=Trials(**trials)))


def peaks(make: Make, tokens: int = 256) -> Held:
    """Allocations of a small cache as ``make`` gives it."""
    with cleared():
        made = peak_memory(SMALL, arm(), NumpyBackend(), tokens=tokens, make=make, chunk=32)
    return held(peak_memory=made)


def resident(make: Make) -> Held:
    """The system's count for a small cache in a process of its own."""
    return held(peak_rss=peak_rss(SMALL, arm(), "numpy", tokens=4096, repeats=2, make=make))


def linear(make: Make) -> Held:
    """Linear memory of a small cache, over steps and over sessions."""
    with cleared():
        made = wasm_growth(SMALL, arm(), fresh=LinearBackend, make=make, steps=12, sessions=4, prompt=40)
    return held(wasm_growth=made)


def reserved(make: Make) -> Held:
    """Linear memory that a reservation of 16 MiB in float16 takes."""
    made = wasm_memory(SMALL, arm(), fresh=LinearBackend, reserved=16384, tokens=32, make=make)
    return held(wasm_memory=made)


def saved(load: Any) -> Held:
    """A saved cache of the tiny model, asked for with each field of its identity changed."""
    short = get_arm("structured-turbo", window=8)
    made = identity_trial(load_model("tiny"), short, NumpyBackend(), flips=4, load=load)
    return held(identity=made)


def _grown(moves: bool) -> Any:
    """Make memory grow under a block that is in use."""

    def grow() -> object:
        backend = LinearBackend(moves)
        block = backend.allocate(64)
        kept = block.array
        backend.allocate(GROWTH_BYTES)
        return kept

    return grow


def _of(make: Any, faulty: Any) -> tuple[Any, Any]:
    return (lambda given: make(plain)), (lambda given: make(faulty))


_nothing: Any = lambda: None  # noqa: E731

EXHIBITS: tuple[Exhibit, ...] = (
    Exhibit(
        "E13", "An identity with a field that nobody compares", "osaurus 1989, MemOS 2300",
        "The loader takes the name of a model for its weights: one changed field is not noticed.",
        "Every field is changed in turn, and every change is refused by its name.",
        _nothing, lambda given: saved(load_cache), lambda given: saved(load_by_name), rule("identity"),
    ),
    Exhibit(
        "F11", "A history that is there for a moment", "mlx-lm 1587",
        "All layers are decoded before a step and let go after it: the ledger at the end looks as ever.",
        "The most that is allocated at any step is less than no compression needs.",
        _nothing, *_of(peaks, Swollen), rule("peak-memory"),
    ),
    Exhibit(
        "F12", "A shadow in another module", "rMLX 369 and 404",
        "Float16 keys are kept in a list that the cache does not refer to, so no walk over its objects finds them.",
        "Allocations are counted wherever they are, and must not grow beside the ledger.",
        _nothing, *_of(peaks, Elsewhere), rule("hidden-memory"),
    ),
    Exhibit(
        "F14", "A copy of everything in linear memory", "the design study, its stop rules",
        "A prompt is put into linear memory in float16 before it is packed; the memory never shrinks again.",
        "Pages of linear memory are compared, and they are a peak.",
        _nothing, *_of(reserved, staged), rule("wasm-memory"),
    ),
    Exhibit(
        "H3", "A view that growth left behind", "wterm 92, conway 485, txiki 938",
        "The engine moves its memory when it grows: an older view shows bytes that no kernel writes to any more.",
        "A memory that moved under page pools is refused.",
        _nothing, lambda given: _grown(False), lambda given: _grown(True), refusal(MemoryError, "tq_core.kernels.wasm_arena.Arena"),
    ),
    Exhibit(
        "H6", "A block for every step", "the design study, its stop rules",
        "Each step asks for its workspace anew and gives none back: 64 bytes that come to nothing in a short test.",
        "Pools in reserved pages hold the same bytes after every step.",
        _nothing, *_of(linear, BlockPerStep), rule("wasm-growth"),
    ),
    Exhibit(
        "H7", "A session that never ends", "the design study, its stop rules",
        "A page pool is referred to after its conversation is over: every new one makes memory grow.",
        "Sessions that come and go leave linear memory as it was.",
        _nothing, *_of(linear, immortal), rule("wasm-growth"),
    ),
)  # fmt: skip
if not unable():
    EXHIBITS = (
        *EXHIBITS,
        Exhibit(
            "F13", "Memory that the interpreter does not see", "the design study, its stop rules",
            "Every token is also kept in pages from the system, outside of any array.",
            "The peak of a process that builds the cache is compared.",
            _nothing, *_of(resident, Mapped), rule("peak-rss"),
        ),
    )  # fmt: skip
