"""Outlines from files: the head of a GGUF file of any size, or a Hugging Face config.json.

Neither is trusted: sizes are bounded before they are used, and what cannot be understood is refused by name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tq_core.errors import ModelFileError
from tq_core.model.gguf_header import require, scan_metadata
from tq_core.model.outline import ModelOutline, make_outline, with_local_layers

GGUF_MAGIC = b"GGUF"
HEAD_BYTES = 64 << 20  # metadata with a vocabulary of a quarter million words takes about 10 MiB
CONFIG_BYTES = 1 << 20
# One layer in so many sees everything; their files do not say so.
_FULL_EVERY = {"gemma2": 2, "gemma3": 6}


def read_outline(path: str | Path) -> ModelOutline:
    """The outline of a .gguf file, a config.json, or a folder that holds a config.json.

    Raises ModelFileError when there is no such file, when it cannot be read, or when it does not describe
    attention with one key and one value vector per KV head.
    """
    path = Path(path)
    if path.is_dir():
        path = path / "config.json"
    require(path.is_file(), "model file", "a .gguf file or a config.json", str(path))
    try:
        with path.open("rb") as file:
            head = file.read(len(GGUF_MAGIC))
            head += file.read((HEAD_BYTES if head == GGUF_MAGIC else CONFIG_BYTES + 1) - len(head))
    except OSError as error:
        raise ModelFileError(f"model file: expected a file that can be read, got {error}") from error
    if head.startswith(GGUF_MAGIC):
        return outline_gguf(scan_metadata(head), path.name)
    require(len(head) <= CONFIG_BYTES, path.name, f"at most {CONFIG_BYTES} bytes", "more")
    return outline_config(_parsed(head, path.name), path.name)


def outline_gguf(metadata: Mapping[str, Any], name: str) -> ModelOutline:
    """The outline that a GGUF file's metadata give. Raises ModelFileError naming the field."""
    fields = _Fields(metadata, name)
    kind = fields.text("general.architecture")
    latent = f"{kind}.attention.kv_lora_rank"
    require(latent not in metadata, latent, "keys and values per head", "a latent that they share")
    heads = fields.count(f"{kind}.attention.head_count")
    key = f"{kind}.attention.key_length"
    if key in metadata:
        head_dim = fields.count(key)
        value_dim = fields.count(f"{kind}.attention.value_length", head_dim)
        require(value_dim == head_dim, f"{kind}.attention.value_length", f"{key} {head_dim}", value_dim)
    else:
        head_dim = _divided(fields.count(f"{kind}.embedding_length"), heads, f"{kind}.embedding_length")
    outline = make_outline(
        str(metadata.get("general.name") or name),
        f"metadata of {name}",
        fields.count(f"{kind}.block_count"),
        heads,
        fields.count(f"{kind}.attention.head_count_kv", heads),
        head_dim,
        fields.count(f"{kind}.context_length", None),
    )
    window = fields.count(f"{kind}.attention.sliding_window", None, least=0)
    pattern = metadata.get(f"{kind}.attention.sliding_window_pattern", _FULL_EVERY.get(kind))
    return with_local_layers(outline, _local_layers(outline.shape.n_layers, pattern), window)


def outline_config(config: Mapping[str, Any], name: str) -> ModelOutline:
    """The outline that a Hugging Face configuration gives. Raises ModelFileError naming the field."""
    text = config.get("text_config")
    if isinstance(text, dict) and "num_hidden_layers" not in config:
        config = {"model_type": config.get("model_type"), **text}
    fields = _Fields(config, name)
    require(
        config.get("kv_lora_rank") is None,
        "kv_lora_rank",
        "keys and values per head",
        "a latent that they share",
    )
    heads, layers = fields.count("num_attention_heads"), fields.count("num_hidden_layers")
    head_dim = fields.count("head_dim", None)
    if head_dim is None:
        head_dim = _divided(fields.count("hidden_size"), heads, "hidden_size")
    outline = make_outline(
        str(config.get("_name_or_path") or config.get("model_type") or name),
        f"fields of {name}",
        layers,
        heads,
        fields.count("num_key_value_heads", heads),
        head_dim,
        fields.count("max_position_embeddings", None),
    )
    if config.get("use_sliding_window") is False:
        return outline
    kinds = config.get("layer_types")
    if kinds is not None:
        ok = isinstance(kinds, list) and len(kinds) == layers
        require(ok, "layer_types", f"a list of {layers} layers", type(kinds).__name__)
        pattern: Any = [kind == "sliding_attention" for kind in kinds]
    else:
        pattern = config.get("sliding_window_pattern", 0 if config.get("model_type") == "mistral" else None)
    window = fields.count("sliding_window", None, least=0)
    return with_local_layers(outline, _local_layers(layers, pattern), window)


def _local_layers(layers: int, pattern: Any) -> int | None:
    """Layers with a sliding window: flags per layer, "one in n is full" (0: none is), or None for not known."""
    if isinstance(pattern, list):
        return sum(bool(flag) for flag in pattern)
    if not isinstance(pattern, int) or isinstance(pattern, bool) or pattern < 0:
        return None
    return layers - layers // pattern if pattern else layers


def _divided(size: int, heads: int, field: str) -> int:
    require(size % heads == 0, field, f"a multiple of {heads} heads", size)
    return size // heads


class _Fields:
    """Typed access to a mapping of unknown origin."""

    def __init__(self, fields: Mapping[str, Any], name: str) -> None:
        self._fields, self._name = fields, name

    def text(self, field: str) -> str:
        value = self._fields.get(field)
        if not isinstance(value, str):
            raise ModelFileError(f"{field} of {self._name}: expected text, got {value!r:.60}")
        return value

    def count(self, field: str, default: int | str | None = "", least: int = 1) -> Any:
        """A whole number, one for all layers; ``default`` "" means that the field must be there."""
        value = self._fields.get(field)
        if value is None:
            if default == "":
                raise ModelFileError(f"{field} of {self._name}: expected a whole number, got no such field")
            return default
        if isinstance(value, list) and value and all(v == value[0] for v in value):
            value = value[0]
        whole = isinstance(value, int) and not isinstance(value, bool) and least <= value < 1 << 40
        require(
            whole,
            f"{field} of {self._name}",
            f"a whole number from {least} on, the same for all layers",
            f"{value!r:.60}",
        )
        return value


def _parsed(data: bytes, name: str) -> Mapping[str, Any]:
    try:
        config = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{name}: expected JSON or a GGUF file, got {str(error)[:80]}") from error
    require(isinstance(config, dict), name, "a JSON object", type(config).__name__)
    return config
