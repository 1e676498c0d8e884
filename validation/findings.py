"""Reading the documents with every arm and control, and what was found: the raw material of gates and tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.arms import Arm, get_arm
from tq_core.codecs.calibration import Calibration
from tq_core.kernels.backend import Backend
from tq_core.model.exact_cache import ExactCache
from tq_core.model.interface import LanguageModel
from validation.attention_scores import AttentionScores
from validation.buffers import held_bytes
from validation.controls import NO_OP, PLANTED_BAD, arm_for
from validation.evaluate import DocumentResult, LayerRecorder, probe_attention, read_document
from validation.fitted import arm_on
from validation.logit_scores import TokenScores
from validation.metrics import answers_right
from validation.parity_report import Certificate
from validation.plan import Plan
from validation.scenarios import Document

REFERENCE = "fp16"  # the uncompressed cache of this library, against which every arm is compared
EXACT = "float32"  # the model's own cache, which shares no code with the pages
UNDER_TEST_PREFIX = "arm:"
CONTROL_DOCUMENTS = 2
ALIGNMENT_BYTES = 3 * 64  # three pools, each moved to a 64-byte boundary inside its block
Progress = Callable[[str, int, int], None]


@dataclass
class ArmFindings:
    """What one arm did. ``documents`` has its scores against the reference, one entry per document."""

    name: str
    config: dict[str, Any]
    documents: list[TokenScores] = field(default_factory=list)
    ledger: dict[str, Any] = field(default_factory=dict)
    held: int = 0  # bytes found by walking the cache's objects
    unaccounted: int = 0  # of these, bytes that the ledger does not name
    parts: int = 0  # the ledger's entries summed
    seconds: float = 0.0
    answers: list[np.ndarray] = field(default_factory=list)  # per document, which were right
    attention: dict[int, AttentionScores] = field(default_factory=dict)

    @property
    def scores(self) -> TokenScores:
        """Scores of all documents in order."""
        return TokenScores.join(self.documents)


@dataclass
class Findings:
    """All of a run: the reference, the arms (the one under test first) and the controls."""

    plan: Plan
    documents: list[Document]
    reference: ArmFindings
    arms: dict[str, ArmFindings]
    planted_bad: ArmFindings
    no_op: ArmFindings
    exact: list[TokenScores]  # P = float32 cache, Q = fp16 cache
    certificate: Certificate | None
    attention_layers: list[int]

    @property
    def tested(self) -> ArmFindings:
        """The arm under test."""
        return self.arms[self.plan.arm]


def probed_layers(n_layers: int) -> list[int]:
    """First, last and two layers between, as far as there are so many."""
    return sorted({0, n_layers // 3, 2 * n_layers // 3, n_layers - 1})


def collect(
    plan: Plan,
    model: LanguageModel,
    documents: Sequence[Document],
    backend: Backend,
    certificate: Certificate | None,
    progress: Progress | None = None,
) -> Findings:
    """Read every document with the reference, the arms and (the first ones) the controls."""
    arms = plan.arms(partial(arm_on, model, documents))
    # Sinks lie in pages of their own: with as many, the reference adds in the same order while nothing is coded.
    reference_arm, bad = get_arm("fp16", sinks=arms[plan.arm].sinks), arm_for(PLANTED_BAD)
    layers = probed_layers(model.shape.n_layers)
    found = Findings(
        plan,
        list(documents),
        ArmFindings(REFERENCE, reference_arm.describe()),
        {name: ArmFindings(name, arm.describe()) for name, arm in arms.items()},
        ArmFindings(PLANTED_BAD, bad.describe()),
        ArmFindings(NO_OP, reference_arm.describe()),
        [],
        certificate,
        layers,
    )
    probes: dict[str, dict[int, list[AttentionScores]]] = {n: {i: [] for i in layers} for n in arms}
    total = sum(len(d.tokens) for d in documents)
    read = 0

    def paged(arm: Arm, n_tokens: int) -> PagedCache:
        return PagedCache(model.shape, arm, backend, reserve_tokens=n_tokens)

    for index, document in enumerate(documents):
        n_tokens, early = len(document.tokens), index < CONTROL_DOCUMENTS
        recorder = LayerRecorder(paged(reference_arm, n_tokens), layers if early else ())
        caches: dict[str, Any] = {REFERENCE: recorder}
        caches |= {UNDER_TEST_PREFIX + n: paged(a, n_tokens) for n, a in arms.items()}
        if early:
            caches |= {PLANTED_BAD: paged(bad, n_tokens), EXACT: ExactCache(model.shape, n_tokens)}
        if index == 0:
            caches[NO_OP] = paged(reference_arm, n_tokens)
        pairs = [(REFERENCE, label) for label in caches if label not in (REFERENCE, EXACT)]
        pairs += [(EXACT, REFERENCE)] if early else []
        for step in read_document(model, document.tokens, caches, pairs):
            if isinstance(step, DocumentResult):
                _take(found, document, step)
            elif progress is not None:
                progress(f"reading {document.name}", read + step, total)
        read += n_tokens
        for name, arm in arms.items() if early else ():
            for layer, attended in recorder.recorded().items():
                window = recorder.windows[layer]
                score = probe_attention(
                    model.shape,
                    lambda a=arm, n=n_tokens: paged(a, n),  # type: ignore[misc]
                    layer,
                    attended,
                    sliding_window=window,
                )
                probes[name][layer].append(score)
    for name, by_layer in probes.items():
        found.arms[name].attention = {i: AttentionScores.join(parts) for i, parts in by_layer.items()}
    return found


def _take(found: Findings, document: Document, result: DocumentResult) -> None:
    """Put one document's scores, ledgers and times where they belong."""
    owners = {REFERENCE: found.reference, PLANTED_BAD: found.planted_bad, NO_OP: found.no_op}
    owners |= {UNDER_TEST_PREFIX + n: a for n, a in found.arms.items()}
    for label, arm in owners.items():
        if label not in result.caches:
            continue
        cache = result.caches[label]
        _account(arm, cache.cache if label == REFERENCE else cache)
        arm.seconds += result.seconds[label]
        scores = result.scores.get((REFERENCE, label))
        if scores is not None:
            arm.documents.append(scores)
            if document.answers:
                arm.answers.append(answers_right(scores.right, document.answers))
        elif document.answers:
            compared = next(s for (r, _), s in result.scores.items() if r == REFERENCE)
            arm.answers.append(answers_right(compared.right_reference, document.answers))
    if (EXACT, REFERENCE) in result.scores:
        found.exact.append(result.scores[EXACT, REFERENCE])


def _account(arm: ArmFindings, cache: PagedCache) -> None:
    """Keep the ledger of the largest document and compare it with the buffers that the cache really holds."""
    ledger = cache.ledger().as_dict()
    held = held_bytes(cache, skip=lambda item: item is cache.backend or isinstance(item, Calibration))
    named = ledger["total"] - ledger["scratch"] - ledger["fixed_tables"]
    arm.unaccounted = max(
        arm.unaccounted, abs(held - named) if held < named else max(0, held - named - ALIGNMENT_BYTES)
    )
    if ledger["n_tokens"] >= arm.ledger.get("n_tokens", 0):
        single = ("headers", "padding", "idle", "recent", "sinks", "block_tables", "scratch", "fixed_tables")
        arm.ledger, arm.held = ledger, held
        arm.parts = int(np.sum([ledger[name] for name in single])) + sum(ledger["payload"].values())
