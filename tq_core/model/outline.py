"""What a cache budget needs to know of a model: its attention shape, its context, which layers look back how far.

Known models by name, or any model by its file: `outline_gguf` and `outline_config` read no weights.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tq_core.errors import ModelFileError, ShapeError, ValueRangeError, check
from tq_core.model.gguf_header import require
from tq_core.model.tiny import TINY
from tq_core.shapes import ModelShape

MAX_LAYERS, MAX_HEADS, MAX_TOKENS = 1 << 10, 1 << 12, 1 << 31


@dataclass(frozen=True)
class ModelOutline:
    """A model without its weights.

    context_length: tokens that it was made for, None when the file does not say. local_layers: how many of the layers
    attend only to the newest ``sliding_window`` tokens. source: where the numbers are from. remark: what was
    not used, and why; empty when nothing.
    """

    name: str
    shape: ModelShape
    context_length: int | None
    source: str
    local_layers: int = 0
    sliding_window: int = 0
    remark: str = ""


def _card(
    name: str, sizes: tuple[int, int, int, int], context: int, source: str, local: int = 0, window: int = 0
) -> ModelOutline:
    return ModelOutline(name, ModelShape(*sizes), context, f"config.json of {source}", local, window)


# (n_layers, n_query_heads, n_kv_heads, head_dim)
_KNOWN = (
    _card("llama-8b", (32, 32, 8, 128), 131072, "Llama-3.1-8B"),
    _card("llama-70b", (80, 64, 8, 128), 131072, "Llama-3.1-70B"),
    _card("llama-1b", (16, 32, 8, 64), 131072, "Llama-3.2-1B"),
    _card("mistral-7b", (32, 32, 8, 128), 32768, "Mistral-7B-v0.3"),
    _card("qwen-14b", (48, 40, 8, 128), 131072, "Qwen2.5-14B"),
    _card("qwen-72b", (80, 64, 8, 128), 131072, "Qwen2.5-72B"),
    _card("smollm2", (30, 9, 3, 64), 8192, "SmolLM2-135M-Instruct"),
    _card("gemma3-270m", (18, 4, 1, 256), 32768, "gemma-3-270m", 15, 512),
    ModelOutline("tiny", TINY.shape, TINY.context_length, "tq_core/model/tiny.py"),
)
KNOWN = {outline.name: outline for outline in _KNOWN}


def known(name: str) -> ModelOutline:
    """The outline of a known model. Raises ValueRangeError for another name."""
    check(name in KNOWN, "model", f"one of {', '.join(KNOWN)}", repr(name), ValueRangeError)
    return KNOWN[name]


def make_outline(
    name: str,
    source: str,
    n_layers: int,
    n_query_heads: int,
    n_kv_heads: int,
    head_dim: int,
    context_length: int | None,
) -> ModelOutline:
    """An outline from numbers that a file gives. Raises ModelFileError when they make no attention shape."""
    for field, value, most in (
        ("layers", n_layers, MAX_LAYERS),
        ("query heads", n_query_heads, MAX_HEADS),
        ("KV heads", n_kv_heads, MAX_HEADS),
        ("context length", context_length, MAX_TOKENS),
    ):
        require(value is None or 1 <= value <= most, f"{field} of {name}", f"1..{most}", value)
    name = "".join(c if c.isprintable() else "?" for c in name)[
        :80
    ]  # a file chose it, and it will be printed
    try:
        shape = ModelShape(n_layers, n_query_heads, n_kv_heads, head_dim)
    except ShapeError as error:
        raise ModelFileError(f"attention shape of {name}: {error}") from error
    return ModelOutline(name, shape, context_length, source)


def with_local_layers(outline: ModelOutline, local_layers: int | None, window: int | None) -> ModelOutline:
    """The outline with its sliding-window layers; ``local_layers`` None means that the file does not say which they are."""
    if not window or local_layers == 0:
        return outline
    require(1 <= window <= MAX_TOKENS, f"sliding window of {outline.name}", f"1..{MAX_TOKENS}", window)
    if local_layers is None:
        text = (
            f"a sliding window of {window} tokens is named, but not for which layers: all are counted in full"
        )
        return replace(outline, remark=text)
    most = outline.shape.n_layers
    require(0 <= local_layers <= most, f"sliding layers of {outline.name}", f"0..{most}", local_layers)
    return replace(outline, local_layers=local_layers, sliding_window=window)
