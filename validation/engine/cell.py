"""One prompt read by some arms: pure and deterministic, so that it can be kept, repeated, or done on another machine.

Every arm is forced on the same tokens, so its errors pass through all layers and positions while the text stays the same.
Replies are free: they show where an arm's own words part from the reference's.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.arms import Arm
from tq_core.codecs.calibration import Calibration
from tq_core.kernels.backend import Backend, get_backend
from tq_core.model.exact_cache import ExactCache
from tq_core.model.interface import LanguageModel
from tq_core.model.sampling import Sampling
from validation.buffers import held_bytes
from validation.engine.continuations import log_probability, reply
from validation.engine.reading import Held, Reading
from validation.engine.reference_store import Read, ReferenceRead, References, reference_key
from validation.evaluate import LayerRecorder, probe_attention
from validation.logit_scores import Reference, TokenScores
from validation.simulate import SimulatedCache
from validation.workloads.prompt import Prompt

CHUNK_TOKENS = 64
SIMULATED_CHUNK = 512
SAMPLING = {"temperature": 0.8, "top_p": 0.95}
ALIGNMENT_BYTES = 3 * 64  # three pools, each moved to a 64-byte boundary inside its block
SINGLE_ENTRIES = ("headers", "padding", "idle", "recent", "sinks", "block_tables", "scratch", "fixed_tables")
REFERENCE, SOURCE = "reference", "float32"  # labels of readings; the reference is the uncompressed arm
Kind = Literal["paged", "simulated", "source"]


@dataclass(frozen=True)
class Seat:
    """An arm in a run. kind: "paged" is the product's cache; "simulated" the same codecs in matrix products; "source" the
    model's own float32 cache, which shares no code with the pages. flush: tokens that leave the window together, where a
    simulated arm is given another mask than its own. replies: whether it also answers freely.
    """

    label: str
    arm: Arm
    kind: Kind = "paged"
    flush: int | None = None
    replies: bool = True


@dataclass(frozen=True)
class Job:
    """Readings of one prompt. reference: the uncompressed arm; layers: those whose attention is compared, may be empty;
    sampling: seeds of drawn replies; fresh: the reference is read even where it is kept."""

    prompt: Prompt
    reference: Arm
    seats: tuple[Seat, ...]
    layers: tuple[int, ...] = ()
    sampling: tuple[int, ...] = ()
    backend: str | None = None
    fresh: bool = False


def account(cache: PagedCache) -> Held:
    """The ledger of a cache beside the buffers that it really holds."""
    ledger = cache.ledger().as_dict()
    held = held_bytes(cache, skip=lambda item: item is cache.backend or isinstance(item, Calibration))
    named = ledger["total"] - ledger["scratch"] - ledger["fixed_tables"]
    unaccounted = abs(held - named) if held < named else max(0, held - named - ALIGNMENT_BYTES)
    parts = int(np.sum([ledger[name] for name in SINGLE_ENTRIES])) + sum(ledger["payload"].values())
    return Held(ledger, held, unaccounted, parts)


def _feed(
    model: LanguageModel, tokens: np.ndarray, cache: Any, keep_from: int, chunk: int
) -> list[np.ndarray]:
    """Feed tokens; logits of the tokens from index ``keep_from`` on."""
    kept = []
    for start in range(0, len(tokens), chunk):
        logits = model.forward(tokens[start : start + chunk], cache)
        if start + len(logits) > keep_from:
            kept.append(logits[max(0, keep_from - start) :])
    return kept


def _read(
    model: LanguageModel,
    prompt: Prompt,
    cache: Any,
    job: Job,
    forced: np.ndarray | None,
    free: bool,
    chunk: int,
) -> Read:
    """Read a prompt with an empty cache. ``forced`` is the answer, None where the greedy reply becomes it."""
    begun = time.perf_counter()
    first = prompt.scored_from - 1
    kept = _feed(model, prompt.tokens, cache, first, chunk)
    last = kept[-1][-1]
    inner = cache.cache if isinstance(cache, LayerRecorder) else cache
    held = account(inner) if isinstance(inner, PagedCache) else None
    alternatives, generated, sampled = np.zeros(0), None, {}
    if not isinstance(inner, ExactCache):
        alternatives = np.array([log_probability(model, inner, last, a) for a in prompt.alternatives])
    if free and prompt.new_tokens:
        generated = reply(model, inner, last, prompt.new_tokens, prompt.stop_ids, Sampling())
        for seed in job.sampling:
            drawn = Sampling(seed=seed, **SAMPLING)
            sampled[str(seed)] = reply(model, inner, last, prompt.new_tokens, prompt.stop_ids, drawn)
    answer = forced if forced is not None else _with_end(prompt, generated or [])
    if len(answer) > 1:
        kept += _feed(model, answer[:-1], cache, 0, chunk)
    logits = np.concatenate(kept)[: len(prompt.tokens) + len(answer) - prompt.scored_from]
    return Read(logits, alternatives, generated, sampled, held, answer, time.perf_counter() - begun)


def compute(
    job: Job, model: LanguageModel, backend: Backend | None = None, references: References | None = None
) -> Iterator[tuple[str, Reading]]:
    """(label, reading) of the reference and of every seat. Raises the cache's errors for an arm that the model cannot have.

    references: where the reference's side is kept, the default place if None; the readings are the same without it.
    """
    prompt, backend = job.prompt, backend or get_backend(job.backend)
    references = references if references is not None else References()
    key = reference_key(model, job, backend.name)
    kept = None if job.fresh else references.load(key)
    if kept is None:
        kept = _reference(job, model, backend)
        references.keep(key, kept)
    own = kept.read
    sequence = np.concatenate([prompt.tokens, own.forced]).astype(np.int32)
    compared = Reference(own.logits, sequence[prompt.scored_from :])
    yield REFERENCE, _reading(prompt, own, compared.compare(own.logits), floor=kept.floor)
    for seat in job.seats:
        yield seat.label, _seat(job, seat, model, backend, kept, compared)


def _reference(job: Job, model: LanguageModel, backend: Backend) -> ReferenceRead:
    prompt = job.prompt

    def paged() -> PagedCache:
        return PagedCache(model.shape, job.reference, backend, reserve_tokens=prompt.longest)

    recorder = LayerRecorder(paged(), job.layers)
    forced = None if prompt.own_reply else prompt.answer
    own = _read(model, prompt, recorder, job, forced, True, CHUNK_TOKENS)
    return ReferenceRead(own, _floor(model, prompt, paged()), recorder.recorded(), recorder.windows)


def _with_end(prompt: Prompt, reply: list[int]) -> np.ndarray:
    """A reply and the id that ended it: that the arm also stops there is part of what is scored."""
    ended = len(reply) < prompt.new_tokens and bool(prompt.stop_ids)
    return np.array([*reply, prompt.stop_ids[0]] if ended else reply, np.int32)


def _floor(model: LanguageModel, prompt: Prompt, cache: PagedCache) -> np.ndarray:
    """Log-probabilities of the alternatives for one who has not read the context."""
    if not len(prompt.floor) or not prompt.alternatives:
        return np.zeros(0)
    last = _feed(model, prompt.floor, cache, len(prompt.floor) - 1, CHUNK_TOKENS)[-1][-1]
    return np.array([log_probability(model, cache, last, a) for a in prompt.alternatives])


def _seat(
    job: Job,
    seat: Seat,
    model: LanguageModel,
    backend: Backend,
    kept: ReferenceRead,
    compared: Reference,
) -> Reading:
    prompt, shape, own = job.prompt, model.shape, kept.read
    if seat.kind == "source":
        exact = _read(model, prompt, ExactCache(shape, prompt.longest), job, own.forced, False, CHUNK_TOKENS)
        scores = Reference(exact.logits, compared.targets).compare(own.logits)  # P is the float32 cache here
        return _reading(prompt, exact, scores)

    def cache() -> Any:
        if seat.kind == "simulated":
            return SimulatedCache(shape, seat.arm, backend, seat.flush)
        return PagedCache(shape, seat.arm, backend, reserve_tokens=prompt.longest)

    free, chunk = (seat.replies, CHUNK_TOKENS) if seat.kind == "paged" else (False, SIMULATED_CHUNK)
    read = _read(model, prompt, cache(), job, own.forced, free, chunk)
    attention = {}
    if seat.kind == "paged":
        for layer, attended in kept.attended.items():
            attention[layer] = probe_attention(
                shape, cache, layer, attended, sliding_window=kept.windows[layer]
            )
    return _reading(prompt, read, compared.compare(read.logits), attention=attention)


def _reading(
    prompt: Prompt, read: Read, scores: TokenScores, floor: np.ndarray | None = None,
    attention: Mapping[int, Any] | None = None,
) -> Reading:  # fmt: skip
    return Reading(
        scores=scores,
        first=prompt.scored_from,
        alternatives=read.alternatives,
        floor=np.zeros(0) if floor is None else floor,
        forced=[int(t) for t in read.forced],
        generated=read.generated,
        sampled=read.sampled,
        held=read.held,
        attention=attention or {},
        seconds=read.seconds,
    )
