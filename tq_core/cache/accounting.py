"""Where every byte of a cache goes, counted from the real buffers, and what the same tokens cost elsewhere."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_core.codecs.calibration import Calibration
from tq_core.shapes import ModelShape

Q8_0_BYTES_PER_32 = 34  # ggml's q8_0: 32 int8 and a float16 scale


def baseline_bytes(shape: ModelShape, n_tokens: int) -> dict[str, int]:
    """Bytes of keys and values of ``n_tokens`` tokens as plain fp32, fp16, fp8 and ggml's q8_0 (32 values, 34 bytes).

    fp8 is a byte a value with one scale per tensor, as serving engines store it; that scale is not counted.
    """
    values = 2 * shape.n_layers * shape.n_kv_heads * shape.head_dim * n_tokens
    return {"fp32": 4 * values, "fp16": 2 * values, "fp8": values, "q8_0": values * Q8_0_BYTES_PER_32 // 32}


def held_arrays(thing: Any) -> list[npt.NDArray[Any]]:
    """Every array that an object reaches through attributes and containers, each once.

    Backends are not entered, nor calibrations of codecs, which the fixed tables count.
    """
    found: dict[int, npt.NDArray[Any]] = {}
    seen: set[int] = set()
    todo = [thing]
    while todo:
        item = todo.pop()
        if id(item) in seen or isinstance(item, (type, Calibration)) or hasattr(item, "call"):
            continue
        seen.add(id(item))
        if isinstance(item, np.ndarray):
            found[id(item)] = item
        elif isinstance(item, (dict, list, tuple, set)):
            todo += item.values() if isinstance(item, dict) else item
        else:
            todo += getattr(item, "__dict__", {}).values()
    return list(found.values())


@dataclass(frozen=True)
class Ledger:
    """Bytes of a whole cache by purpose, and its token counts per layer.

    payload: bytes of each packed stream over the pages in use; headers and padding of those pages;
    decoded_shadow: bytes of floating-point arrays that the cache object holds, looked for and not assumed.
    idle: pages that the pools hold free. recent and sinks: float16 pages, their headers included. bits_per_channel_*:
    mean over keys and values; "stored" counts scales, headers and padding of full pages, "now" every
    byte that the cache holds at this length.
    """

    payload: dict[str, int]
    headers: int
    padding: int
    idle: int
    recent: int
    sinks: int
    block_tables: int
    scratch: int
    fixed_tables: int
    total: int
    decoded_shadow: int
    n_tokens: int
    tokens_compressed: int
    tokens_recent: int
    tokens_sink: int
    bits_per_channel_nominal: float
    bits_per_channel_stored: float
    bits_per_channel_now: float
    baselines: dict[str, int]

    @property
    def bits_per_channel_all_in(self) -> float:
        """Codes, scales, headers and padding of full pages, in bits per channel."""
        return self.bits_per_channel_stored

    def against(self) -> dict[str, int]:
        """Bytes that the same tokens take as fp32, fp16, fp8 and q8_0."""
        return dict(self.baselines)

    def as_dict(self) -> dict[str, Any]:
        """JSON-able form."""
        return {**asdict(self), "bits_per_channel_all_in": self.bits_per_channel_all_in}
