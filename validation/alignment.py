"""Which part of the cache carries a changed choice: restore one part at a time to float16 and see how much comes back.

The diagnosis of "Alignment Collapse Under KV Cache Quantization" (arXiv 2606.09864): a choice that flips under compression
is often the work of few channels. For every prompt whose choice changed, its log-odds are measured with the
float16 cache, with the arm, and with the arm whose decoded rows are replaced in one part by what was encoded. The share of the change
that a part gives back is its recovery: 1 explains all of it, 0 nothing, below 0 it was of help as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tq_core.codecs.arms import Arm, get_arm
from tq_core.errors import ValueRangeError, check
from tq_core.kernels.backend import Backend
from tq_core.model.interface import CHUNK_TOKENS, LanguageModel
from tq_core.shapes import ModelShape
from validation.engine.continuations import log_probability
from validation.simulate import F32, CodedRows, SimulatedCache
from validation.workloads.prompt import Prompt

SIDES = ("keys", "values")


@dataclass(frozen=True)
class Part:
    """Channels of some KV heads of some layers, on one side. None stands for all of them."""

    side: str
    layers: tuple[int, ...] | None = None
    heads: tuple[int, ...] | None = None
    channels: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        check(self.side in SIDES, "side", " or ".join(SIDES), self.side, ValueRangeError)

    @property
    def name(self) -> str:
        """For tables: "keys, layers 3, channels 0-7"."""
        where = {"layers": self.layers, "KV heads": self.heads, "channels": self.channels}
        return ", ".join([self.side, *(f"{what} {_spans(which)}" for what, which in where.items() if which is not None)])  # fmt: skip

    def mask(self, shape: ModelShape, layer: int, side: str) -> np.ndarray:
        """bool (n_kv_heads, head_dim): what is restored in this layer. Raises ValueRangeError for a part outside the model."""
        limits = (("layers", self.layers, shape.n_layers), ("heads", self.heads, shape.n_kv_heads))
        for what, which, n in (*limits, ("channels", self.channels, shape.head_dim)):
            inside = which is None or all(0 <= i < n for i in which)
            check(inside, what, f"numbers in 0..{n - 1}", which, ValueRangeError)
        mask = np.zeros((shape.n_kv_heads, shape.head_dim), bool)
        if side == self.side and (self.layers is None or layer in self.layers):
            heads = range(shape.n_kv_heads) if self.heads is None else self.heads
            channels = range(shape.head_dim) if self.channels is None else self.channels
            mask[np.ix_(list(heads), list(channels))] = True
        return mask


def _spans(numbers: Sequence[int]) -> str:
    first, last = min(numbers), max(numbers)
    if sorted(numbers) == list(range(first, last + 1)):
        return str(first) if first == last else f"{first}-{last}"
    return " ".join(map(str, sorted(numbers)))


def layer_parts(shape: ModelShape) -> list[Part]:
    """Every layer's keys and every layer's values, each as a part."""
    return [Part(side, (layer,)) for side in SIDES for layer in range(shape.n_layers)]


def channel_parts(shape: ModelShape, group: int, within: Part | None = None) -> list[Part]:
    """Groups of ``group`` channels on each side, or inside the side, layers and KV heads of ``within``."""
    check(1 <= group <= shape.head_dim, "group", f"1..{shape.head_dim} channels", group, ValueRangeError)
    starts = range(0, shape.head_dim, group)
    groups = [tuple(range(at, min(at + group, shape.head_dim))) for at in starts]
    whole = [Part(side) for side in SIDES] if within is None else [within]
    return [replace(part, channels=channels) for part in whole for channels in groups]


class _RestoredRows(CodedRows):
    """Coded rows in which some channels read as they were before they were encoded."""

    mask: np.ndarray

    def extend(self, x: F32) -> None:
        first = len(self.rows)
        before = self.rows[:, self.mask].copy()
        super().extend(x)
        if len(x):
            self.rows[:first, self.mask] = before  # a page that was begun is decoded again as a whole
            self.rows[first:, self.mask] = x[:, self.mask]


class RestoredCache(SimulatedCache):
    """A simulated cache that reads one part of its packed tokens in float16; with None it is the simulated cache."""

    def __init__(
        self, shape: ModelShape, arm: Arm, part: Part | None = None, backend: Backend | None = None
    ) -> None:
        super().__init__(shape, arm, backend)
        if part is None:
            return
        for layer, state in enumerate(self._layers):
            for side, codec in zip(SIDES, (arm.key_codec, arm.value_codec), strict=True):
                rows = _RestoredRows(codec, shape, layer, arm.sinks, self._backend)
                rows.mask = part.mask(shape, layer, side)
                setattr(state, f"coded_{side}", rows)


def alternative_scores(model: LanguageModel, prompt: Prompt, cache: Any) -> np.ndarray:
    """Log-probability (nats, float64) of each alternative after the prompt's tokens; ``cache`` must be empty and can fork.

    Raises ValueRangeError for a prompt without alternatives.
    """
    many = len(prompt.alternatives)
    check(many >= 2, f"prompt {prompt.name}", "two alternatives or more", many, ValueRangeError)
    for start in range(0, len(prompt.tokens), CHUNK_TOKENS):
        last = model.forward(prompt.tokens[start : start + CHUNK_TOKENS], cache)[-1]
    return np.array([log_probability(model, cache, last, a) for a in prompt.alternatives])


def log_odds(scores: np.ndarray) -> float:
    """Nats: the right alternative (the first) against all others together."""
    others = scores[1:]
    top = float(others.max())
    return float(scores[0]) - top - float(np.log(np.exp(others - top).sum()))


def recoveries(
    model: LanguageModel,
    prompts: Sequence[Prompt],
    arm: Arm,
    parts: Sequence[Part],
    backend: Backend | None = None,
    only_flipped: bool = True,
) -> list[dict[str, Any]]:
    """One row per prompt and part: {prompt, part, side, layers, heads, channels, reference, arm, restored, recovered}.

    reference (float16), arm, restored: log-odds in nats, all over simulated caches.
    recovered: share of the arm's change that restoring the part gives back.
    Without ``only_flipped`` prompts whose choice stayed are included; recovered is None where the log-odds stayed too.
    The prompts that did not flip leave no row: an empty list says that there was nothing to explain.
    """
    rows = []
    for prompt in prompts:
        whole = alternative_scores(model, prompt, RestoredCache(model.shape, get_arm("fp16"), None, backend))
        coded = alternative_scores(model, prompt, RestoredCache(model.shape, arm, None, backend))
        if only_flipped and int(whole.argmax()) == int(coded.argmax()):
            continue
        reference, changed = log_odds(whole), log_odds(coded)
        for part in parts:
            cache = RestoredCache(model.shape, arm, part, backend)
            restored = log_odds(alternative_scores(model, prompt, cache))
            change = reference - changed
            rows.append(
                {
                    "prompt": prompt.name,
                    "part": part.name,
                    "side": part.side,
                    "layers": part.layers,
                    "heads": part.heads,
                    "channels": part.channels,
                    "reference": reference,
                    "arm": changed,
                    "restored": restored,
                    "recovered": (restored - changed) / change if change else None,
                }
            )
    return rows


def ranking(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row per part, the best first: {part, prompts, recovered}: the mean share over prompts, weighted by their change.

    Weighted, since the share of a change close to 0 is noise: sum of what came back over sum of what was lost, both signed by
    the direction of the loss.
    """
    told = []
    for part in dict.fromkeys(r["part"] for r in rows):
        mine = [r for r in rows if r["part"] == part]
        lost = sum(abs(r["reference"] - r["arm"]) for r in mine)
        back = sum((r["restored"] - r["arm"]) * np.sign(r["reference"] - r["arm"]) for r in mine)
        told.append({"part": part, "prompts": len(mine), "recovered": float(back / lost) if lost else None})
    return sorted(told, key=lambda r: (r["recovered"] is None, -(r["recovered"] or 0.0)))
