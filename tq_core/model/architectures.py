"""The architectures that the decoder runs, each read from the metadata of its GGUF files."""

from __future__ import annotations

from typing import Any

from tq_core.errors import ModelFileError, ShapeError
from tq_core.model.config import DecoderConfig
from tq_core.model.gguf_file import GgufFile
from tq_core.model.gguf_header import require
from tq_core.shapes import ModelShape

MAX_CONTEXT_LENGTH = 1 << 17
# Options that change the forward pass and that the runtime does not have.
_ABSENT = (
    "rope.scaling.type",
    "rope.scaling.factor",
    "expert_count",
    "attn_logit_softcapping",
    "final_logit_softcapping",
)
# Gemma 3 technical report (arXiv 2503.19786), section 2: five local layers, then a global one; local layers keep
# the rotary base of 10,000. GGUF files do not say so.
GEMMA3_GLOBAL_EVERY, GEMMA3_LOCAL_THETA = 6, 10000.0


class _Fields:
    """Fields of one architecture, without its prefix; ModelFileError names the one that is wrong."""

    def __init__(self, file: GgufFile, prefix: str) -> None:
        self._file, self._prefix = file, prefix

    def key(self, name: str) -> str:
        return f"{self._prefix}.{name}"

    def absent(self, name: str) -> None:
        value = self._file.header.metadata.get(self.key(name))
        require(value in (None, 0, "none"), self.key(name), "no such option", value)

    def size(self, name: str, limit: int = 1 << 24, default: int | None = None) -> int:
        value = self._file.metadata(self.key(name), int, default)
        require(1 <= value <= limit, self.key(name), f"1..{limit}", value)
        return value

    def positive(self, name: str, default: float | None = None) -> float:
        value = self._file.metadata(self.key(name), float, default)
        require(0.0 < value < 1e12, self.key(name), "a positive number", value)
        return value


def read_config(file: GgufFile) -> DecoderConfig:
    """The configuration in a file; ModelFileError names the field that is missing, unknown or out of range."""
    architecture = file.metadata("general.architecture", str)
    known = architecture in _READERS
    require(known, "general.architecture", f"one of {', '.join(_READERS)}", repr(architecture))
    fields = _Fields(file, architecture)
    for name in _ABSENT:
        fields.absent(name)
    return DecoderConfig(
        name=file.metadata("general.name", str, file.name),
        architecture=architecture,
        vocab_size=len(file.metadata("tokenizer.ggml.tokens", list)),
        context_length=fields.size("context_length", MAX_CONTEXT_LENGTH),
        embedding_size=fields.size("embedding_length"),
        feed_forward_size=fields.size("feed_forward_length"),
        rms_epsilon=fields.positive("attention.layer_norm_rms_epsilon"),
        tied_output="output.weight" not in file.header.tensors,
        **_READERS[architecture](fields),
    )


def _llama(fields: _Fields) -> dict[str, Any]:
    """Touvron et al. (arXiv 2302.13971); the files keep query and key channels in adjacent pairs."""
    heads, embedding = fields.size("attention.head_count", 1 << 12), fields.size("embedding_length")
    got = f"{embedding} / {heads}"
    multiple = f"a multiple of {fields.key('attention.head_count')}"
    require(embedding % heads == 0, fields.key("embedding_length"), multiple, got)
    shape = _shape(fields, heads, embedding // heads)
    theta = fields.positive("rope.freq_base", 10000.0)
    return {
        "shape": shape,
        "rope_pairing": "adjacent",
        "rope_theta": theta,
        "local_rope_theta": theta,
        "windows": (None,) * shape.n_layers,
        "activation": "silu",
        "head_norms": False,
        "post_norms": False,
        "embedding_scale": 1.0,
    }


def _gemma3(fields: _Fields) -> dict[str, Any]:
    """Gemma 3 technical report (arXiv 2503.19786); the files have the norms' weights with their 1 added."""
    shape = _shape(fields, fields.size("attention.head_count", 1 << 12), fields.size("attention.key_length"))
    window = fields.size("attention.sliding_window", MAX_CONTEXT_LENGTH)
    is_global = [(layer + 1) % GEMMA3_GLOBAL_EVERY == 0 for layer in range(shape.n_layers)]
    return {
        "shape": shape,
        "rope_pairing": "half split",
        "rope_theta": fields.positive("rope.freq_base", 1000000.0),
        "local_rope_theta": fields.positive("rope.freq_base_swa", GEMMA3_LOCAL_THETA),
        "windows": tuple(None if whole else window for whole in is_global),
        "activation": "gelu_tanh",
        "head_norms": True,
        "post_norms": True,
        "embedding_scale": float(fields.size("embedding_length") ** 0.5),
    }


def _shape(fields: _Fields, n_query_heads: int, head_dim: int) -> ModelShape:
    for name in ("rope.dimension_count", "attention.key_length", "attention.value_length"):
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


_READERS = {"llama": _llama, "gemma3": _gemma3}
