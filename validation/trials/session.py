"""A session that trials put caches through: random keys and values in a prompt's chunks, then single tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.arms import Arm
from tq_core.kernels.backend import Backend
from tq_core.model.interface import step_of
from tq_core.shapes import ModelShape

CHUNK = 256  # tokens of a prompt that a model feeds at once
DECODED = 4
# (shape, arm, backend, reserve_tokens) to an empty cache
Make = Callable[[ModelShape, Arm, Backend, int], Any]


def plain(shape: ModelShape, arm: Arm, backend: Backend, reserve_tokens: int = 0) -> PagedCache:
    """The library's own cache, on one thread."""
    return PagedCache(shape, arm, backend, reserve_tokens=reserve_tokens, threads=1)


def token_bytes(shape: ModelShape) -> int:
    """Bytes of one token's keys and values in float16, all layers."""
    return 2 * 2 * shape.n_layers * shape.n_kv_heads * shape.head_dim


def enough_tokens(shape: ModelShape, nbytes: int, most_rows: int) -> int:
    """Tokens whose float16 form takes ``nbytes``, but not more than ``most_rows`` rows of a layer in all; whole chunks."""
    wanted = -(-nbytes // token_bytes(shape))
    return max(1, min(-(-wanted // CHUNK), most_rows // (shape.n_layers * CHUNK))) * CHUNK


@dataclass(frozen=True)
class Rows:
    """queries (n_tokens, n_query_heads, head_dim), keys and values (n_tokens, n_kv_heads, head_dim), float32."""

    queries: np.ndarray
    keys: np.ndarray
    values: np.ndarray


def random_rows(shape: ModelShape, n_tokens: int = CHUNK, seed: int = 0) -> Rows:
    """Independent normal rows; every chunk and every layer is given the same ones."""
    rng = np.random.default_rng(seed)
    heads = (shape.n_query_heads, shape.n_kv_heads, shape.n_kv_heads)
    return Rows(*(rng.standard_normal((n_tokens, h, shape.head_dim), dtype=np.float32) for h in heads))


def feed(cache: Any, shape: ModelShape, rows: Rows, n_tokens: int, decoded: int = DECODED) -> Iterator[int]:
    """Chunks of ``rows`` until ``n_tokens`` are in, the last token of each attended to, then decode steps of one token.

    Yields the number of tokens after each. Each is one step of the cache over all layers, as a model makes them.
    """
    chunk = len(rows.keys)
    lengths = [min(chunk, n_tokens - start) for start in range(0, n_tokens, chunk)]
    done = 0
    for n in [*lengths, *[1] * decoded]:
        with step_of(cache):
            for layer in range(shape.n_layers):
                if n > 1:
                    cache.append(layer, rows.keys[: n - 1], rows.values[: n - 1])
                last = slice(n - 1, n)
                cache.attend(layer, rows.queries[last], rows.keys[last], rows.values[last])
        done += n
        yield done
