"""The families of architectures that the decoder runs, each read from the numbers of a model's file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tq_core.errors import ModelFileError, ShapeError
from tq_core.model.config import DecoderConfig
from tq_core.model.fields import Fields
from tq_core.model.gguf_header import require
from tq_core.shapes import ModelShape

# The rotary tables have a row per position; of models made for more, so many positions are used.
MAX_CONTEXT_LENGTH = 1 << 17
_LARGEST_CONTEXT = 1 << 24
# Gemma 3 technical report (arXiv 2503.19786), section 2: five local layers, then a global one; local layers keep
# the rotary base of 10,000. GGUF files do not say so.
GEMMA3_GLOBAL_EVERY, GEMMA3_LOCAL_THETA = 6, 10000.0
# The largest Gemma 3 scales its scores by embedding_size / n_query_heads and not by head_dim; nor do they say that.
_GEMMA3_27B_LAYERS = 62


def read_config(fields: Fields) -> DecoderConfig:
    """The configuration of a file; ModelFileError names the field that is missing, unknown or out of range."""
    known = fields.family in _READERS
    require(known, fields.key("architecture"), f"one of {', '.join(_READERS)}", repr(fields.family))
    fields.refuse_options()
    return DecoderConfig(
        name=fields.name,
        architecture=fields.family,
        vocab_size=fields.vocab_size,
        context_length=min(fields.size("context_length", _LARGEST_CONTEXT), MAX_CONTEXT_LENGTH),
        embedding_size=fields.size("embedding_length"),
        feed_forward_size=fields.size("feed_forward_length"),
        rms_epsilon=fields.positive("attention.layer_norm_rms_epsilon"),
        tied_output=fields.tied_output,
        **_READERS[fields.family](fields),
    )


def _llama(fields: Fields) -> dict[str, Any]:
    """Touvron et al. (arXiv 2302.13971); Llama 3 (arXiv 2407.21783) divides the slow rotary frequencies."""
    return _plain(fields) | {"rope_pairing": fields.llama_pairing}


def _qwen2(fields: Fields) -> dict[str, Any]:
    """Qwen2 technical report (arXiv 2407.10671), section 2.2: llama with biases of queries, keys and values."""
    return _plain(fields) | {"projection_bias": True}


def _qwen3(fields: Fields) -> dict[str, Any]:
    """Qwen3 technical report (arXiv 2505.09388), section 2: no biases, but norms of queries and keys."""
    return _plain(fields) | {"head_norms": True}


def _gemma(fields: Fields) -> dict[str, Any]:
    """Gemma (arXiv 2403.08295), section 2; norms' weights are kept with their 1 added."""
    scale = float(fields.size("embedding_length") ** 0.5)
    return _plain(fields) | {"activation": "gelu_tanh", "embedding_scale": scale}


def _gemma3(fields: Fields) -> dict[str, Any]:
    """Gemma 3 technical report (arXiv 2503.19786): norms around everything, and layers that look back little."""
    values = _gemma(fields)
    shape: ModelShape = values["shape"]
    window = fields.size("attention.sliding_window", _LARGEST_CONTEXT)
    full = fields.full_layers(shape.n_layers, GEMMA3_GLOBAL_EVERY)
    large = shape.n_layers == _GEMMA3_27B_LAYERS
    width = fields.size("embedding_length") / shape.n_query_heads if large else shape.head_dim
    return values | {
        "rope_theta": fields.positive("rope.freq_base", 1000000.0),
        "local_rope_theta": fields.positive("rope.freq_base_swa", GEMMA3_LOCAL_THETA),
        "windows": tuple(None if whole else window for whole in full),
        "head_norms": True,
        "post_norms": True,
        "query_scale": (shape.head_dim / fields.positive("attention.query_scalar", float(width))) ** 0.5,
    }


def _plain(fields: Fields) -> dict[str, Any]:
    """What the families have in common; each changes what it has otherwise."""
    shape = _shape(fields)
    theta = fields.positive("rope.freq_base", 10000.0)
    return {
        "shape": shape,
        "rope_pairing": "half split",
        "rope_theta": theta,
        "local_rope_theta": theta,
        "rope_divisors": fields.rope_divisors(shape.head_dim),
        "windows": (None,) * shape.n_layers,
        "activation": "silu",
        "head_norms": False,
        "post_norms": False,
        "embedding_scale": 1.0,
    }


def _shape(fields: Fields) -> ModelShape:
    n_query_heads = fields.size("attention.head_count", 1 << 12)
    embedding = fields.size("embedding_length")
    divided = embedding // n_query_heads if embedding % n_query_heads == 0 else None
    # GGUF files of the other families always name it, so that only here the quotient stands for it.
    head_dim = fields.size("attention.key_length", 1 << 12, default=divided)
    for name in ("rope.dimension_count", "attention.value_length"):
        got = fields.size(name, default=head_dim)
        require(got == head_dim, fields.key(name), f"head_dim {head_dim}", got)
    try:
        return ModelShape(
            n_layers=fields.size("block_count", 1 << 10),
            n_query_heads=n_query_heads,
            n_kv_heads=fields.size("attention.head_count_kv", 1 << 12, default=n_query_heads),
            head_dim=head_dim,
        )
    except ShapeError as error:
        raise ModelFileError(f"attention shape: {error}") from error


_READERS: dict[str, Callable[[Fields], dict[str, Any]]] = {
    "llama": _llama,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "gemma": _gemma,
    "gemma3": _gemma3,
}
