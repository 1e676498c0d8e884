"""Arms of a plan, fitted once on the calibration text; what was fitted is kept, since some fits take a minute."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tq_core.codecs import fit
from tq_core.codecs.arm import Arm
from tq_core.codecs.arms import arm_options, get_arm
from tq_core.codecs.calibration import Calibration
from tq_core.errors import TqError
from tq_core.model.capture import capture_qkv
from tq_core.model.interface import LanguageModel
from validation.compare.plan import Entry, Plan
from validation.compare.reference import reference_key
from validation.compare.store import Store, key_of, source_digest

SIDES = ("key", "value")
_SOURCES = ("tq_core/codecs/fit.py", "validation/compare/fitting.py")
Progress = Callable[[str, int, int], None]
Vectors = tuple[np.ndarray, np.ndarray, np.ndarray]


def _captured(model: LanguageModel, tokens: np.ndarray) -> Vectors:
    layers = capture_qkv(model, tokens)
    q, k, v = (np.stack([layer[side] for layer in layers]) for side in range(3))
    return q, k, v


@dataclass
class Captured:
    """Queries, keys and values of calibration texts (token ids), each read from position 0 as scored ones are."""

    model: LanguageModel
    texts: Sequence[np.ndarray]
    skip: int

    @cached_property
    def texts_apart(self) -> Vectors:
        """(n_layers, n_tokens, heads, head_dim) float32 of every text without its first ``skip`` tokens."""
        parts = [_captured(self.model, text) for text in self.texts]
        q, k, v = (np.concatenate([p[i][:, self.skip :] for p in parts], axis=1) for i in range(3))
        return q, k, v

    @cached_property
    def one_sequence(self) -> Vectors:
        """The same of all texts one after the other, as long as the model's context allows.

        For methods that undo the rotary embedding: positions go on.
        """
        return _captured(self.model, np.concatenate(self.texts)[: self.model.context_length])


def fit_on(
    model: LanguageModel, name: str, texts: Sequence[np.ndarray], store: Store, options: dict[str, Any],
    captured: Captured | None = None,
) -> Arm:  # fmt: skip
    """The arm, fitted on texts if its method fits anything, or as it was kept. Raises the errors of its method."""
    if not any(f"{side}_calibration" in arm_options(name) for side in SIDES):
        return get_arm(name, **options)
    rotary = getattr(model, "rotary", None)
    key = key_of(
        fit=name,
        options=[[k, v] for k, v in options.items()],
        texts=[reference_key(model, text) for text in texts],
        code=source_digest(*_SOURCES, *_fit_modules()),
    )
    kept = store.load(key)
    if kept is not None:
        return _rebuild(name, kept, rotary, options)
    captured = captured or Captured(model, texts, options.get("sinks", arm_options(name)["sinks"]))
    queries, keys, values = captured.one_sequence if "rotary" in arm_options(name) else captured.texts_apart
    arm = fit.fit_arm(name, keys, values, rotary, queries, **options)
    packed = _pack(arm)
    if _rebuild(name, packed, rotary, options).digest == arm.digest:
        with contextlib.suppress(OSError):  # on a full disk it is fitted again another time
            store.keep(key, packed)
    return arm


@dataclass
class Fitter:
    """Makes the arms of a plan for a model from calibration texts."""

    model: LanguageModel
    plan: Plan
    texts: Sequence[np.ndarray]
    store: Store
    failures: dict[Entry, str] = field(default_factory=dict)

    @cached_property
    def captured(self) -> Captured:
        """The texts' vectors, read once for all arms."""
        return Captured(self.model, self.texts, self.plan.sinks)

    def arm(self, entry: Entry) -> Arm:
        """The entry's arm under the plan's window and sinks. Raises the errors of its method."""
        options = entry.options_with(self.plan.window, self.plan.sinks)
        return fit_on(self.model, entry.name, self.texts, self.store, options, self.captured)

    def arms(self, progress: Progress | None = None) -> dict[Entry, Arm]:
        """All entries that this model can have; the others are in ``failures`` with the reason."""
        found: dict[Entry, Arm] = {}
        for index, entry in enumerate(self.plan.entries):
            try:
                arm = self.arm(entry)
                for codec in (arm.key_codec, arm.value_codec):
                    codec.check(self.model.shape.head_dim)
                found[entry] = arm
            except TqError as error:
                self.failures[entry] = " ".join(str(error).split())
            if progress:
                progress("fitted arms", index + 1, len(self.plan.entries))
        return found


def _fit_modules() -> Sequence[str]:
    """Source files of every fit that ``fit_arm`` can call."""
    modules = {str(v.__module__) for k, v in vars(fit).items() if k.startswith("fit_")}
    return sorted(f"{m.replace('.', '/')}.py" for m in modules)


def _pack(arm: Arm) -> dict[str, np.ndarray]:
    out: dict[str, np.ndarray] = {"arm": np.array(arm.name)}
    for side, codec in zip(SIDES, (arm.key_codec, arm.value_codec), strict=True):
        calibration: Any = getattr(codec, "calibration", None)
        if calibration is not None:
            out[f"{side}/method"] = np.array(calibration.method)
            out[f"{side}/head_dim"] = np.array(calibration.head_dim)
            out |= {f"{side}/array/{name}": array for name, array in calibration.arrays.items()}
    return out


def _rebuild(name: str, kept: dict[str, np.ndarray], rotary: Any, options: dict[str, Any]) -> Arm:
    """The arm with calibrations that were kept instead of fitted."""
    made = {f"{side}_calibration": _unpack(kept, side) for side in SIDES if f"{side}/method" in kept}
    embedding = {"rotary": rotary} if "rotary" in arm_options(name) else {}
    return get_arm(name, **made, **embedding, **options)


def _unpack(kept: dict[str, np.ndarray], side: str) -> Calibration:
    prefix = f"{side}/array/"
    arrays = {name.removeprefix(prefix): array for name, array in kept.items() if name.startswith(prefix)}
    return Calibration(str(kept[f"{side}/method"]), int(kept[f"{side}/head_dim"]), arrays)
