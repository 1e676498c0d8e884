"""aither-kvcache: TQPagedAttention on the CPU, which is its reference implementation in Python."""

from __future__ import annotations

import importlib.metadata
from typing import Any

import torch
from turboquant import TurboQuant, TurboQuantConfig
from turboquant.fused_attention import TQPagedAttention

from validation.bench.peers.data import Prepared, Work

BLOCK_TOKENS = 16
BITS = {"aither-kvcache-4bit": 4, "aither-kvcache-3bit": 3}
CONTESTANTS = [[name, "decode step"] for name in BITS]
TOKENS_MAX = 1024  # tens of microseconds and more per token and head: longer histories tell nothing new


def versions() -> dict[str, Any]:
    """The package's version."""
    return {"aither-kvcache": importlib.metadata.version("aither-kvcache")}


@torch.inference_mode()
def prepare(name: str, work: Work) -> Prepared | str:
    """One layer, warm, one thread: a call takes seconds and memory is not what bounds it."""
    if work.tokens > TOKENS_MAX or work.threads > 1 or work.cold_bytes:
        return f"pure Python on the CPU: measured warm, with one thread, up to {TOKENS_MAX} tokens only"
    torch.set_num_threads(work.threads)
    codec = TurboQuant(TurboQuantConfig(head_dim=work.head_dim, bits=BITS[name], device="cpu"))
    attention = TQPagedAttention(codec, num_query_heads=work.n_query_heads)

    def stored(x: Any) -> tuple[torch.Tensor, torch.Tensor]:
        packed, norms = codec.encode(torch.from_numpy(x.swapaxes(0, 1).copy()))
        blocks = work.tokens // BLOCK_TOKENS
        return packed.reshape(blocks, BLOCK_TOKENS, work.n_kv_heads, -1), norms.reshape(
            blocks, BLOCK_TOKENS, work.n_kv_heads
        )

    keys, values = stored(work.keys), stored(work.values)
    query = torch.from_numpy(work.queries)[None]
    table = torch.arange(work.tokens // BLOCK_TOKENS, dtype=torch.int32)[None]
    length = torch.tensor([work.tokens], dtype=torch.int32)
    state: dict[str, torch.Tensor] = {}

    def run(layer: int) -> None:
        with torch.inference_mode():
            state["out"] = attention.forward(
                query, *keys, *values, table, length, block_size=BLOCK_TOKENS, num_kv_heads=work.n_kv_heads
            )

    nbytes = sum(t.numel() * t.element_size() for t in (*keys, *values))
    return Prepared(run, nbytes, 1, lambda: state["out"][0].float().numpy())
