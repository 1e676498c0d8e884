"""A safetensors file on disk, and its tensors as float32 arrays, one at a time."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np

from tq_core.errors import ModelFileError
from tq_core.model.gguf_header import require
from tq_core.model.safetensors_header import LENGTH_BYTES, StoredTensor, header_length, scan_tensors

WEIGHT_TYPES = ("F32", "F16", "BF16")
_PIECE_BYTES = 8 << 20


@dataclass(frozen=True)
class SafetensorsFile:
    """A file whose header was checked; its bytes stay on disk. ``digest``: SHA-256 (hex) of the whole file."""

    path: Path
    tensors: dict[str, StoredTensor] = field(repr=False)
    digest: str
    _stamp: tuple[int, int] = field(repr=False)  # size and time of change when it was hashed

    @classmethod
    def read(cls, path: Path) -> SafetensorsFile:
        """Check the header and hash the file. Raises ModelFileError, also when it cannot be read."""
        try:
            with path.open("rb") as file:
                stamp = _stamp(file)
                head = file.read(LENGTH_BYTES)
                header = file.read(header_length(head, stamp[0], path.name))
                tensors = scan_tensors(header, stamp[0], path.name)
                hashed = hashlib.sha256(head + header)
                while piece := file.read(_PIECE_BYTES):
                    hashed.update(piece)
        except OSError as error:
            raise ModelFileError(f"{path.name}: expected a readable file, got {error}") from error
        return cls(path, tensors, hashed.hexdigest(), stamp)

    def tensor(self, name: str) -> np.ndarray:
        """A tensor as a float32 array of its shape.

        Raises ModelFileError for a type without a plain float32 form, for weights that are not finite, and when the
        file is no longer the one that was checked.
        """
        info = self.tensors[name]
        require(
            info.dtype in WEIGHT_TYPES, f"type of {name}", f"one of {', '.join(WEIGHT_TYPES)}", info.dtype
        )
        try:
            with self.path.open("rb") as file:
                file.seek(info.start)
                raw = file.read(info.n_bytes)
                same = _stamp(file) == self._stamp and len(raw) == info.n_bytes
        except OSError as error:
            raise ModelFileError(f"{self.path.name}: expected a readable file, got {error}") from error
        require(same, self.path.name, "the file that was checked", "one that has changed since")
        values = _float32(raw, info.dtype).reshape(info.shape)
        require(bool(np.isfinite(values).all()), f"data of {name}", "finite weights", "inf or nan")
        return values


def _float32(raw: bytes, dtype: str) -> np.ndarray:
    if dtype == "F32":
        return np.frombuffer(raw, "<f4").astype(np.float32, copy=False)
    if dtype == "F16":
        return np.frombuffer(raw, "<f2").astype(np.float32)
    # The upper half of a float32.
    return (np.frombuffer(raw, "<u2").astype(np.uint32) << np.uint32(16)).view(np.float32)


def _stamp(file: IO[bytes]) -> tuple[int, int]:
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns
