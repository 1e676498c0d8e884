"""GGUF's names of tensors from those of the Transformers library, per family."""

from __future__ import annotations

import re

_WHOLE = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
_IN_BLOCK = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
# In Gemma 3 the norm after attention is one more, and not the one before the feed-forward unit.
_IN_GEMMA3_BLOCK = _IN_BLOCK | {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
_BLOCK = re.compile(r"model\.layers\.(0|[1-9][0-9]{0,5})\.([a-z_.]+)\.(weight|bias)")
# Tables of cosines that old checkpoints have beside their weights.
_NO_WEIGHTS = re.compile(r"model\.layers\.[0-9]{1,6}\.self_attn\.rotary_emb\.inv_freq")


def is_weight(name: str) -> bool:
    """Whether a tensor is part of the network at all."""
    return _NO_WEIGHTS.fullmatch(name) is None


def gguf_name(name: str, family: str) -> str:
    """GGUF's name; a name that is not known stays what it is, for the check of all tensors to refuse."""
    if name in _WHOLE:
        return _WHOLE[name]
    found = _BLOCK.fullmatch(name)
    if found is None:
        return name
    layer, part, kind = found.groups()
    known = (_IN_GEMMA3_BLOCK if family == "gemma3" else _IN_BLOCK).get(part)
    return name if known is None else f"blk.{layer}.{known}.{kind}"
