"""A GGUF file read into memory, and its tensors as float32 arrays.

The file is read once, and the digest, the header and the tensors all come from those same bytes:
a file that changes on disk meanwhile cannot pass one check and fail another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np
from gguf.constants import GGMLQuantizationType
from gguf.quants import dequantize

from tq_core.errors import ModelFileError
from tq_core.model.gguf_header import GgufHeader, require, scan_header
from tq_core.model.memory import check_memory

T = TypeVar("T", int, float, bool, str, list)

# All that gguf's own expansion knows.
TENSOR_TYPES = (
    "F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "TQ1_0", "TQ2_0",
    "MXFP4", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S", "IQ1_M", "IQ4_NL", "IQ4_XS",
)  # fmt: skip
ROPE_TENSOR = (
    "rope_freqs.weight"  # of the rotary embedding and not of the network; any architecture may have it
)
_ROWS_AT_ONCE = 4096


@dataclass(frozen=True)
class GgufFile:
    """A scanned GGUF file: header, SHA-256 of the whole file (hex), and its bytes."""

    name: str
    header: GgufHeader = field(repr=False)
    digest: str
    data: bytes = field(repr=False)

    @classmethod
    def read(cls, path: str | Path, expected_digest: str | None = None) -> GgufFile:
        """Read and scan the file.

        Raises ModelFileError when it cannot be read, has another SHA-256 than ``expected_digest``, or breaks the
        GGUF format anywhere in its header, and ModelUnavailable when it is larger than the machine's memory.
        """
        path = Path(path)
        try:
            check_memory(path.name, path.stat().st_size)
            data = path.read_bytes()
        except OSError as error:
            raise ModelFileError(f"{path.name}: expected a readable file, got {error}") from error
        return cls.from_bytes(path.name, data, expected_digest)

    @classmethod
    def from_bytes(cls, name: str, data: bytes, expected_digest: str | None = None) -> GgufFile:
        """The same for the content of a file called ``name``."""
        digest = hashlib.sha256(data).hexdigest()
        if expected_digest is not None:
            require(digest == expected_digest, f"SHA-256 of {name}", expected_digest, digest)
        return cls(name, scan_header(data), digest, data)

    @property
    def held_bytes(self) -> int:
        """Size of the file, all of which is in memory."""
        return len(self.data)

    def metadata(self, key: str, kind: type[T], default: T | None = None) -> T:
        """Metadata value of type ``kind`` (int, float, bool, str or list); ModelFileError otherwise."""
        value = self.header.metadata.get(key, default)
        if value is None:
            raise ModelFileError(f"{key}: expected a metadata field of type {kind.__name__}, got none")
        # bool is an int to Python, but not to GGUF.
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise ModelFileError(f"{key}: expected type {kind.__name__}, got {type(value).__name__}")
        return value

    def check_tensors(self, expected: Mapping[str, tuple[int, ...]]) -> None:
        """Raise ModelFileError unless exactly these tensors are here, in these shapes and a known type."""
        tensors = self.header.tensors
        for name, shape in expected.items():
            require(name in tensors, name, f"a tensor of shape {shape}", "no such tensor")
            info = tensors[name]
            require(info.shape == shape, f"shape of {name}", f"{shape}", info.shape)
            known = info.type_name in TENSOR_TYPES
            require(known, f"type of {name}", f"one of {', '.join(TENSOR_TYPES)}", info.type_name)
        for name in tensors:
            require(
                name in expected or name == ROPE_TENSOR,
                name,
                "no tensor that the architecture does not use",
                "one",
            )

    def tensor(self, name: str) -> np.ndarray:
        """The tensor as a read-only float32 array of its shape; ModelFileError if not all are finite.

        Block formats are expanded by ``gguf.quants.dequantize``: each weight is
        ``scale * code + minimum`` in float32 (Q4_1), or ``scale * code`` (Q8_0).
        """
        require(name in self.header.tensors, name, "a tensor", "no such tensor")
        info = self.header.tensors[name]
        raw = np.frombuffer(self.data, np.uint8, info.n_bytes, info.start)
        rows = raw.reshape(-1, raw.size // int(np.prod(info.shape[:-1], dtype=np.int64)))
        values = np.empty((len(rows), info.shape[-1]), np.float32)
        # By and by: gguf's own pieces, joined at the end, would take the memory of a large tensor twice.
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            with np.errstate(all="ignore"):  # a tampered scale may overflow; the check below reports it
                values[part] = dequantize(rows[part], GGMLQuantizationType[info.type_name])
            require(bool(np.isfinite(values[part]).all()), f"data of {name}", "finite weights", "inf or nan")
        values = values.reshape(info.shape)
        values.flags.writeable = False
        return values
