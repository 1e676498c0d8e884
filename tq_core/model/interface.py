"""What a model and a cache know about each other, and reading a long text in pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import numpy as np

from tq_core.errors import DTypeError, ValueRangeError, check
from tq_core.shapes import ModelShape

# Bound the working memory of a long prompt.
CHUNK_TOKENS = 256
CHUNK_LOGIT_BYTES = 64 << 20


class CacheLike(Protocol):
    """All that a model knows of a cache. ``attend`` appends, then attends causally, layer by layer.

    With ``sliding_window`` a query sees so many of the newest tokens, itself included, and no older one.
    """

    @property
    def length(self) -> int: ...

    def attend(
        self,
        layer: int,
        queries: np.ndarray,
        keys: np.ndarray,
        values: np.ndarray,
        *,
        sliding_window: int | None = None,
    ) -> np.ndarray: ...


def step_of(cache: CacheLike) -> AbstractContextManager[None]:
    """The cache's ``step()``: left by an exception, nothing that was appended inside remains. Caches may lack one."""
    step = getattr(cache, "step", None)
    return nullcontext() if step is None else step()


class LanguageModel(Protocol):
    """All that evaluation, generation and notebooks know of a model."""

    @property
    def name(self) -> str: ...

    @property
    def shape(self) -> ModelShape: ...

    @property
    def digest(self) -> str: ...

    @property
    def context_length(self) -> int: ...

    @property
    def vocab_size(self) -> int: ...

    def forward(self, tokens: np.ndarray, cache: CacheLike) -> np.ndarray: ...

    def tokenize(self, text: str) -> list[int]: ...

    def detokenize(self, ids: Sequence[int]) -> str: ...


def check_tokens(
    tokens: Sequence[int] | np.ndarray, vocab_size: int, first: int, context_length: int
) -> np.ndarray:
    """Token ids as int32 (n_tokens,).

    Raises ShapeError, DTypeError or ValueRangeError when they are not one row of at least one integer
    in 0..vocab_size - 1, or would not fit into context_length when the first is at position ``first``.
    """
    array = np.asarray(tokens)
    check(array.ndim == 1 and array.size > 0, "tokens", "shape (n_tokens,), not empty", array.shape)
    check(array.dtype.kind in "iu", "tokens", "integers", array.dtype, DTypeError)
    low, high = int(array.min()), int(array.max())
    check(
        0 <= low and high < vocab_size,
        "tokens",
        f"ids in 0..{vocab_size - 1}",
        f"{low}..{high}",
        ValueRangeError,
    )
    end = first + array.size
    check(end <= context_length, "tokens", f"at most {context_length} positions", end, ValueRangeError)
    return array.astype(np.int32)


def forward_chunks(
    model: LanguageModel,
    tokens: Sequence[int] | np.ndarray,
    cache: CacheLike,
    chunk_tokens: int | None = None,
) -> Iterator[tuple[int, np.ndarray]]:
    """Feed ``tokens`` in pieces; yield (index of the piece's first token, its logits).

    Logits are float32 (n_piece, vocab_size), at most CHUNK_LOGIT_BYTES unless ``chunk_tokens`` says otherwise.
    Callers reduce each piece before the next one is made, so memory does not grow with the text. The tokens are
    checked as a whole before the first piece runs.
    """
    if chunk_tokens is None:
        chunk_tokens = min(CHUNK_TOKENS, max(1, CHUNK_LOGIT_BYTES // (4 * model.vocab_size)))
    check(chunk_tokens >= 1, "chunk_tokens", "1 or more", chunk_tokens, ValueRangeError)
    array = check_tokens(tokens, model.vocab_size, cache.length, model.context_length)

    def pieces() -> Iterator[tuple[int, np.ndarray]]:
        for start in range(0, array.size, chunk_tokens):
            yield start, model.forward(array[start : start + chunk_tokens], cache)

    return pieces()
