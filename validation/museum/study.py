"""One layer that exhibits put through caches: attention, a next token, and the findings that the product's gates judge.

Queries, keys and values are seeded arrays; next-token logits are a fixed random map of the attention output. That is
enough for errors of keys to pass through a softmax, which is where mean squared error stops telling the truth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tq_core.cache.identify import identify
from tq_core.cache.identity import CacheIdentity
from tq_core.cache.paged_cache import PagedCache
from tq_core.cache.saved import image_of
from tq_core.cache.saved_format import Image
from tq_core.codecs.arms import Arm, get_arm
from tq_core.kernels.backend import Backend, NumpyBackend
from tq_core.model.fixture import make_fixture
from tq_core.shapes import ModelShape
from tq_core.show.attention import top_overlap
from validation.attention_scores import exact_scores, score_rankings
from validation.engine.cell import account
from validation.findings import ArmFindings, Findings
from validation.logit_scores import Reference, TokenScores, log_softmax
from validation.metrics import METRICS
from validation.museum.exhibit import Readings
from validation.plan import make_plan
from validation.study_file import find_study

VOCABULARY = 64
ASKED = 8  # last tokens, whose attention logits are compared
KEPT = 8
WINDOW = 8
TOKEN_METRICS = {"kl": "kl_mean", "top1": "top1_agreement", "ppl_ratio": "ppl_ratio"}
# The real model's limits on text: an exhibit has none of its own.
_BUDGETS = make_plan("smollm2", study=find_study("smollm2-text"))
KL_BUDGET, TOP1_BUDGET = _BUDGETS.kl_budget, _BUDGETS.top1_budget


@dataclass(frozen=True, eq=False)
class Layer:
    """queries (n_tokens, n_query_heads, head_dim), keys and values (n_tokens, n_kv_heads, head_dim), float32.

    sharpness: the true next tokens are drawn from the reference's distribution with its logits times this.
    temperature: what the next-token logits are divided by.
    """

    queries: np.ndarray
    keys: np.ndarray
    values: np.ndarray
    seed: int = 0
    sharpness: float = 1.0
    temperature: float = 1.0

    @property
    def shape(self) -> ModelShape:
        """The shape of a model of this one layer."""
        return ModelShape(1, self.queries.shape[1], *self.keys.shape[1:])

    def next_logits(self, outputs: np.ndarray) -> np.ndarray:
        """float32 (n_tokens, VOCABULARY) of attention outputs; a deviation of about 2."""
        rows = outputs.reshape(len(outputs), -1).astype(np.float64)
        head = np.random.default_rng([self.seed, 1]).standard_normal((rows.shape[1], VOCABULARY))
        size = np.sqrt((self.values.astype(np.float64) ** 2).mean() * rows.shape[1]) / 4 * self.temperature
        return np.ascontiguousarray(rows @ head / size, np.float32)


def fixture_layer(
    seed: int = 1, n_tokens: int = 96, n_outliers: int = 0, gain: float = 2.0, **more: Any
) -> Layer:
    """A layer of `tq_core.model.fixture`: realistic keys and values, outlier channels on request.

    gain: what its queries are multiplied by; 2 gives attention logits a deviation of about 3.
    """
    f = make_fixture(seed, n_tokens=n_tokens, n_outliers=n_outliers, **more)
    return Layer(np.float32(gain) * f.queries, f.keys, f.values, seed)


def gaussian_layer(
    seed: int, n_tokens: int = 80, heads: tuple[int, int] = (4, 2), head_dim: int = 64, gain: float = 0.35
) -> Layer:
    """Independent normal keys and values; each query looks for one earlier key, with noise of the same size.

    heads: query heads and KV heads. gain: what the queries are multiplied by.
    """
    rng = np.random.default_rng(seed)
    n_query, n_kv = heads
    keys, values = rng.standard_normal((2, n_tokens, n_kv, head_dim))
    group = np.arange(n_query) // (n_query // n_kv)
    sought = (rng.random((n_tokens, n_query)) * (np.arange(n_tokens)[:, None] + 1)).astype(int)
    queries = gain * (keys[sought, group] + rng.standard_normal((n_tokens, n_query, head_dim)))
    return Layer(queries.astype(np.float32), keys.astype(np.float32), values.astype(np.float32), seed)


@dataclass
class Trial:
    """What one cache made of a layer; ``findings`` is what a validation run would have found."""

    layer: Layer
    findings: Findings
    keys: np.ndarray
    values: np.ndarray
    rankings: list[tuple[np.ndarray, np.ndarray]]
    scores: TokenScores


def paged(layer: Layer, arm: Arm, backend: Backend | None = None) -> PagedCache:
    """An empty cache for the layer, on numpy unless another backend is asked for."""
    return PagedCache(layer.shape, arm, backend or NumpyBackend(), reserve_tokens=len(layer.keys))


def attended(cache: Any, layer: Layer) -> np.ndarray:
    """Attention outputs of all tokens through an empty cache."""
    return np.asarray(cache.attend(0, layer.queries, layer.keys, layer.values))


@lru_cache(maxsize=8)
def reference(layer: Layer) -> tuple[Reference, ArmFindings, np.ndarray]:
    """The uncompressed cache's side of the comparison, once per layer, and its attention outputs."""
    arm = get_arm("fp16")
    cache = paged(layer, arm)
    outputs = attended(cache, layer)
    logits = layer.next_logits(outputs)
    p = np.exp(log_softmax(logits * np.float32(layer.sharpness))).cumsum(axis=1)
    drawn = np.random.default_rng([layer.seed, 2]).random((len(p), 1))
    targets = np.minimum((p < drawn).sum(axis=1), VOCABULARY - 1)
    found = ArmFindings("fp16", arm.describe())
    found.take_held(account(cache))
    return Reference(logits, targets), found, outputs


