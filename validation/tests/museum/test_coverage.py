"""Gates and exhibits: every fault stops its gate and, planted into a run, no other; every clean arm passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tq_core.cache.paged_cache import PagedCache
from tq_core.cache.saved import load_cache
from tq_core.codecs.arms import Arm, calibrated_arm_names
from tq_core.kernels.backend import get_backend
from tq_core.model.zoo import load_model
from tq_core.shapes import ModelShape
from validation.compare.fitting import fit_on
from validation.compare.store import Store
from validation.controls import PLANTED_BAD, arm_for, validation_arm_names
from validation.findings import Findings
from validation.fitted import calibration_texts
from validation.museum import hoards, study
from validation.museum.coverage import NO_EXHIBIT, concerns, table
from validation.museum.hoards import SMALL, load_by_name
from validation.museum.linear import LinearBackend
from validation.rules import gates_for
from validation.rules_of_memory import TRIAL_OF, trial_gates
from validation.trials.identity_trial import identity_trial
from validation.trials.peak_memory import peak_memory
from validation.trials.record import Trials
from validation.trials.session import plain
from validation.trials.wasm_growth import wasm_growth
from validation.trials.wasm_memory import wasm_memory

WINDOW = 8
EFFECT = {"tokens-compressed", "output-changed", "no-shadow", "ledger", "memory"}
JUDGED = (EFFECT | set(TRIAL_OF)) - {"peak-rss"}  # the size of a process is for an exhibit of its own
QUALITY = {"parity", "parity-coverage", "kl", "top1", "negative-control", "no-op", "window-exact"}


def test_every_gate_is_concerned_by_an_exhibit_or_says_why_not() -> None:
    made = study.twins(study.fixture_layer(n_tokens=2), *[np.zeros((2, 4, 64), np.float32)] * 2).findings
    names = [g.name for g in gates_for(made.plan, made)]
    exhibits = table(names)
    assert {"peak-memory", "hidden-memory", "wasm-growth", "identity"} <= set(names)
    assert {n for n, shown in exhibits.items() if not shown} == set(NO_EXHIBIT) & set(names)
    assert not any(concerns(n) for n in NO_EXHIBIT)
    assert all(g.command for g in gates_for(made.plan, made))
    # That each exhibit's fault is stopped and its right result is not: test_exhibits.py runs them all.


def tried(
    arm: Arm,
    shape: ModelShape,
    make: Callable[..., Any] = plain,
    load: Any = load_cache,
    tokens: int = 256,
) -> Trials:
    """All trials but that of processes, in linear memory without an engine."""
    backend, linear = get_backend(), {"fresh": LinearBackend, "make": make}
    made = Trials(
        peak_memory=peak_memory(shape, arm, backend, tokens=tokens, make=make, chunk=tokens // 4),
        wasm_memory=wasm_memory(shape, arm, reserved=65536 // shape.n_layers // 2, tokens=32, **linear),
        wasm_growth=wasm_growth(shape, arm, steps=8, sessions=3, prompt=40, **linear),
        identity=identity_trial(load_model("tiny"), arm, backend, flips=4, load=load),
    )
    hoards._OUTSIDE.clear()
    return made


def findings(
    arm: Arm, make: Callable[..., Any] = plain, load: Any = load_cache, shape: ModelShape = SMALL
) -> Findings:
    """A layer read through the arm's cache, and the trials of a small shape; all faults go through ``make`` and ``load``."""
    backend = get_backend()
    layer = study.fixture_layer(n_tokens=200, n_outliers=0)

    def cache(layer: study.Layer, arm: Arm) -> Any:
        return make(layer.shape, arm, backend, len(layer.keys))

    read = study.trial(layer, arm, cache).findings
    return replace(read, trials=tried(arm, shape, make, load))


def stopped(found: Findings, names: set[str] = JUDGED) -> dict[str, str]:
    """Gate to evidence of those that did not pass."""
    verdicts = [g.judge(found) for g in gates_for(found.plan, found) if g.name in names]
    assert {v.name for v in verdicts} == names
    return {v.name: f"{v.status}: {v.value} {v.evidence}" for v in verdicts if v.status != "pass"}


