"""A model's numbers from a Hugging Face config.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tq_core.errors import ModelFileError
from tq_core.model.fields import checked_positive, checked_size, every
from tq_core.model.gguf_header import require
from tq_core.model.rope_scaling import divisors_of

FAMILIES = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "gemma": "gemma", "gemma3_text": "gemma3"}
_NAMES = {
    "architecture": "model_type",
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.value_length": "head_dim",
    "rope.dimension_count": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.sliding_window": "sliding_window",
    "attention.query_scalar": "query_pre_attn_scalar",
    "rope.freq_base": "rope_theta",
    "rope.freq_base_swa": "rope_local_base_freq",
}
# Options that change the forward pass and that the runtime does not have, with the values that leave it as it is.
_WITHOUT: dict[str, tuple[Any, ...]] = {
    "attention_bias": (None, False),
    "mlp_bias": (None, False),
    "use_sliding_window": (None, False),
    "use_bidirectional_attention": (None, False),
    "attn_logit_softcapping": (None,),
    "final_logit_softcapping": (None,),
    "partial_rotary_factor": (None, 1.0),
    "quantization_config": (None,),
}
_GELU = (None, "gelu_pytorch_tanh")
# Gemma's first configurations say "gelu" under the old name and mean the tanh form.
_ACTIVATIONS = {"hidden_activation": _GELU, "hidden_act": (*_GELU, "gelu")}
_SILU = {"hidden_act": (None, "silu")}
# The classes' defaults where they differ between families, for a file that does not say.
_TIED = ("gemma", "gemma3")
_FULL, _LOCAL = "full_attention", "sliding_attention"


class HfFields:
    """`Fields` of one configuration, a parsed JSON object, of a folder called ``name``."""

    llama_pairing = "half split"

    def __init__(self, config: Mapping[str, Any], name: str) -> None:
        self._config, self.name = config, name
        kind = self._typed("model_type", str, "")
        self.family = FAMILIES.get(kind, kind)
        require(kind in FAMILIES, "model_type", f"one of {', '.join(FAMILIES)}", repr(kind[:60]))
        ropes = config.get("rope_parameters")
        if ropes is None:  # what the library's fourth version and older ones wrote
            ropes = config.get("rope_scaling")
        ropes = {} if ropes is None else ropes
        require(isinstance(ropes, dict), "rope_parameters", "an object", type(ropes).__name__)
        nested = isinstance(ropes.get(_FULL), dict)
        self._rope: dict[str, Any] = ropes[_FULL] if nested else ropes
        local = ropes.get(_LOCAL) if nested else None
        self._local_rope: dict[str, Any] = local if isinstance(local, dict) else {}

    @property
    def vocab_size(self) -> int:
        return checked_size("vocab_size", self._typed("vocab_size", int), 1 << 24)

    @property
    def tied_output(self) -> bool:
        return self._typed("tie_word_embeddings", bool, self.family in _TIED)

    def key(self, name: str) -> str:
        return _NAMES[name]

    def size(self, name: str, limit: int = 1 << 24, default: int | None = None) -> int:
        return checked_size(self.key(name), self._typed(self.key(name), int, default), limit)

    def positive(self, name: str, default: float | None = None) -> float:
        if name == "rope.freq_base":
            default = self._number(self._rope, "rope_theta", default)
        if name == "rope.freq_base_swa":
            default = self._number(self._local_rope, "rope_theta", default)
        return checked_positive(self.key(name), self._number(self._config, self.key(name), default))

    def rope_divisors(self, head_dim: int) -> tuple[float, ...]:
        kind = self._local_rope.get("rope_type", "default")
        require(kind == "default", "rope_type of sliding layers", "default", f"{kind!r:.60}")
        theta = self.positive("rope.freq_base", 10000.0)
        return divisors_of(self._rope, head_dim, theta, self.size("context_length"))

    def full_layers(self, n_layers: int, default_every: int) -> Sequence[bool]:
        kinds = self._config.get("layer_types")
        if kinds is None:
            count = self._typed("sliding_window_pattern", int, default_every)
            return every(n_layers, checked_size("sliding_window_pattern", count, n_layers + default_every))
        ok = isinstance(kinds, list) and all(kind in (_FULL, _LOCAL) for kind in kinds)
        require(ok, "layer_types", f"a list of {_FULL} and {_LOCAL}", f"{kinds!r:.80}")
        require(len(kinds) == n_layers, "layer_types", f"{n_layers} entries", len(kinds))
        return [kind == _FULL for kind in kinds]

    def refuse_options(self) -> None:
        gemma = self.family in ("gemma", "gemma3")
        for name, values in (_WITHOUT | (_ACTIVATIONS if gemma else _SILU)).items():
            got = self._config.get(name)
            known = " or ".join(str(value) for value in values)
            require(got in values, name, known, f"{got!r:.80}")

    def _typed(self, key: str, kind: type, default: Any = None) -> Any:
        value = self._config.get(key)
        if value is None:
            if default is None:
                raise ModelFileError(f"{key}: expected a field of type {kind.__name__}, got none")
            return default
        right = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        require(right, key, f"type {kind.__name__}", f"{value!r:.60}")
        return value

    @staticmethod
    def _number(fields: Mapping[str, Any], key: str, default: float | None) -> float:
        value = fields.get(key)
        value = default if value is None else value
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise ModelFileError(f"{key}: expected a number, got {value!r:.60}")
        return float(value)
