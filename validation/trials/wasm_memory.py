"""Linear memory that page pools take in WebAssembly, for the arm and for float16."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tq_core.codecs.arms import Arm, get_arm
from tq_core.shapes import ModelShape
from validation.trials.session import CHUNK, Make, enough_tokens, feed, plain, random_rows
from validation.trials.wasm_hosts import Fresh, on_first_host, pages

FP16_BYTES = 64 << 20  # reserved, so that a growth of 4 MiB decides nothing
MOST_ROWS = 200_000


@dataclass(frozen=True)
class WasmMemory:
    """Pages of 64 KiB at the end of a session: memory that never shrinks, so the end is the peak."""

    backend: str
    reserved: int  # tokens that pages were set aside for
    tokens: int  # tokens that went in
    before: int  # pages of an instance without a cache
    arm: int
    fp16: int

    @property
    def share(self) -> float:
        """Pages for the arm as a share of those for the uncompressed cache."""
        return (self.arm - self.before) / (self.fp16 - self.before)

    def as_dict(self) -> dict[str, Any]:
        """JSON-able form."""
        return {**asdict(self), "share": self.share}


def wasm_memory(
    shape: ModelShape,
    arm: Arm,
    *,
    fresh: Fresh = on_first_host,
    reserved: int | None = None,
    tokens: int = CHUNK,
    make: Make = plain,
) -> WasmMemory:
    """Measure in a fresh instance for each cache, as ``fresh`` makes them. Raises BackendError where no host runs.

    reserved: as many tokens as take FP16_BYTES in float16 when None, within MOST_ROWS rows.
    """
    n = reserved or enough_tokens(shape, FP16_BYTES, MOST_ROWS)
    rows = random_rows(shape)
    found = {}
    for kind, built, maker in (("arm", arm, make), ("fp16", get_arm("fp16"), plain)):
        backend = fresh()
        before = pages(backend)
        cache = maker(shape, built, backend, n)
        list(feed(cache, shape, rows, tokens))
        found[kind] = pages(backend)
        backend.discard()
    return WasmMemory(backend.name, n, tokens, before, found["arm"], found["fp16"])