def trial(
    layer: Layer,
    arm: Arm,
    made: Callable[[Layer, Arm], Any] = paged,
    backend: Backend | None = None,
    against: Layer | None = None,
    **given: Any,
) -> Trial:
    """Put the layer through a cache of this arm.

    made: gives the cache. against: the layer whose exact attention is the reference, this one if None. given: replaces
    entries of the findings.
    """
    true = against or layer
    cache = paged(layer, arm, backend) if backend else made(layer, arm)
    outputs = attended(cache, layer)
    keys, values = cache.decode(0)
    asked = layer.queries[-ASKED:]
    rankings = [(exact_scores(q, true.keys), cache.scores(0, q).astype(np.float64)) for q in asked]
    compared, found_reference, _ = reference(true)
    scores = compared.compare(true.next_logits(outputs))
    found = ArmFindings(arm.name, arm.describe(), [scores])
    found.take_held(account(cache))
    findings = findings_of(found, found_reference, **given)
    return Trial(true, findings, keys, values, rankings, scores)


def simulated(layer: Layer, keys: np.ndarray, values: np.ndarray) -> Trial:
    """A trial of approximated vectors in an uncompressed cache: what their error alone does."""
    return trial(Layer(layer.queries, keys, values, layer.seed), get_arm("fp16"), against=layer)


def findings_of(tested: ArmFindings, uncompressed: ArmFindings, **given: Any) -> Findings:
    """The findings of a run that read one document with one arm."""
    plan = make_plan("tiny", ["structured-turbo"], kl_budget=KL_BUDGET, top1_budget=TOP1_BUDGET, parity="off")
    empty = {name: ArmFindings(name, uncompressed.config) for name in ("planted_bad", "no_op")}
    rest: dict[str, Any] = {
        **empty,
        "documents": [],
        "exact": [],
        "certificate": None,
        "attention_layers": [],
    }
    return Findings(plan=plan, reference=uncompressed, arms={plan.arm: tested}, **{**rest, **given})


def vector_readings(true: np.ndarray, got: np.ndarray) -> Readings:
    """Error and cosine of vectors along the last axis; vectors of length zero have no cosine."""
    a, b = (x.astype(np.float64).reshape(-1, x.shape[-1]) for x in (true, got))
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    used = lengths > 0
    cosine = float(((a * b).sum(axis=1)[used] / lengths[used]).mean()) if used.any() else None
    return Readings(mse=float(((a - b) ** 2).sum() / (a**2).sum()), cosine=cosine)


def trial_readings(layer: Layer, made: Trial) -> Readings:
    """All metrics of a trial; those of stored vectors are of the keys."""
    stored = vector_readings(layer.keys, made.keys)
    nothing = np.ones((1, 1, 1))
    ranks = score_rankings(made.rankings, (nothing, nothing))
    kept = [top_overlap(a, b, KEPT).mean() for a, b in made.rankings]
    token = token_readings(made.scores)
    rank = METRICS["key_tau"].of(ranks)
    return Readings(
        mse=stored.mse, cosine=stored.cosine, rank=rank if np.isfinite(rank) else None,
        overlap=float(np.mean(kept)), kl=token.kl, top1=token.top1, ppl_ratio=token.ppl_ratio,
    )  # fmt: skip


@dataclass
class Held:
    """Trials of memory or identity, as the findings of a run that read nothing."""

    findings: Findings


SAVED_TOKENS = tuple(range(40))
SAVED_ARM = {"key_bits": 3, "value_bits": 3, "window": 8}


def identity_of(layer: Layer, arm: Arm, **facts: str) -> CacheIdentity:
    """The identity of a cache of the layer under an arm; ``facts`` replaces digests."""
    named = dict.fromkeys(("model_digest", "tokenizer_digest", "chat_template_digest"), "0" * 64)
    return identify(layer.shape, arm, **{"positions": "none", **named, **facts})


def saved_image() -> tuple[Image, CacheIdentity]:
    """A saved cache of 40 tokens under structured-turbo at 3 bits, and the identity that asks for it."""
    layer, arm = fixture_layer(n_tokens=len(SAVED_TOKENS)), get_arm("structured-turbo", **SAVED_ARM)
    cache = paged(layer, arm)
    attended(cache, layer)
    identity = identity_of(layer, arm)
    return image_of(cache, identity, SAVED_TOKENS), identity


@dataclass
class Twins:
    """Two ways to the same outputs; ``findings`` has the second as the run's second uncompressed cache."""

    findings: Findings
    scores: TokenScores


def twins(layer: Layer, outputs: np.ndarray, others: np.ndarray) -> Twins:
    """Compare attention outputs (n, n_query_heads, head_dim) that should be equal to the bit."""
    logits = layer.next_logits(outputs)
    scores = Reference(logits, logits.argmax(axis=1)).compare(layer.next_logits(others))
    plain = ArmFindings("fp16", get_arm("fp16").describe())
    return Twins(findings_of(plain, plain, no_op=ArmFindings("no-op", plain.config, [scores])), scores)


def token_readings(scores: TokenScores) -> Readings:
    """What next-token metrics say."""
    found = {name: METRICS[metric].of(scores) for name, metric in TOKEN_METRICS.items()}
    return Readings(**found)


def twins_readings(layer: Layer, made: Twins) -> Readings:
    """The next-token metrics of the second way."""
    return token_readings(made.scores)
