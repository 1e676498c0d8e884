"""What the reference made of a prompt, kept by content hash: logits, replies, and what the compared layers attended with.

Every arm is held against it, so a second sweep, or another arm tomorrow, takes it from here. It may be deleted at any time.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tq_core.cache.atomic import PART
from tq_core.errors import ValueRangeError, check
from tq_core.kernels.native import cpu_features
from tq_core.model.interface import LanguageModel
from tq_core.paths import BUILD
from validation.compare.store import Store, key_of
from validation.engine.arithmetic import arithmetic
from validation.engine.keys import code_digest
from validation.engine.reading import Held

if TYPE_CHECKING:
    from validation.engine.cell import Job

FOLDER = BUILD / "readings" / "reference"
MOST_BYTES = 4 << 30
LARGEST_SHARE = 4  # one entry may take a quarter of the room: more would push out all others
STALE_SECONDS = 3600.0  # an unfinished file that old was left by a run that was killed
# Set outside, so that they reach processes that this one starts.
FOLDER_SETTING, BYTES_SETTING = "TQ_REFERENCE_DIR", "TQ_REFERENCE_BYTES"
Attended = tuple[np.ndarray, np.ndarray, np.ndarray]
_SIDES = ("q", "k", "v")


@dataclass
class Read:
    """A cache that has read the prompt: its logits at scored positions, and everything said after it."""

    logits: np.ndarray
    alternatives: np.ndarray
    generated: list[int] | None
    sampled: dict[str, list[int]]
    held: Held | None
    forced: np.ndarray
    seconds: float


@dataclass(frozen=True)
class ReferenceRead:
    """The reference's side of all comparisons. floor: log-probabilities of the alternatives without the context.

    attended: layer -> queries, keys, values, float32 (n_tokens, heads, head_dim); windows: its sliding window.
    """

    read: Read
    floor: np.ndarray
    attended: Mapping[int, Attended]
    windows: Mapping[int, int | None]


def reference_key(model: LanguageModel, job: Job, backend: str) -> str:
    """Digest of everything that decides what the reference makes of a prompt."""
    return key_of(
        model=model.digest,
        prompt=job.prompt.digest,
        reference=job.reference.describe(),
        layers=list(job.layers),
        sampling=list(job.sampling),
        backend=backend,
        machine=[*sorted(cpu_features()), arithmetic()],
        code=code_digest(),
    )


class References:
    """A folder of reference reads of at most ``most_bytes``; those not used for longest go first. 0 keeps nothing.

    By default $TQ_REFERENCE_DIR or build/readings/reference, and $TQ_REFERENCE_BYTES or 4 GiB; ValueRangeError when
    that is no count.
    """

    def __init__(self, folder: Path | None = None, most_bytes: int | None = None) -> None:
        self.folder = folder or Path(os.environ.get(FOLDER_SETTING) or FOLDER)
        self.most_bytes = _bytes_setting() if most_bytes is None else most_bytes
        self._store = Store(arrays=self.folder)

    def load(self, key: str) -> ReferenceRead | None:
        """The read kept under this key; None for what is absent, damaged, or of another key."""
        if self.most_bytes <= 0:
            return None
        try:
            arrays = self._store.load(key)
            found = None if arrays is None else _unpack(key, arrays)
        except Exception:  # damaged files make the readers of zip and npy raise almost anything
            return None
        if found is not None:
            with contextlib.suppress(OSError):
                os.utime(self.folder / f"{key}.npz")
        return found

    def keep(self, key: str, read: ReferenceRead) -> None:
        """Keep a read and make room for it. What cannot be kept is read again another time."""
        arrays = _pack(key, read)
        if sum(a.nbytes for a in arrays.values()) > self.most_bytes // LARGEST_SHARE:
            return
        with contextlib.suppress(OSError):
            self._store.keep(key, arrays)
            self._make_room()

    def _make_room(self) -> None:
        """Delete the oldest entries beyond the limit, and what killed runs left unfinished. Other processes may do the same."""
        entries = []
        for path in self.folder.iterdir():
            with contextlib.suppress(FileNotFoundError):
                about = path.stat()
                if path.name.endswith(PART):
                    if time.time() - about.st_mtime > STALE_SECONDS:
                        path.unlink()
                elif path.suffix == ".npz":
                    entries.append((about.st_mtime_ns, path.name, about.st_size, path))
        total = sum(size for _, _, size, _ in entries)
        for _, _, size, path in sorted(entries):
            if total <= self.most_bytes:
                return
            path.unlink(missing_ok=True)
            total -= size


def _bytes_setting() -> int:
    given = os.environ.get(BYTES_SETTING) or str(MOST_BYTES)
    check(given.isdecimal(), BYTES_SETTING, "a count of bytes", repr(given), ValueRangeError)
    return int(given)


def _pack(key: str, kept: ReferenceRead) -> dict[str, np.ndarray]:
    read = kept.read
    about = {
        "key": key,
        "generated": read.generated,
        "sampled": read.sampled,
        "held": None if read.held is None else vars(read.held),
        "seconds": read.seconds,
        "windows": {str(n): w for n, w in kept.windows.items()},
    }
    arrays = {
        "about": np.frombuffer(json.dumps(about).encode(), np.uint8),
        "logits": read.logits,
        "alternatives": read.alternatives,
        "forced": read.forced,
        "floor": kept.floor,
    }
    for layer, sides in kept.attended.items():
        arrays |= {f"{layer}_{side}": array for side, array in zip(_SIDES, sides, strict=True)}
    return arrays


def _unpack(key: str, arrays: Mapping[str, np.ndarray]) -> ReferenceRead | None:
    about: dict[str, Any] = json.loads(arrays["about"].tobytes())
    if about["key"] != key:
        return None
    windows = {int(n): w for n, w in about["windows"].items()}
    attended = {n: (arrays[f"{n}_q"], arrays[f"{n}_k"], arrays[f"{n}_v"]) for n in windows}
    held = about["held"]
    read = Read(
        arrays["logits"],
        arrays["alternatives"],
        about["generated"],
        about["sampled"],
        None if held is None else Held(**held),
        arrays["forced"],
        about["seconds"],
    )
    return ReferenceRead(read, arrays["floor"], attended, windows)
