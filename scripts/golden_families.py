"""Make validation/golden/families: one tiny random model per family, and what the Transformers library says of it.

    python -m venv ENV; ENV/bin/pip install torch==2.13.0 transformers==5.24.0 numpy
    ENV/bin/python scripts/golden_families.py validation/golden/families

Each model is saved by the library itself, in 16-bit weights. The reference is its own forward pass over the saved weights in
float64; its norms, softmax and angles stay float32 all the same. Every number that the families differ in is drawn at random or
set to something unusual: a runtime that forgets a bias, a norm's 1 or a scaling is far from the reference.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
import transformers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

SPECIAL = (
    "<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
    "<|im_start|>", "<|im_end|>", "<start_of_turn>", "<end_of_turn>",
)  # fmt: skip
MERGES = "t h,th e,Ġ the,a n,an d,Ġ and,i n,in g,e r,o u,1 2,12 3,o n,r e,s t,l l,' s".split(",")
ALPHABET = [chr(code) for code in range(33, 127)] + ["Ġ", "Ċ"]
VOCAB_SIZE, N_TOKENS = 128, 48
POSITIONS = (0, 9, 25, 47)
COMMON: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
    "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 128,
    "bos_token_id": 0, "eos_token_id": [1, 4], "pad_token_id": None,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 10000.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}  # fmt: skip
LINEAR = {"rope_type": "linear", "rope_theta": 1000.0, "factor": 2.0}
PLAIN = {"rope_type": "default", "rope_theta": 5000.0}
LOCAL = {"full_attention": LINEAR, "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}
# name: class, what it has of its own, type of the weights, size of a shard
FAMILIES: dict[str, tuple[str, dict[str, Any], torch.dtype, str]] = {
    "llama": ("Llama", {"rope_parameters": LLAMA3, "tie_word_embeddings": True}, torch.bfloat16, "1GB"),
    "llama-linear": ("Llama", {"rope_parameters": LINEAR, "tie_word_embeddings": False}, torch.float16, "1GB"),
    "qwen2": ("Qwen2", {"rope_parameters": PLAIN, "tie_word_embeddings": False}, torch.bfloat16, "9KB"),
    "qwen3": ("Qwen3", {"rope_parameters": PLAIN, "tie_word_embeddings": True}, torch.bfloat16, "1GB"),
    "gemma": ("Gemma", {"rope_parameters": PLAIN}, torch.float16, "1GB"),
    "gemma3": (
        "Gemma3Text",
        {
            "rope_parameters": LOCAL, "sliding_window": 12, "query_pre_attn_scalar": 24,
            "layer_types": ["sliding_attention", "full_attention"],
        },
        torch.bfloat16,
        "1GB",
    ),
}  # fmt: skip


def make_tokenizer() -> tokenizers.Tokenizer:
    """Byte-level BPE with Qwen's rule for words, over printable ASCII alone."""
    tokens = [*SPECIAL, *ALPHABET, *(merge.replace(" ", "") for merge in MERGES)]
    vocab = {token: number for number, token in enumerate(tokens)}
    merges = [(left, right) for left, right in (merge.split(" ") for merge in MERGES)]
    made = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=merges))
    made.normalizer = normalizers.NFC()
    pattern = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(pattern), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(list(SPECIAL))
    made.post_processor = processors.TemplateProcessing(
        single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", 0)]
    )
    return made


def randomise(model: torch.nn.Module, seed: int) -> None:
    """Weights large enough for attention and logits to be far from uniform; norms off their neutral value."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, values in model.named_parameters():
            drawn = torch.randn(values.shape, generator=random)
            if values.ndim == 2:
                values.copy_(drawn * 0.35)
            elif name.endswith("bias"):
                values.copy_(drawn)
            else:
                values.add_(drawn * 0.3)


def freeze(name: str, seed: int, directory: Path) -> None:
    """Save one model and its reference."""
    family, own, dtype, shard = FAMILIES[name]
    config = getattr(transformers, f"{family}Config")(**{**COMMON, **own})
    model = transformers.AutoModelForCausalLM.from_config(config)
    randomise(model, seed)
    folder = directory / name
    model.to(dtype).save_pretrained(folder, max_shard_size=shard)
    (folder / "generation_config.json").unlink(missing_ok=True)
    saved = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float64, attn_implementation="eager"
    ).eval()
    tokens = np.random.default_rng(seed).integers(0, VOCAB_SIZE, N_TOKENS)
    with torch.no_grad():
        logits = saved(torch.tensor(tokens[None])).logits[0, list(POSITIONS)].numpy()
    binary = logits.astype("<f4").tobytes()
    (folder / "reference.bin").write_bytes(binary)
    record = {
        "runtime": f"transformers {transformers.__version__}, torch {torch.__version__}, float64",
        "prompt_tokens": tokens.tolist(),
        "positions": list(POSITIONS),
        "arrays": [{"name": "logits", "dtype": "<f4", "shape": list(logits.shape)}],
        "bin_sha256": hashlib.sha256(binary).hexdigest(),
    }
    (folder / "reference.json").write_text(json.dumps(record) + "\n")
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{name}: {size} bytes, largest logit {np.abs(logits).max():.1f}, {record['runtime']}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python golden_families.py DIRECTORY")
    torch.set_num_threads(1)
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    make_tokenizer().save(str(target / "tokenizer.json"), pretty=False)
    for number, family_name in enumerate(FAMILIES):
        freeze(family_name, 100 + number, target)
