"""Producing text token by token, over any cache."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from tq_core.errors import ValueRangeError, check
from tq_core.model.chat import Message, chat_tokens, stop_ids
from tq_core.model.interface import CacheLike, LanguageModel, check_tokens, forward_chunks
from tq_core.model.sampling import Sampler, Sampling
from tq_core.model.transformer import DecoderModel


def generate(
    model: LanguageModel,
    prompt: Sequence[int] | np.ndarray,
    cache: CacheLike,
    max_new_tokens: int,
    sampling: Sampling | None = None,
    stop_ids: Collection[int] = (),
) -> Iterator[int]:
    """Feed ``prompt`` after what the cache holds, then yield new token ids one by one.

    Stops before a stop id, after max_new_tokens, or where context_length ends. A token enters the cache
    only when its successor is asked for, so the last one yielded is not in it. Raises the errors of
    ``check_tokens`` and ValueRangeError at the call, before the cache changes.
    """
    check(max_new_tokens >= 0, "max_new_tokens", "0 or more", max_new_tokens, ValueRangeError)
    check_tokens(prompt, model.vocab_size, cache.length, model.context_length)
    return _generate(
        model, prompt, cache, max_new_tokens, Sampler(sampling or Sampling()), frozenset(stop_ids)
    )


def _generate(
    model: LanguageModel,
    prompt: Sequence[int] | np.ndarray,
    cache: CacheLike,
    max_new_tokens: int,
    sampler: Sampler,
    stop_ids: frozenset[int],
) -> Iterator[int]:
    if max_new_tokens == 0:
        return
    for _, piece in forward_chunks(model, prompt, cache):
        logits = piece[-1]
    for step in range(max_new_tokens):
        token = sampler.choose(logits)
        if token in stop_ids:
            return
        yield token
        if step + 1 == max_new_tokens or cache.length >= model.context_length:
            return
        logits = model.forward(np.array([token], np.int32), cache)[-1]


def chat(
    model: DecoderModel,
    messages: Sequence[Message],
    cache: CacheLike,
    max_new_tokens: int = 64,
    sampling: Sampling | None = None,
) -> str:
    """The assistant's reply to a conversation, as text; ``cache`` must be empty (ValueRangeError)."""
    check(cache.length == 0, "cache", "an empty cache", f"{cache.length} tokens", ValueRangeError)
    prompt = chat_tokens(model.tokenizer, messages)
    reply = generate(model, prompt, cache, max_new_tokens, sampling, stop_ids(model.tokenizer))
    return model.detokenize(list(reply))
