"""What a kept reading depends on: change any of it, and the reading is computed again."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING

from tq_core.kernels.native import cpu_features
from tq_core.model.interface import LanguageModel
from tq_core.paths import ROOT
from validation.compare.store import key_of
from validation.engine.arithmetic import arithmetic

if TYPE_CHECKING:
    from validation.engine.cell import Job, Seat

# Everything that a number can pass through: the library, its kernels, and the measuring itself.
TREES = (
    "tq_core/cache",
    "tq_core/codecs",
    "tq_core/kernels",
    "tq_core/math",
    "tq_core/model",
    "cpp/tq",
    "validation/engine",
)
FILES = ("validation/attention_scores.py", "validation/buffers.py", "validation/evaluate.py", "validation/logit_scores.py", "validation/simulate.py")  # fmt: skip


@lru_cache(maxsize=1)
def code_digest() -> str:
    """SHA-256 (hex) over the sources of TREES and FILES."""
    digest = hashlib.sha256()
    paths = [ROOT / name for name in FILES]
    for tree in TREES:
        paths += [p for p in (ROOT / tree).rglob("*") if p.suffix in (".py", ".h", ".json")]
    for path in sorted(paths):
        digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def reading_key(model: LanguageModel, job: Job, seat: Seat | None, backend: str) -> str:
    """Digest of one reading; ``seat`` None is the reference's.

    The instruction set is part of it, and so are numpy's build and threads: matrix products round differently with others.
    """
    own = None
    if seat is not None:
        own = [seat.arm.describe(), seat.kind, seat.flush, seat.replies]
    return key_of(
        model=model.digest,
        prompt=job.prompt.digest,
        answers=[list(map(int, rows)) for rows in job.prompt.answers],
        reference=job.reference.describe(),
        seat=own,
        layers=list(job.layers),
        sampling=list(job.sampling),
        backend=backend,
        machine=[*sorted(cpu_features()), arithmetic()],
        code=code_digest(),
    )
