"""What other runtimes said about a model's prompt, frozen in validation/golden, and how far a model is from it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tq_core.model.exact_cache import ExactCache
from tq_core.model.interface import forward_chunks
from tq_core.model.transformer import DecoderModel

FOLDER = Path(__file__).parents[3] / "validation" / "golden"


@dataclass(frozen=True)
class Golden:
    """Prompt tokens, and for some positions the ids and log-probabilities of the most likely successors."""

    record: dict
    positions: np.ndarray
    ids: np.ndarray
    log_probs: np.ndarray

    @classmethod
    def read(cls, model: str, name: str) -> Golden:
        record = json.loads((FOLDER / model / f"{name}.json").read_text())
        data = (FOLDER / model / f"{name}.bin").read_bytes()
        assert hashlib.sha256(data).hexdigest() == record["bin_sha256"]
        arrays, offset = [], 0
        for array in record["arrays"]:
            values = np.frombuffer(data, array["dtype"], int(np.prod(array["shape"])), offset)
            arrays.append(values.reshape(array["shape"]))
            offset += values.nbytes
        assert offset == len(data)
        positions = np.array(record.get("positions", range(len(record["prompt_tokens"]))))
        golden = cls(record, positions, arrays[0].astype(np.int64), arrays[1].astype(np.float64))
        assert golden.ids.shape == (len(positions), record["top"])
        assert (np.diff(golden.log_probs, axis=-1) <= 0).all()
        assert (np.exp(golden.log_probs).sum(-1) < 1).all()
        return golden


@dataclass(frozen=True)
class Agreement:
    """How far a model's log-probabilities are from a golden reference."""

    kl_mean: float
    top1: float
    log_prob_difference: float


def agreement(model: DecoderModel, golden: Golden) -> Agreement:
    """KL(reference || model) over the kept tokens and one bucket for all others, in nats."""
    parts = []
    for start, logits in forward_chunks(model, golden.record["prompt_tokens"], ExactCache(model.shape)):
        rows = (
            golden.positions[(golden.positions >= start) & (golden.positions < start + len(logits))] - start
        )
        parts.append(logits[rows].astype(np.float64))
    ours = np.concatenate(parts)
    ours -= ours.max(axis=-1, keepdims=True)
    ours -= np.log(np.exp(ours).sum(axis=-1, keepdims=True))
    kept = np.take_along_axis(ours, golden.ids, axis=-1)
    rest, rest_ours = 1 - np.exp(golden.log_probs).sum(-1), 1 - np.exp(kept).sum(-1)
    kl = (np.exp(golden.log_probs) * (golden.log_probs - kept)).sum(-1) + rest * np.log(rest / rest_ours)
    top1 = ours.argmax(axis=-1) == golden.ids[:, 0]
    return Agreement(float(kl.mean()), float(top1.mean()), float(np.abs(kept - golden.log_probs).max()))


def distance(first: Golden, second: Golden) -> float:
    """Mean KL between two references over the tokens that both kept and one bucket for all others, in nats."""
    kl = []
    for ids, log_probs, other_ids, other in zip(
        first.ids, first.log_probs, second.ids, second.log_probs, strict=True
    ):
        common, mine, theirs = np.intersect1d(ids, other_ids, return_indices=True)
        assert len(common) > 20
        p, q = np.append(log_probs[mine], 0), np.append(other[theirs], 0)
        p[-1], q[-1] = np.log1p(-np.exp(p[:-1]).sum()), np.log1p(-np.exp(q[:-1]).sum())
        kl.append((np.exp(p) * (p - q)).sum())
    return float(np.mean(kl))
