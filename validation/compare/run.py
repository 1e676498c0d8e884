"""The comparison itself: document by document, arm by arm; every row is kept as soon as it is there.

Documents are the outer loop, so an interrupted run has all arms on fewer documents, and goes on where it was.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tq_core.cache.canonical import array_digest
from tq_core.codecs.arm import Arm
from tq_core.errors import TqError
from tq_core.model.interface import LanguageModel
from tq_core.shapes import ModelShape
from validation.compare.documents import read_documents
from validation.compare.fitting import Fitter
from validation.compare.measure import SOURCES, measure
from validation.compare.plan import Entry, Plan
from validation.compare.reference import Tables, reference
from validation.compare.store import Store, key_of, source_digest
from validation.scenarios import Document
from validation.simulate import SimulatedCache

PROBED_DOCUMENTS = 4  # vectors differ less between documents than predictions do
Progress = Callable[[str, int, int], None]


@dataclass
class Comparison:
    """What was run: arms and rows by entry, one row per document, in the documents' order."""

    plan: Plan
    shape: ModelShape
    documents: list[Document]
    calibration: list[Document]
    arms: dict[Entry, Arm] = field(default_factory=dict)
    rows: dict[Entry, list[dict[str, Any]]] = field(default_factory=dict)
    failures: dict[Entry, str] = field(default_factory=dict)
    measured: int = 0
    reused: int = 0


def behaviour(shape: ModelShape, arm: Arm, flush_tokens: int) -> str:
    """Digest of what an arm makes of fixed vectors in the first and the last layer: decoded rows and attention.

    It stands for the code of codecs, kernels and simulated cache: a change that no vector notices keeps what was
    measured.
    """
    rng = np.random.default_rng(11)
    n = arm.sinks + (arm.window or 0) + 2 * flush_tokens
    digest = hashlib.sha256()
    cache = SimulatedCache(shape, arm, flush_tokens=arm.flush_tokens if arm.window is None else flush_tokens)
    spread = np.geomspace(0.25, 4, shape.head_dim).astype(np.float32)
    for layer in sorted({0, shape.n_layers - 1}):
        q, k, v = (
            rng.standard_normal((n, heads, shape.head_dim)).astype(np.float32) * spread + np.float32(0.5)
            for heads in (shape.n_query_heads, shape.n_kv_heads, shape.n_kv_heads)
        )
        digest.update(cache.attend(layer, q, k, v).tobytes())
        for rows in cache.coded(layer):
            digest.update(rows.tobytes())
    return digest.hexdigest()


class _Document:
    """A document's reference and its digest, which every row depends on."""

    def __init__(self, model: LanguageModel, tokens: np.ndarray, store: Store, probe: bool) -> None:
        self.tokens, self.probe = tokens, probe
        self._logits, self.captured = reference(model, tokens, store, probe)
        self.digest = array_digest(self._logits)

    @cached_property
    def tables(self) -> Tables:
        """Made when the first row is measured."""
        return Tables(self._logits, self.tokens)

    def row_key(self, model: LanguageModel, arm: Arm, plan: Plan, probed: str) -> str:
        """Digest of everything that decides an arm's row."""
        return key_of(
            arm=arm.describe(),
            behaviour=probed,
            flush=plan.flush_tokens,
            model=model.digest,
            tokens=np.ascontiguousarray(self.tokens, "<i4"),
            reference=self.digest,
            probe=self.probe,
            code=source_digest(*SOURCES),
        )


def run(
    plan: Plan, model: LanguageModel, progress: Progress | None = None, store: Store | None = None
) -> Comparison:
    """Measure every entry on every document, or take the rows that are kept.

    An entry that the model's shape does not allow is listed under ``failures`` with the reason. Raises TqError
    subclasses for documents that cannot be had; an interrupt loses the row in progress and no other.
    """
    store = store or Store()
    documents, calibration = read_documents(model, plan.documents, plan.calibration, plan.tokens)
    fitter = Fitter(model, plan, [d.tokens for d in calibration], store)
    out = Comparison(plan, model.shape, documents, calibration)
    out.arms = fitter.arms(progress)
    out.failures = dict(fitter.failures)
    probed = {entry: behaviour(model.shape, arm, plan.flush_tokens) for entry, arm in out.arms.items()}
    total, done = len(out.arms) * len(documents), 0
    for index, document in enumerate(documents):
        exact = _Document(model, document.tokens, store, probe=index < PROBED_DOCUMENTS)
        for entry, arm in out.arms.items():
            done += 1
            if entry in out.failures:
                continue
            try:
                key = exact.row_key(model, arm, plan, probed[entry])
                row = store.row(key)
                if row is None:
                    row = measure(
                        model, arm, plan.flush_tokens, document.tokens, exact.tables, exact.captured
                    )
                    store.keep_row(key, row)
                    out.measured += 1
                else:
                    out.reused += 1
            except TqError as error:
                out.failures[entry] = " ".join(str(error).split())
                continue
            out.rows.setdefault(entry, []).append(row)
            if progress:
                progress("rows, arm by document", done, total)
    for entry in out.failures:
        out.rows.pop(entry, None)
        out.arms.pop(entry, None)
    return out
