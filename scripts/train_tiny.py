"""Trains the tiny transformer on the retrieval task and writes its weights and training record.

Needs torch (CPU); nothing else in the repository does. `python scripts/train_tiny.py [--out DIR]` rewrites
`tq_core/model/data/tiny.npz` and `tiny.json` from fixed seeds. The same torch build on the same kind of CPU
repeats the run; another build gives other low bits, hence other weights that do the same thing.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import platform
import sys
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from tiny_network import forward, initial_weights

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from tq_core.model.tiny import TINY, WEIGHTS_FILE  # noqa: E402
from tq_core.model.tiny_task import ADJECTIVES, ANSWER_LENGTH, STATEMENT_LENGTH, make_episode  # noqa: E402

CONFIG = {
    "vocab_size": TINY.vocab_size,
    "d_model": TINY.embedding_size,
    "n_layers": TINY.shape.n_layers,
    "n_query_heads": TINY.shape.n_query_heads,
    "n_kv_heads": TINY.shape.n_kv_heads,
    "head_dim": TINY.shape.head_dim,
    "d_ff": TINY.feed_forward_size,
    "rope_base": TINY.rope_theta,
    "norm_eps": TINY.rms_epsilon,
}
SEED = 20240601
BACKGROUND_WEIGHT = 0.05  # of all other tokens in the loss; bindings are random, so they teach little
STAGE_FIELDS = ("steps", "n_tokens", "episodes", "bindings_from", "bindings_to")
# Two phases, each with its peak learning rate. At half the first rate some words of the keys stay confused with each
# other for good; at a third of it the second phase keeps what was learnt and stretches it to long episodes.
PHASES = (
    (6e-3, ((170, 64, 32, 3, 6), (330, 128, 16, 8, 10))),
    (2e-3, ((100, 256, 10, 10, 21), (80, 512, 6, 20, 42), (200, 1024, 3, 24, 84))),
)
HELD_OUT_BINDINGS, HELD_OUT_EPISODES = (24, 48, 80), 24
FIRST_TRAINING_SEED = 1_000_000  # held-out episodes have smaller ones
WEIGHT_DECAY, WARMUP = 0.05, 50


def make_batch(
    step: int, stage: tuple[int, ...], rng: np.random.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens, and a mask that is 1 on the positions whose next token is an answer."""
    _, n_tokens, size, low, high = stage
    tokens, mask = np.zeros((size, n_tokens), np.int64), np.zeros((size, n_tokens), np.float32)
    for row in range(size):
        n_bindings = int(rng.integers(low, high + 1))
        n_queries = max(1, min(n_bindings, (n_tokens - 1) // STATEMENT_LENGTH - n_bindings))
        episode = make_episode(
            FIRST_TRAINING_SEED + 64 * step + row,
            n_tokens,
            n_bindings,
            n_queries,
            queries_at_end=bool(rng.integers(2)),
            grid=draw_grid(n_bindings, rng),
            n_value_words=(16, 32)[rng.integers(2)],
        )
        tokens[row] = episode.tokens
        for query in episode.queries:
            mask[row, query.position : query.position + ANSWER_LENGTH] = 1
    return torch.from_numpy(tokens), torch.from_numpy(mask)


def draw_grid(n_bindings: int, rng: np.random.Generator) -> tuple[int, int] | None:
    """Of few bindings, half have one word in common, so that each word is learnt as a clue of its own; many fill a
    square or a long grid, where more neighbours have to be told apart than in the default.
    """
    words = len(ADJECTIVES)
    if n_bindings <= words and rng.random() < 0.5:
        return (1, n_bindings) if rng.integers(2) else (n_bindings, 1)
    full = math.ceil(math.sqrt(n_bindings))
    long, short = min(n_bindings, words), math.ceil(n_bindings / words)
    return (None, (full, full), (long, short))[rng.integers(3)]


def loss_of(w, c, tokens, mask):
    logits = forward(w, c, tokens)[:, :-1]
    nll = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="none")
    is_answer = mask[:, :-1].flatten()
    hit = (logits.argmax(-1).flatten() == tokens[:, 1:].flatten()).float()
    answer = (nll * is_answer).sum() / is_answer.sum()
    other = (nll * (1 - is_answer)).sum() / (1 - is_answer).sum()
    accuracy = (hit * is_answer).sum() / is_answer.sum()
    return answer + BACKGROUND_WEIGHT * other, float(answer.detach()), float(accuracy)


def train(c: dict) -> tuple[dict[str, torch.Tensor], list[dict]]:
    """Trained weights and a row of the record for every 50 steps."""
    torch.manual_seed(SEED)
    rng = np.random.Generator(np.random.PCG64(SEED))
    w = initial_weights(c)
    matrices = [t for name, t in w.items() if t.ndim == 2 and name.startswith("layers")]
    others = [t for name, t in w.items() if t.ndim == 1 or not name.startswith("layers")]
    optimizers = (
        torch.optim.Muon(matrices, weight_decay=WEIGHT_DECAY, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, betas=(0.9, 0.98), weight_decay=0.0),
    )
    step, record, start = 0, [], time.time()
    for peak, stages in PHASES:
        plan = [stage for stage in stages for _ in range(stage[0])]
        for i, stage in enumerate(plan):
            cosine = 0.5 * (1 + math.cos(math.pi * i / len(plan)))
            for optimizer in optimizers:
                optimizer.param_groups[0]["lr"] = peak * min(1, (i + 1) / WARMUP) * (0.05 + 0.95 * cosine)
                optimizer.zero_grad()
            loss, answer, accuracy = loss_of(w, c, *make_batch(step, stage, rng))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(list(w.values()), 1.0)
            for optimizer in optimizers:
                optimizer.step()
            step += 1
            if step % 50 == 0:
                row = {"step": step, "n_tokens": stage[1], "loss": round(float(loss.detach()), 4)}
                row |= {"answer_loss": round(answer, 4), "answer_accuracy": round(accuracy, 4)}
                record.append(row)
                print(row, f"{time.time() - start:.0f} s", flush=True)
    return w, record


def packed(w: dict[str, torch.Tensor], c: dict) -> dict[str, np.ndarray]:
    """The file's tensors: float16, maps that read the same input stacked, and one position's RoPE turn."""
    half = {name: tensor.detach().numpy().astype("<f2") for name, tensor in w.items()}
    out = {"embedding": half["embedding"], "output_norm": half["final_norm"], "output": half["head"]}
    for i in range(c["n_layers"]):
        p = f"layers.{i}."
        out[p + "attention_norm"], out[p + "feed_forward_norm"] = (
            half[p + "attention_norm"],
            half[p + "ffn_norm"],
        )
        out[p + "query_key_value"] = np.concatenate([half[p + name] for name in ("wq", "wk", "wv")])
        out[p + "gate_up"] = np.concatenate([half[p + name] for name in ("w_gate", "w_up")])
        out[p + "attention_output"], out[p + "down"] = half[p + "wo"], half[p + "w_down"]
    return {**out, "rope_turn": TINY.rope_turn()}


def evaluate(w: dict[str, torch.Tensor], c: dict) -> list[dict[str, Any]]:
    """Share of held-out queries with every answer token right, by number of bindings and by distance."""
    rounded = {name: tensor.detach().half().float() for name, tensor in w.items()}
    rows = []
    for n_bindings in HELD_OUT_BINDINGS:
        hits, distances = [], []
        for seed in range(HELD_OUT_EPISODES):
            episode = make_episode(seed, TINY.context_length, n_bindings, n_queries=16)
            with torch.no_grad():
                best = forward(rounded, c, torch.from_numpy(episode.tokens.astype(np.int64))[None])[0].argmax(
                    -1
                )
            for query in episode.queries:
                hits.append(
                    best[query.position : query.position + ANSWER_LENGTH].tolist() == list(query.answer)
                )
                distances.append(query.distance)
        by_distance = {}
        for low in range(0, TINY.context_length, 256):
            inside = [
                hit for hit, distance in zip(hits, distances, strict=True) if low <= distance < low + 256
            ]
            if inside:
                by_distance[f"{low}..{low + 255}"] = {
                    "queries": len(inside),
                    "accuracy": round(float(np.mean(inside)), 4),
                }
        rows.append(
            {"n_bindings": n_bindings, "accuracy": round(float(np.mean(hits)), 4), "by_distance": by_distance}
        )
        print(rows[-1], flush=True)
    return rows


def write_atomically(path: Path, data: bytes) -> None:
    beside = path.with_name(path.name + ".part")
    beside.write_bytes(data)
    os.replace(beside, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=WEIGHTS_FILE.parent)
    out = parser.parse_args().out
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    started, cpu_started = time.time(), time.process_time()
    w, record = train(CONFIG)
    seconds, cpu_seconds = time.time() - started, time.process_time() - cpu_started
    buffer = io.BytesIO()
    np.savez(buffer, **packed(w, CONFIG))  # type: ignore[arg-type]
    data = buffer.getvalue()
    versions = {"python": platform.python_version(), "numpy": np.__version__, "torch": torch.__version__}
    summary = {
        "weights": {"file": WEIGHTS_FILE.name, "sha256": sha256(data).hexdigest(), "bytes": len(data)},
        "model": CONFIG
        | {"context_length": TINY.context_length, "parameters": sum(t.numel() for t in w.values())},
        "seed": SEED,
        "phases": [
            {"peak_rate": peak, "stages": [dict(zip(STAGE_FIELDS, stage, strict=True)) for stage in stages]}
            for peak, stages in PHASES
        ],
        "optimizer": {"matrices": "Muon", "others": "AdamW"},
        "versions": versions | {"machine": platform.machine(), "threads": 1},
        "seconds": round(seconds),
        "cpu_seconds": round(cpu_seconds),
        "held_out": evaluate(w, CONFIG),
        "log": record,
    }
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / WEIGHTS_FILE.name, data)
    write_atomically(out / "tiny.json", (json.dumps(summary, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
