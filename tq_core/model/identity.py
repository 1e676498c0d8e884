"""The identity record of a model's caches: its weights, tokenizer, conversation format and rotary embedding."""

from __future__ import annotations

import numpy as np

from tq_core.cache.canonical import array_digest, digest
from tq_core.cache.identify import identify
from tq_core.cache.identity import NONE, CacheIdentity
from tq_core.codecs.arms import Arm
from tq_core.errors import DTypeError
from tq_core.model import tiny_task
from tq_core.model.chat import Message, chat_tokens
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
        facts = _llama_facts(model)
    elif isinstance(model, TinyModel):
        facts = _tiny_facts(model)
    else:
        raise DTypeError(f"model: expected a DecoderModel or TinyModel, got {type(model).__name__}")
    return identify(model.shape, arm, model_digest=model.digest, adapter_digest=adapter_digest, **facts)


def _llama_facts(model: DecoderModel) -> dict[str, str]:
    rope = f"adjacent pairs, base {float(model.config.rope_theta).hex()}, no scaling"
    return {
        "tokenizer_digest": model.tokenizer.digest,
        "chat_template_digest": array_digest(np.asarray(chat_tokens(model.tokenizer, _CONVERSATION), "<i4")),
        "positions": rope,
    }


def _tiny_facts(model: TinyModel) -> dict[str, str]:
    words = model.detokenize(range(model.vocab_size))
    turn = array_digest(model.weights["rope_turn"])
    return {
        "tokenizer_digest": digest({"kind": tiny_task.__name__, "words": words}),
        "chat_template_digest": NONE,
        "positions": f"half split, turn per position {turn}",
    }
