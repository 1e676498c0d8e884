"""The keys and values stored by real codecs: what is left of them says more than any figure of their shape.

Keys are stored at 3 bits by rotation, as they are and without an offset, and by groups per channel. An offset is
the first keys' mean of each page, or the mean of all keys, after RoPE or before it: these two are fitted on the same tokens and so
flattered a little. With queries the error is that of logits, weighted by attention and without what all keys of a query share, since softmax drops it;
without queries it is relative to the keys' spread around their mean.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tq_core.codecs.arms import get_arm
from tq_core.codecs.checkbench import Bench
from tq_core.kernels.backend import get_backend
from tq_core.kernels.layout import PageLayout
from tq_core.math.rotary import Rotary
from tq_core.shapes import is_head_dim
from validation.diagnose.key_figures import FP16_MAX, ratio
from validation.diagnose.query_figures import FIRST, attention, probed

F32 = npt.NDArray[np.float32]
BITS = 3
GROUP = 32
ARMS: dict[str, dict[str, Any]] = {
    "rotation": {"name": "structured-turbo", "key_bits": BITS, "value_bits": BITS},
    "rotation, page centre": {"name": "structured-turbo", "key_bits": BITS, "key_centre": "page"},
    "rotation, static mean": {"name": "structured-turbo", "key_bits": BITS, "value_bits": BITS},
    "rotation, pre-RoPE mean": {"name": "structured-turbo", "key_bits": BITS, "value_bits": BITS},
    "groups per channel": {"name": "kivi-control", "key_bits": BITS, "value_bits": BITS},
}


def can_store(keys: F32, values: F32 | None) -> str:
    """Empty when the codecs take these vectors, else why not."""
    if not is_head_dim(keys.shape[-1]):
        return f"no kernels for head_dim {keys.shape[-1]}"
    largest = max(float(np.abs(x).max()) for x in (keys, values) if x is not None)
    if largest > FP16_MAX:
        return f"float16 ends at {FP16_MAX:g}, and the largest number is {largest:g}"
    return ""


def stored(codec: Any, x: F32) -> F32:
    """x (n_tokens, n_kv_heads, head_dim) as the codec gives it back; n_tokens is a multiple of 32."""
    bench = Bench(codec, get_backend(), x.shape[2], x.shape[1])
    half = x.astype(np.float16).astype(np.float32)
    return bench.decode(bench.store(half), len(half))


def bits_of(codec: Any, head_dim: int) -> float:
    """All-in bits per channel of a full page."""
    layout = PageLayout(1, codec.page_tokens, codec.streams(head_dim))
    return 8 * layout.page_bytes / (codec.page_tokens * head_dim)


def logit_error(queries: np.ndarray, keys: np.ndarray, given: np.ndarray) -> float:
    """Root mean square error of logits, weighted by attention and centred per query, in nats.

    queries (n_tokens, n_query_heads, head_dim) of one KV head, keys and given (n_tokens, head_dim).
    """
    positions = probed(len(keys))
    q = queries[positions].astype(np.float64)
    weights = attention(q, keys.astype(np.float64), positions)
    error = np.einsum("pgd,td->pgt", q, given.astype(np.float64) - keys, optimize=True)
    error /= np.sqrt(keys.shape[1])
    error = error - (weights * error).sum(axis=2, keepdims=True)
    return float(np.sqrt((weights * error**2).sum(axis=2).mean()))


def relative_error(keys: np.ndarray, given: np.ndarray) -> float | None:
    """Root of the energy of given - keys over that of keys around their mean, both without their means over tokens."""
    spread, error = keys.astype(np.float64), given.astype(np.float64) - keys
    spread, error = spread - spread.mean(axis=0), error - error.mean(axis=0)
    return ratio(float(np.sqrt((error**2).sum())), float(np.sqrt((spread**2).sum())))


def offsets(label: str, keys: F32, rotary: Rotary | None) -> F32 | None:
    """What an arm stores keys (n_tokens, n_kv_heads, head_dim) without, besides what its codec does; None if unknown."""
    if label == "rotation, static mean":
        return keys.mean(axis=0, keepdims=True)
    if label != "rotation, pre-RoPE mean":
        return np.zeros((1, 1, 1), np.float32)
    if rotary is None:
        return None
    positions = np.arange(len(keys))
    return rotary.rotate(rotary.rotate(keys, positions, inverse=True).mean(axis=0, keepdims=True), positions)


def try_layer(
    keys: F32, values: F32 | None, queries: F32 | None, rotary: Rotary | None
) -> list[dict[str, Any]]:
    """Per KV head: errors per arm, with the first four keys stored too or kept; relative squared error of rotated values.

    keys, values (n_tokens, n_kv_heads, head_dim), queries (n_tokens, n_query_heads, head_dim); see ``can_store``.
    """
    n, heads = len(keys) // GROUP * GROUP, keys.shape[1]
    keys = keys[:n]
    out: list[dict[str, Any]] = [{"key_errors": {}, "key_errors_sinks": {}} for _ in range(heads)]
    for label, options in ARMS.items():
        offset = offsets(label, keys, rotary)
        if offset is None:
            continue
        given = stored(get_arm(**options).key_codec, keys - offset) + offset
        for head in range(heads):
            k, g = keys[:, head], given[:, head]
            kept = np.concatenate([k[:FIRST], g[FIRST:]])
            for name, tokens in (("key_errors", g), ("key_errors_sinks", kept)):
                if queries is None:
                    error = relative_error(k, tokens)
                else:
                    group = queries.shape[1] // heads
                    error = logit_error(queries[:n, head * group : (head + 1) * group], k, tokens)
                out[head][name][label] = error
    if values is not None:
        given = stored(get_arm(**ARMS["rotation"]).value_codec, values[:n])
        for head in range(heads):
            v = values[:n, head].astype(np.float64)
            out[head]["value_error"] = ratio(float(((given[:, head] - v) ** 2).sum()), float((v**2).sum()))
    return out
