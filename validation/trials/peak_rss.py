"""Peak resident memory of building a cache in a process of its own, for the arm and for float16."""

from __future__ import annotations

import json
import os
import pickle
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tq_core.codecs.arms import Arm
from tq_core.errors import BackendError
from tq_core.paths import ROOT
from tq_core.shapes import ModelShape
from validation.trials.session import Make, enough_tokens, plain, token_bytes

FP16_BYTES, MOST_ROWS = 40 << 20, 61_440
REPEATS = 3
CLEAR = 10  # the uncompressed cache must stand out of the spread this many times
TIMEOUT = 600


@dataclass(frozen=True)
class PeakRss:
    """Bytes by which the peak rose, one entry per process: with the arm's cache, with the fp16 one, with none."""

    backend: str
    tokens: int
    fp16_bytes: int  # keys and values alone
    arm: tuple[int, ...]
    fp16: tuple[int, ...]
    baseline: tuple[int, ...]

    def net(self, kind: str) -> int:
        """Median of "arm" or "fp16", less the median without a cache."""
        return int(statistics.median(getattr(self, kind)) - statistics.median(self.baseline))

    @property
    def spread(self) -> int:
        """Largest difference between processes of one kind."""
        return max(max(x) - min(x) for x in (self.arm, self.fp16, self.baseline))

    @property
    def clear(self) -> bool:
        """Whether the uncompressed cache stands out of the spread."""
        return self.net("fp16") >= CLEAR * self.spread

    @property
    def share(self) -> float:
        """Net peak of the arm as a share of that of the uncompressed cache."""
        return self.net("arm") / self.net("fp16")

    def as_dict(self) -> dict[str, Any]:
        """JSON-able form."""
        told = {"arm_net": self.net("arm"), "fp16_net": self.net("fp16"), "spread": self.spread}
        return {**asdict(self), **told, "share": self.share}


def unable() -> str:
    """Why this machine cannot do the trial; empty when it can."""
    if not Path("/proc/self/status").exists() or "VmHWM" not in Path("/proc/self/status").read_text():
        return "this system does not tell a process's peak resident size"
    return "" if hasattr(os, "fork") else "this system cannot fork a process"


def peak_rss(
    shape: ModelShape,
    arm: Arm,
    backend: str,
    *,
    tokens: int | None = None,
    repeats: int = REPEATS,
    make: Make = plain,
) -> PeakRss:
    """Measure; ``backend`` is "numpy" or a native one by name. ``make`` must be importable: it is sent to the process.

    tokens: as many as take FP16_BYTES in float16 when None, within MOST_ROWS. Raises BackendError where ``unable``
    says why, and when a process fails.
    """
    from validation.trials.child import Job

    reason = unable()
    if reason:
        raise BackendError(f"peak resident memory: {reason}")
    n = tokens or enough_tokens(shape, FP16_BYTES, MOST_ROWS)
    job = Job(shape, arm, backend, n, repeats, make)
    quiet = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-m", "validation.trials.child"]
    given: dict[str, Any] = {"input": pickle.dumps(job), "cwd": ROOT, "env": {**os.environ, **quiet}}
    try:
        done = subprocess.run(command, capture_output=True, timeout=TIMEOUT, **given)
    except subprocess.TimeoutExpired:
        raise BackendError(f"peak resident memory: expected a result within {TIMEOUT} s, got none") from None
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise BackendError(f"peak resident memory: expected a result, got {' '.join(last) or 'none'}")
    found = json.loads(done.stdout)
    kinds = (tuple(found[kind]) for kind in ("arm", "fp16", "baseline"))
    return PeakRss(backend, n, n * token_bytes(shape), *kinds)
