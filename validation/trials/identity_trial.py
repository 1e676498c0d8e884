"""A saved cache goes on with the same bits, and is refused for anybody whose identity differs in any field."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tq_core.cache.identity import CacheIdentity, identity_fields
from tq_core.cache.paged_cache import PagedCache
from tq_core.cache.saved import load_cache, save_cache
from tq_core.cache.saved_format import SUPER
from tq_core.codecs.arms import Arm
from tq_core.errors import IdentityMismatch, TqError
from tq_core.kernels.backend import Backend
from tq_core.model.identity import cache_identity
from tq_core.model.interface import LanguageModel

CONTINUED = 4
FLIPS = 24
Load = Callable[[Path, CacheIdentity, Arm, Backend], tuple[PagedCache, Any]]


@dataclass(frozen=True)
class IdentityTrial:
    """What saving, reloading and refusing gave; every count and list but the first four is 0 or empty when all is well."""

    tokens: int
    packed: int  # of these, tokens in packed pages of the first layer
    fields: int  # identity fields that were changed, one at a time
    flips: int  # bytes of pages that were flipped, one at a time
    differing_bits: int  # of the continuation's logits and of what both caches then hold
    refused: str  # why the unchanged cache was refused; empty when it was not
    accepted: tuple[str, ...]  # fields whose change was not refused
    unnamed: tuple[str, ...]  # fields whose refusal does not name them
    undetected: tuple[int, ...]  # offsets of flipped bytes that were loaded

    @property
    def faults(self) -> int:
        """How many of these went wrong."""
        wrong = len(self.accepted) + len(self.unnamed) + len(self.undetected)
        return wrong + (self.differing_bits > 0) + bool(self.refused)

    def as_dict(self) -> dict[str, Any]:
        """JSON-able form."""
        return {**asdict(self), "faults": self.faults}


def differing_bits(a: np.ndarray, b: np.ndarray) -> int:
    """Bits that differ between two arrays; all of the larger one's when their shapes do."""
    if a.shape != b.shape:
        return 8 * max(a.nbytes, b.nbytes)
    x, y = (np.ascontiguousarray(v).view(np.uint8) for v in (a, b))
    return int(np.unpackbits(x ^ y).sum())


def prompt_length(arm: Arm, context_length: int) -> int:
    """Tokens with which the arm has a packed page, a part of one and a window, as far as the context has room."""
    window = 0 if arm.window is None else arm.window
    wanted = arm.sinks + window + max(arm.flush_tokens, arm.key_codec.page_tokens) + 5
    return min(wanted, context_length - CONTINUED)


def changed(identity: CacheIdentity, name: str) -> CacheIdentity:
    """The identity with another value in one field."""
    value = getattr(identity, name)
    other: Any = value + 1 if isinstance(value, int) else f"{value}'"
    return replace(identity, **{name: other})


def _refusals(
    load: Load, path: Path, identity: CacheIdentity, arm: Arm, backend: Backend
) -> tuple[list[str], list[str]]:
    """(fields whose change was accepted, fields whose refusal does not name them)."""
    accepted, unnamed = [], []
    for f in identity_fields():
        try:
            load(path, changed(identity, f.name), arm, backend)
            accepted.append(f.name)
        except IdentityMismatch as error:
            if f.name not in str(error):
                unnamed.append(f.name)
    return accepted, unnamed


def _undetected(
    load: Load, path: Path, identity: CacheIdentity, arm: Arm, backend: Backend, flips: int
) -> list[int]:
    """Offsets of single flipped bits, spread over all pages of the file, with which it still loads."""
    data = bytearray(path.read_bytes())
    broken, found = path.with_name("broken"), []
    for at in np.linspace(SUPER.get(data, "pages_at"), len(data) - 1, flips).astype(int).tolist():
        data[at] ^= 0x10
        broken.write_bytes(data)
        data[at] ^= 0x10
        try:
            load(broken, identity, arm, backend)
            found.append(at)
        except TqError:
            pass
    return found


def identity_trial(
    model: LanguageModel,
    arm: Arm,
    backend: Backend,
    *,
    tokens: Sequence[int] | None = None,
    flips: int = FLIPS,
    load: Load = load_cache,
) -> IdentityTrial:
    """Save the arm's cache of a prompt, load it, go on with both, and try every change.

    tokens: the prompt, random ids when None. Raises as the model and ``save_cache`` do.
    """
    n = prompt_length(arm, model.context_length)
    ids = np.random.default_rng(0).integers(model.vocab_size, size=n + CONTINUED, dtype=np.int32)
    ids = ids if tokens is None else np.asarray(tokens, np.int32)
    prompt, rest = ids[:-CONTINUED], ids[-CONTINUED:]
    cache = PagedCache(model.shape, arm, backend)
    model.forward(prompt, cache)
    identity = cache_identity(model, arm).with_tokens(prompt)
    refused, bits = "", 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cache"
        save_cache(path, cache, identity, prompt)
        try:
            loaded, _ = load(path, identity, arm, backend)
        except TqError as error:
            refused = str(error)
        else:
            for token in rest:
                bits += differing_bits(*(model.forward(np.array([token]), c) for c in (cache, loaded)))
            for layer in (0, model.shape.n_layers - 1):
                bits += sum(differing_bits(a, b) for a, b in zip(cache.decode(layer), loaded.decode(layer)))
        packed = cache.ledger().tokens_compressed
        accepted, unnamed = _refusals(load, path, identity, arm, backend)
        undetected = _undetected(load, path, identity, arm, backend, flips)
    return IdentityTrial(
        len(prompt), packed, len(identity_fields()), flips, bits, refused,
        tuple(accepted), tuple(unnamed), tuple(undetected),
    )  # fmt: skip
