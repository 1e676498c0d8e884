"""Frames: how a kernel is called in a WASI command over its standard input and output.

All numbers are little-endian uint32. One request does in the guest's linear memory what a caller of
an exported function would do by hand: grow, write buffers, call, read buffers.

request   MAGIC, kernel id, memory bytes wanted, n_words, n_writes, n_reads,
          words[n_words], (address, bytes)[n_writes], (address, bytes)[n_reads],
          then the bytes of every write, one after the other
response  MAGIC, status, memory bytes, heap base,
          then, if the status is OK, the bytes of every read, one after the other

``words`` are the kernel's arguments in call order: addresses and uint32 as they are, floats by their
bits. Kernel id 0 calls nothing. An id is a checksum of the kernel's name and parameter types, so a
guest that was built from another signature does not know it. The constants below are also written
into the guest's source, so both sides always agree.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable

import numpy as np

from tq_core.errors import BackendError, KernelError
from tq_core.kernels.table import Kernel

MAGIC = 0x31465154  # "TQF1"
MAX_WORDS = 64
MAX_RANGES = 64
STATUS = ("OK", "BAD_FRAME", "NO_MEMORY", "UNKNOWN_KERNEL", "BAD_ADDRESS")
RESPONSE_BYTES = 16
NO_KERNEL = 0

Writes = list[tuple[int, np.ndarray]]
Reads = list[tuple[int, int]]


def kernel_id(kernel: Kernel) -> int:
    """A nonzero uint32 that changes with the kernel's name or any parameter type."""
    text = kernel.name + "(" + ",".join(ctype for ctype, _ in kernel.c_parameters()) + ")"
    return zlib.crc32(text.encode()) | 1


def words_of(kernel: Kernel, values: tuple[int | float, ...]) -> np.ndarray:
    """Arguments in call order (addresses, sizes, scalars) as uint32 words, floats by their bits."""
    is_float = [ctype == "float" for ctype, _ in kernel.c_parameters()]
    if len(is_float) != len(values):
        raise KernelError(f"{kernel.name}: expected {len(is_float)} arguments, got {len(values)}")
    words = [np.float32(v).view("u4") if f else np.uint32(v) for f, v in zip(is_float, values, strict=True)]
    return np.array(words, "<u4")


def request(kernel: int, words: np.ndarray, memory_bytes: int, writes: Writes, reads: Reads) -> bytes:
    """One request. ``writes`` are (address, uint8 array), ``reads`` (address, number of bytes)."""
    if len(words) > MAX_WORDS or max(len(writes), len(reads)) > MAX_RANGES:
        raise KernelError(f"frame: expected at most {MAX_WORDS} arguments and {MAX_RANGES} buffers")
    ranges = [number for address, data in writes for number in (address, data.nbytes)]
    ranges += [number for pair in reads for number in pair]
    head = [MAGIC, kernel, memory_bytes, len(words), len(writes), len(reads), *words.tolist(), *ranges]
    return b"".join(
        [np.array(head, "<u4").tobytes(), *[np.ascontiguousarray(data).data for _, data in writes]]
    )


def response_head(head: bytes) -> tuple[str, int, int]:
    """(status name, memory bytes, heap base) of a response. Raises BackendError if it is no response."""
    magic, status, memory_bytes, heap_base = np.frombuffer(head, "<u4", 4).tolist()
    if magic != MAGIC or status >= len(STATUS):
        raise BackendError(f"guest: expected a response frame, got magic {magic:#x}, status {status}")
    return STATUS[status], memory_bytes, heap_base


def table_digest(kernels: Iterable[Kernel]) -> str:
    """A digest of every signature: modules built from another table have another one."""
    signatures = sorted(f"{k.name}({','.join(ctype for ctype, _ in k.c_parameters())})" for k in kernels)
    return hashlib.sha256("\n".join(signatures).encode()).hexdigest()
