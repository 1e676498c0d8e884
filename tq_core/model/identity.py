"""The identity record of a model's caches: its weights, tokenizer, conversation format and rotary embedding."""

from __future__ import annotations

import numpy as np

from tq_core.cache.canonical import array_digest, digest
from tq_core.cache.identify import identify
from tq_core.cache.identity import NONE, CacheIdentity
from tq_core.codecs.arms import Arm
from tq_core.errors import DTypeError
from tq_core.model import tiny_task
from tq_core.model.chat import Message, chat_tokens, has_conversations
from tq_core.model.config import DecoderConfig
from tq_core.model.interface import LanguageModel
from tq_core.model.tiny import TinyModel
from tq_core.model.transformer import DecoderModel

_CONVERSATION = (
    Message("system", "Answer briefly."),
    Message("user", "A question\nin two lines?"),
    Message("assistant", "An answer."),
    Message("user", "<|im_end|> is text here."),
)


def cache_identity(model: LanguageModel, arm: Arm, adapter_digest: str = NONE) -> CacheIdentity:
    """The identity of ``model``'s caches under ``arm``, with the history left open.

    ``adapter_digest`` names what is added to the weights. Raises DTypeError for a model of an unknown kind.
    """
    if isinstance(model, DecoderModel):
        facts = _decoder_facts(model)
    elif isinstance(model, TinyModel):
        facts = _tiny_facts(model)
    else:
        raise DTypeError(f"model: expected a DecoderModel or TinyModel, got {type(model).__name__}")
    return identify(model.shape, arm, model_digest=model.digest, adapter_digest=adapter_digest, **facts)


def _decoder_facts(model: DecoderModel) -> dict[str, str]:
    conversation = NONE
    if has_conversations(model.tokenizer):
        ids = chat_tokens(model.tokenizer, _CONVERSATION)
        conversation = array_digest(np.asarray(ids, "<i4"))
    return {
        "tokenizer_digest": model.tokenizer.digest,
        "chat_template_digest": conversation,
        "positions": _positions(model.config),
    }


def _positions(config: DecoderConfig) -> str:
    """Pairing, bases and scaling of the rotary embedding, and which layers see a sliding window."""
    pairing = {"adjacent": "adjacent pairs"}.get(config.rope_pairing, config.rope_pairing)
    divisors = " ".join(divisor.hex() for divisor in config.rope_divisors)
    scaling = f"frequencies divided by {divisors}" if divisors else "no scaling"
    text = f"{pairing}, base {float(config.rope_theta).hex()}, {scaling}"
    if any(config.windows):
        sees = " ".join("all" if window is None else str(window) for window in config.windows)
        text += f"; sliding windows {sees}, base {float(config.local_rope_theta).hex()}"
    return text


def _tiny_facts(model: TinyModel) -> dict[str, str]:
    words = model.detokenize(range(model.vocab_size))
    turn = array_digest(model.weights["rope_turn"])
    return {
        "tokenizer_digest": digest({"kind": tiny_task.__name__, "words": words}),
        "chat_template_digest": NONE,
        "positions": f"half split, turn per position {turn}",
    }
