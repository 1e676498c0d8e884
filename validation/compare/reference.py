"""The full-precision side: logits and captured vectors of a document, computed once and kept."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np

from tq_core.model.exact_cache import ExactCache
from tq_core.model.interface import LanguageModel, forward_chunks, step_of
from validation.compare.store import Store, key_of, source_digest

PROBED_LAYERS = 6
ROWS = 64  # positions of which a float64 table is made at a time
_SOURCES = (
    "tq_core/model/architectures.py", "tq_core/model/config.py", "tq_core/model/exact_cache.py",
    "tq_core/model/layers.py", "tq_core/model/rope.py", "tq_core/model/tiny.py",
    "tq_core/model/transformer.py", "validation/compare/reference.py",
)  # fmt: skip
Attended = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass
class Captured:
    """Queries, keys and values of one layer, float32 (n_tokens, heads, head_dim) after RoPE, and its attention's options."""

    queries: np.ndarray
    keys: np.ndarray
    values: np.ndarray
    options: dict[str, Any]


class Recorder:
    """Passes calls on to a cache and keeps what some layers were given."""

    def __init__(self, cache: Any, layers: Sequence[int]) -> None:
        self.cache, self.options = cache, dict[int, dict[str, Any]]()
        self._calls: dict[int, list[Attended]] = {layer: [] for layer in layers}

    @property
    def length(self) -> int:
        """Tokens in the cache behind this one."""
        return int(self.cache.length)

    def step(self) -> AbstractContextManager[None]:
        """A step of the cache behind this one."""
        return step_of(self.cache)

    def attend(
        self, layer: int, queries: np.ndarray, keys: np.ndarray, values: np.ndarray, **options: Any
    ) -> np.ndarray:
        """Attend through the cache behind this one."""
        if layer in self._calls:
            self._calls[layer].append((queries.copy(), keys.copy(), values.copy()))
            self.options[layer] = {k: v for k, v in options.items() if v is not None}
        out: np.ndarray = self.cache.attend(layer, queries, keys, values, **options)
        return out

    def captured(self) -> dict[int, Captured]:
        """What each layer was given, all calls joined."""
        return {layer: Captured(*_joined(calls), self.options[layer]) for layer, calls in self._calls.items()}


def _joined(calls: list[Attended]) -> Attended:
    queries, keys, values = (np.concatenate(part) for part in zip(*calls, strict=True))
    return queries, keys, values


class Tables:
    """Next-token probabilities of a document's reference, as float64 tables of ROWS positions.

    logits float32 (n_tokens, vocab_size). The last position is not scored: what follows it is not in the document.
    """

    def __init__(self, logits: np.ndarray, tokens: np.ndarray) -> None:
        self.n_scored = len(tokens) - 1
        self.targets = tokens[1:]
        self.top = logits[:-1].argmax(axis=1)
        self.p: list[np.ndarray] = []
        entropy, nll = [], []
        for first in range(0, self.n_scored, ROWS):
            x = logits[first : min(first + ROWS, self.n_scored)].astype(np.float64)
            x -= x.max(axis=1, keepdims=True)
            p = np.exp(x)
            total = p.sum(axis=1)
            p /= total[:, None]
            self.p.append(p)
            entropy.append(np.log(total) - np.einsum("tv,tv->t", p, x))
            nll.append(np.log(total) - x[np.arange(len(x)), self.targets[first : first + len(x)]])
        self.entropy, self.nll = np.concatenate(entropy), np.concatenate(nll)


def probed_layers(n_layers: int, count: int = PROBED_LAYERS) -> list[int]:
    """``count`` layers, the first and the last among them."""
    return sorted({round(x) for x in np.linspace(0, n_layers - 1, count)})


def reference_key(model: LanguageModel, tokens: np.ndarray, **more: Any) -> str:
    """Digest of everything that decides a document's reference."""
    ids = np.ascontiguousarray(tokens, "<i4")
    return key_of(model=model.digest, tokens=ids, code=source_digest(*_SOURCES), **more)


def reference(
    model: LanguageModel, tokens: np.ndarray, store: Store, probe: bool
) -> tuple[np.ndarray, dict[int, Captured]]:
    """Logits float32 (n_tokens, vocab_size) of an exact cache and, with ``probe``, what some layers attended with."""
    layers = probed_layers(model.shape.n_layers) if probe else []
    key = reference_key(model, tokens, layers=layers)
    kept = store.load(key)
    if kept is not None:
        captured = {}
        for layer in layers:
            window = kept.get(f"{layer}_window")
            options = {} if window is None else {"sliding_window": int(window)}
            captured[layer] = Captured(kept[f"{layer}_q"], kept[f"{layer}_k"], kept[f"{layer}_v"], options)
        return kept["logits"], captured
    recorder = Recorder(ExactCache(model.shape, len(tokens)), layers)
    logits = np.concatenate([part for _, part in forward_chunks(model, tokens, recorder, len(tokens))])
    arrays = {"logits": logits}
    for layer, c in recorder.captured().items():
        arrays |= {f"{layer}_q": c.queries, f"{layer}_k": c.keys, f"{layer}_v": c.values}
        if "sliding_window" in c.options:
            arrays[f"{layer}_window"] = np.array(c.options["sliding_window"])
    store.keep(key, arrays)
    return logits, recorder.captured()
