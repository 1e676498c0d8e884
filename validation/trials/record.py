"""What all trials of an arm found, and what could not be tried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from validation.trials.identity_trial import IdentityTrial
from validation.trials.peak_memory import PeakMemory
from validation.trials.peak_rss import PeakRss
from validation.trials.wasm_growth import WasmGrowth
from validation.trials.wasm_memory import WasmMemory


@dataclass(frozen=True)
class Trials:
    """One entry per trial, None where it was not done; the mappings go from a trial's name to the reason.

    not_exercised: what this machine, or this call, could not do: its gates have nothing to judge. left_out: what cannot
    apply to the arm: it has no such gate.
    """

    peak_memory: PeakMemory | None = None
    peak_rss: PeakRss | None = None
    wasm_memory: WasmMemory | None = None
    wasm_growth: WasmGrowth | None = None
    identity: IdentityTrial | None = None
    not_exercised: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """JSON-able form."""
        made = {name: getattr(self, name) for name in TRIALS}
        told = {name: None if trial is None else trial.as_dict() for name, trial in made.items()}
        return {**told, "not_exercised": dict(self.not_exercised), "left_out": dict(self.left_out)}

    def why_not(self, name: str) -> str:
        """Why a trial was not done."""
        return self.not_exercised.get(name, "the trial was left out")


TRIALS = tuple(f.name for f in fields(Trials) if f.name not in ("not_exercised", "left_out"))
