"""How fast one core reads memory right now: the roof over every kernel that reads stored keys and values."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tq_core.errors import KernelError, check
from tq_core.show.live_cpp import compile_cell
from tq_core.show.rungs import native_targets
from tq_core.show.speed import interleaved

BLOCK = 1024  # bytes that one turn of the longest loop reads

# A sum, so that no load can be left out; prefetches run ahead, since the hardware follows few streams at once.
_SOURCE = """
typedef unsigned long Words __attribute__((vector_size(64)));
ATTRIBUTE unsigned long read_sum(const unsigned char* data, unsigned long nbytes, unsigned streams) {
  const unsigned long part = nbytes / streams;
  Words a = {}, b = {}, c = {}, d = {};
  for (unsigned long at = 0; at < part; at += 256)
    for (unsigned s = 0; s < streams; ++s) {
      const unsigned char* p = data + s * part + at;
      for (unsigned line = 0; line < 4; ++line) __builtin_prefetch(p + 4096 + 64 * line);
      const Words* from = (const Words*)p;
      a += from[0], b += from[1], c += from[2], d += from[3];
    }
  const Words all = a + b + c + d;
  return all[0] + all[1] + all[2] + all[3] + all[4] + all[5] + all[6] + all[7];
}
"""
_FEATURES = {"avx512": "avx512f", "avx2": "avx2"}


def read_bandwidth(pool: npt.NDArray[np.uint8], rounds: int = 5) -> float:
    """GB/s (10^9 bytes per second) of the fastest way to read ``pool``, whose sum is checked first. Raises KernelError."""
    flat = pool[: pool.size // BLOCK * BLOCK]
    want = int(flat.view(np.uint64).sum())
    runs = {}
    for target in [t for t in _FEATURES if t in native_targets()] or [""]:
        attribute = f'__attribute__((target("{_FEATURES[target]}")))' if target else ""
        read = compile_cell(_SOURCE.replace("ATTRIBUTE", attribute)).read_sum
        for streams in (1, 4):
            got = int(read(flat, flat.size, streams))
            check(got == want, "read_sum", f"the sum {want}", got, KernelError)
            runs[f"{target}-{streams}"] = lambda read=read, streams=streams: read(flat, flat.size, streams)
    return flat.size / min(interleaved(runs, rounds, 0.0).values()) / 1e9
