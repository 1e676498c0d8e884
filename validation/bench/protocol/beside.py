"""llama.cpp on the same model file in a child process: prefill and decode at the same lengths, for three types of cache.

node-llama-cpp brings llama.cpp compiled for many processors; ``make bench-peers`` installs it. Its prefill makes the
logits of the last token only, as ours does, and a decode step ends with the greedy choice of a token.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tq_core.errors import BackendError
from tq_core.model.interface import LanguageModel
from tq_core.model.sources import SOURCES, model_path
from tq_core.show.lines import LineProcess
from validation.bench.peers.install import NODE_MODULES
from validation.bench.protocol.passes import DECODE_STEPS, prompt
from validation.bench.protocol.rows import Row, figure, not_measured

SCRIPT = Path(__file__).resolve().parents[1] / "peers" / "llama_model.mjs"
TYPES = {"f16": "F16", "q8_0": "Q8_0", "q4_0": "Q4_0"}
SPEEDS = ("prefill speed", "decode speed")
WHERE = "whole model, llama.cpp in a child process"
VARIABLE = "TQ_BENCH_NODE_MODULES"
Progress = Callable[[str, int, int], None]


def node_modules() -> Path:
    """The folder that holds node-llama-cpp: $TQ_BENCH_NODE_MODULES, or what `make bench-peers` makes."""
    return Path(os.environ.get(VARIABLE, NODE_MODULES))


def beside(
    model: LanguageModel,
    contexts: Sequence[int],
    repeats: int,
    progress: Progress,
    seconds: float,
    clock: str = "wall",
) -> tuple[list[Row], dict[str, Any]]:
    """(rows of "llama.cpp TYPE" at every length, versions)."""
    names = [f"llama.cpp {kind}" for kind in TYPES]
    child: LineProcess | None = None
    rows: list[Row] = []
    try:
        child = _start(model)
        versions = child.ask({"op": "hello"}, seconds)["versions"]
        for context in contexts:
            for name, kind in zip(names, TYPES.values()):
                rows += _rows(child, model, name, kind, context, repeats, progress, seconds, clock)
        return rows, versions
    except BackendError as error:
        reason = " ".join(str(error).split())
        have = {(r["arm"], r["context"]) for r in rows}
        rest = [(n, c) for c in contexts for n in names if (n, c) not in have]
        return rows + [not_measured(what, n, c, reason) for n, c in rest for what in SPEEDS], {}
    finally:
        if child is not None:
            child.close()


def _start(model: LanguageModel) -> LineProcess:
    node, folder = shutil.which("node"), node_modules()
    if model.name not in SOURCES:
        raise BackendError(f"{model.name} has no model file that llama.cpp reads")
    if node is None or not (folder / "node-llama-cpp").is_dir():
        raise BackendError("llama.cpp is not installed, make bench-peers")
    arguments = [str(folder), str(model_path(SOURCES[model.name])), "1"]
    return LineProcess("llama.cpp", [node, str(SCRIPT), *arguments], dict(os.environ))


def _rows(
    child: LineProcess, model: LanguageModel, name: str, kind: str, context: int, repeats: int,
    progress: Progress, seconds: float, clock: str,
) -> list[Row]:  # fmt: skip
    if context > model.context_length:
        reason = f"{model.name} holds {model.context_length} tokens at most"
        return [not_measured(what, name, context, reason) for what in SPEEDS]
    filled, prefills, decodes = context - DECODE_STEPS, [], []
    ids = [int(x) for x in prompt(model, context)]
    for i in range(repeats):
        progress(f"{name}, {context} tokens", i, repeats)
        request = {
            "op": "run",
            "type": kind,
            "prefill": filled,
            "steps": DECODE_STEPS,
            "ids": ids,
            "clock": clock,
        }
        made = child.ask(request, seconds)
        if made["tokens"] != context:
            raise BackendError(f"llama.cpp: expected {context} tokens in its cache, got {made['tokens']}")
        prefills.append(filled / (made["prefill_ns"] / 1e9))
        decodes += [1e9 / ns for ns in made["decode_ns"][1:]]
    note = f"keys and values {name.split()[1]}, flash attention, one thread"
    return [
        figure("prefill speed", name, context, prefills, WHERE, f"{note}, batches of 512"),
        figure("decode speed", name, context, decodes, WHERE, note),
    ]


def ratios(rows: list[Row]) -> list[Row]:
    """Speed of every arm over llama.cpp's with the f16 cache at the same length, where both were measured."""
    base = {(r["what"], r["context"]): r for r in rows if r["arm"] == "llama.cpp f16" and r["value"]}
    found = []
    for row in rows:
        other = base.get((row["what"], row["context"]))
        if other is None or row["arm"] == other["arm"] or not row["value"]:
            continue
        found.append(
            {k: row[k] for k in ("what", "arm", "context")}
            | {"over": other["arm"], "ratio": row["value"] / other["value"]}
        )
    return found
