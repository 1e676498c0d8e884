"""Freeze what the Transformers library says about validation/golden/NAME/cases.json, NAME being smollm2 or gemma.

    python -m venv ENV; ENV/bin/pip install torch==2.13.0 transformers==5.24.0 accelerate gguf==0.19.0 numpy
    ENV/bin/python scripts/golden_transformers.py MODEL.gguf validation/golden/NAME

It reads the same GGUF file with its own loader and its own RoPE layout (half-split, weights permuted
back), and runs in float64, so that its own rounding is out of the picture. The prompt's token ids are
those that llama.cpp gave: run golden_llama_cpp.mjs first.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import torch
import transformers

TOP = 40


def freeze(model_path: Path, directory: Path) -> None:
    """Write transformers.json and transformers.bin."""
    given = json.loads((directory / "llama_cpp.json").read_text())
    tokens = given["prompt_tokens"]
    chosen = {"positions": given["positions"]} if "positions" in given else {}
    torch.set_num_threads(1)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        str(model_path.parent), gguf_file=model_path.name, dtype=torch.float32, attn_implementation="eager"
    )
    with torch.no_grad():
        logits = model.double().eval()(torch.tensor([tokens])).logits[0]
        logits = logits[given.get("positions", slice(None))]
        log_probs = torch.log_softmax(logits, dim=-1).numpy()
    order = np.argsort(-log_probs, axis=-1, kind="stable")[:, :TOP]
    best = np.take_along_axis(log_probs, order, axis=-1)
    dtype = "<u2" if log_probs.shape[1] <= 1 << 16 else "<u4"
    binary = order.astype(dtype).tobytes() + best.astype("<f4").tobytes()
    (directory / "transformers.bin").write_bytes(binary)
    record = {
        "runtime": f"transformers {transformers.__version__}, torch {torch.__version__}, float64",
        "model_sha256": hashlib.sha256(model_path.read_bytes()).hexdigest(),
        "prompt_tokens": tokens,
        **chosen,
        "top": TOP,
        "arrays": [
            {"name": "ids", "dtype": dtype, "shape": list(order.shape)},
            {"name": "log_probs", "dtype": "<f4", "shape": list(order.shape)},
        ],
        "bin_sha256": hashlib.sha256(binary).hexdigest(),
    }
    (directory / "transformers.json").write_text(json.dumps(record) + "\n")
    print(f"transformers: {len(order)} positions, {len(binary)} bytes, {record['runtime']}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python golden_transformers.py MODEL.gguf DIRECTORY")
    freeze(Path(sys.argv[1]), Path(sys.argv[2]))