class Mirror(PagedCache):
    """Keeps the keys of one head in an attribute."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.mirror: list[np.ndarray] = []

    def attend(self, layer: int, queries: Any, keys: Any, values: Any, *rest: Any, **more: Any) -> Any:
        self.mirror.append(keys[:, 0].copy())
        return super().attend(layer, queries, keys, values, *rest, **more)

    def append(self, layer: int, keys: Any, values: Any) -> None:
        self.mirror.append(keys[:, 0].copy())
        super().append(layer, keys, values)


class NeverFlushed(PagedCache):
    """A window that nothing leaves."""

    def _append_one(self, layer: int, key: Any, value: Any) -> None:
        self._recent.append(layer, key, value, self._length(layer))


class Block(hoards.BlockPerStep):
    """A block of linear memory for each step, where there is such memory."""

    def attend(self, *given: Any, **more: Any) -> Any:
        if hasattr(self.backend, "allocate"):
            return super().attend(*given, **more)
        return PagedCache.attend(self, *given, **more)


def _staged(shape: Any, arm: Arm, backend: Any, reserve: int) -> Any:
    return (hoards.staged if hasattr(backend, "allocate") else plain)(shape, arm, backend, reserve)


# A cache that never packs takes what float16 takes: its peak may fall on either side of that.
ON_THE_LINE = {"window never flushed": {"peak-memory"}}

# Fault -> (how it is planted, the gates that must stop it; no other may).
FAULTS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "none": ({}, set()),
    "shadow copy": ({"make": Mirror}, {"no-shadow", "hidden-memory"}),
    "shadow in a module": ({"make": hoards.Elsewhere}, {"hidden-memory"}),
    "staging copy": ({"make": hoards.Swollen}, {"peak-memory"}),
    "leak of a session": ({"make": hoards.immortal}, {"wasm-growth"}),
    "growth at each step": ({"make": Block}, {"wasm-growth"}),
    "staging in linear memory": ({"make": _staged}, {"wasm-memory"}),
    "identity field ignored": ({"load": load_by_name}, {"identity"}),
    "window never flushed": (
        {"make": NeverFlushed},
        {"tokens-compressed", "output-changed", "memory"},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_stops_exactly_its_gates(fault: str) -> None:
    planted, gates = FAULTS[fault]
    found = stopped(findings(arm_for("int8", window=WINDOW), **planted))
    assert set(found) - ON_THE_LINE.get(fault, set()) == gates, found


# Their dense tables, which serve all layers of a model, take more than the one layer of this fixture holds in float16.
LARGE_TABLES = {"turboquant-mse", "turboquant-prod", "qjl", "polarquant", "rabitq"}
# Their workspace of a step takes more than two layers hold in float16; eight layers are judged.
LARGE_WORKSPACE = {"aither-hybrid"}
FITTED = calibrated_arm_names()


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in validation_arm_names() if n not in ("fp16", *FITTED)])
def test_a_clean_arm_passes_every_gate_but_those_of_quality(name: str) -> None:
    arm = arm_for(name) if name == PLANTED_BAD else arm_for(name, window=WINDOW)
    shape = replace(SMALL, n_layers=8) if name in LARGE_WORKSPACE else SMALL
    found = findings(arm, shape=shape)
    assert set(stopped(found)) == ({"memory"} if name in LARGE_TABLES else set())
    ledger = found.tested.ledger
    assert ledger["total"] - ledger["fixed_tables"] < found.reference.ledger["total"]
    assert not QUALITY & JUDGED


@pytest.mark.slow
@pytest.mark.parametrize("name", FITTED)
def test_a_fitted_arm_passes_the_gates_of_memory_and_identity(name: str, tmp_path: Path) -> None:
    model = load_model("tiny")
    arm = fit_on(model, name, calibration_texts(model, []), Store(tmp_path), {})
    made = tried(arm, model.shape, tokens=2048)  # their tables pay from about a thousand on, here
    verdicts = [g.judge(made) for g in trial_gates(made) if g.name != "peak-rss"]
    assert {v.name: v.status for v in verdicts} == dict.fromkeys(JUDGED & set(TRIAL_OF), "pass"), verdicts
