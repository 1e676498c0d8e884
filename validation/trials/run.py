"""All trials of one arm on one model's shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tq_core.codecs.arms import Arm
from tq_core.errors import BackendError, check
from tq_core.kernels.backend import Backend, NumpyBackend, get_backend
from tq_core.kernels.buffers import Resident
from tq_core.model.interface import LanguageModel
from validation.trials.identity_trial import identity_trial
from validation.trials.peak_memory import peak_memory
from validation.trials.peak_rss import peak_rss
from validation.trials.record import TRIALS, Trials
from validation.trials.session import enough_tokens
from validation.trials.wasm_growth import wasm_growth
from validation.trials.wasm_hosts import in_kernels
from validation.trials.wasm_memory import wasm_memory

Progress = Callable[[str, int, int], None]
QUICK = 12 << 20, 16_000  # bytes in float16, and rows at most
NO_KERNELS = "this arm is numpy alone: no WebAssembly module can run it"


def on_heap(backend: Backend) -> Backend:
    """The backend, or one whose page pools this process allocates where that one has a memory of its own."""
    if backend.name == "numpy" or backend.name.startswith("native-"):
        return backend
    other = get_backend()
    return NumpyBackend() if isinstance(other, Resident) or other.name.startswith("neon") else other


def run_trials(
    model: LanguageModel,
    arm: Arm,
    backend: Backend,
    progress: Progress | None = None,
    only: Sequence[str] = TRIALS,
    quick: bool = False,
) -> Trials:
    """Try the arm at the model's shape; what this machine cannot do is told with the reason.

    only: names of TRIALS. quick: shorter caches and one process of each kind, for a model whose caches are small anyway.
    Raises ValueRangeError for an unknown name, and what a trial raises that is no BackendError: that would be a defect.
    """
    unknown = sorted(set(only) - set(TRIALS))
    check(not unknown, "only", f"some of {', '.join(TRIALS)}", ", ".join(unknown))
    heap, shape = on_heap(backend), model.shape
    few: dict[str, Any] = {"tokens": 512} if quick else {}
    once: dict[str, Any] = {"tokens": enough_tokens(shape, *QUICK), "repeats": 1} if quick else {}
    doing: dict[str, Callable[[], Any]] = {
        "peak_memory": lambda: peak_memory(shape, arm, heap, **few),
        "peak_rss": lambda: peak_rss(shape, arm, heap.name, **once),
        "wasm_memory": lambda: wasm_memory(shape, arm),
        "wasm_growth": lambda: wasm_growth(shape, arm),
        "identity": lambda: identity_trial(model, arm, backend),
    }
    found: dict[str, Any] = {}
    absent = {name: "it was not asked for" for name in TRIALS if name not in only}
    left_out = {} if in_kernels(arm) else dict.fromkeys(("wasm_memory", "wasm_growth"), NO_KERNELS)
    wanted = [name for name in TRIALS if name in only and name not in left_out]
    for i, name in enumerate(wanted):
        if progress is not None:
            progress(f"trying {name.replace('_', ' ')}", i, len(wanted))
        try:
            found[name] = doing[name]()
        except BackendError as error:
            absent[name] = str(error)
    return Trials(**found, not_exercised=absent, left_out=left_out)
