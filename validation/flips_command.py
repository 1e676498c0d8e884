"""`tq flips`: prompts on which an arm changes the model's choice, and which part of the cache gives the choice back."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tq_core.codecs.arms import get_arm
from tq_core.errors import ValueRangeError, check
from tq_core.model.interface import LanguageModel
from tq_core.model.zoo import load_model
from tq_core.show.html import text_table
from validation.alignment import Part, channel_parts, layer_parts, ranking, recoveries
from validation.engine.cell import Job, Seat, compute
from validation.fitted import arm_on
from validation.prompt_metrics import choice, log_odds
from validation.workloads.catalogue import prompts_of
from validation.workloads.prompt import Prompt

PASS = 0
MOST_PROMPTS = 10_000
SHOWN = 12
Progress = Callable[[str, int, int], None]


def add_parser(commands: Any) -> None:
    """Add the command to `tq`."""
    parser = commands.add_parser(
        "flips",
        help="prompts on which an arm changes the model's choice, and which part of the cache is at fault",
    )
    parser.add_argument("--model", default="tiny", help="tiny (default), smollm2, gemma, or a path")
    parser.add_argument("--arm", default="structured-turbo")
    parser.add_argument("--workload", metavar="NAME", help="default: refusal, or the tiny model's episodes")
    parser.add_argument("--prompts", type=int, default=20, metavar="N")
    parser.add_argument("--length", type=int, metavar="N", help="tokens per prompt (default: 480; tiny 320)")
    parser.add_argument(
        "--by", choices=("layers", "channels"), default="layers", help="what is restored, part by part"
    )
    parser.add_argument("--group", type=int, default=8, metavar="N", help="channels per part (default: 8)")
    parser.add_argument("--all", action="store_true", help="explain the prompts whose choice stayed, too")
    parser.add_argument("--json", action="store_true", help="JSON on standard output, nothing else there")
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")


def run(options: argparse.Namespace, progress: Progress) -> int:
    """Read the prompts, find those that flipped, restore part after part; always exit code 0: nothing is judged here."""
    tiny = options.model == "tiny"
    check(
        1 <= options.prompts <= MOST_PROMPTS,
        "prompts",
        f"1..{MOST_PROMPTS}",
        options.prompts,
        ValueRangeError,
    )
    length = (320 if tiny else 480) if options.length is None else options.length
    check(length >= 2, "length", "at least 2 tokens", length, ValueRangeError)
    check(options.group >= 1, "group", "at least 1 channel", options.group, ValueRangeError)
    model = load_model(options.model)
    name = options.workload or ("episodes" if tiny else "refusal")
    prompts = prompts_of(model, name, options.prompts, length)
    told = all(len(p.alternatives) >= 2 for p in prompts)
    check(told, "workload", "one whose prompts have alternatives", name, ValueRangeError)
    shape = model.shape
    parts = layer_parts(shape) if options.by == "layers" else channel_parts(shape, options.group)
    found = explain(model, prompts, options.arm, parts, options.all, progress)
    print(json.dumps(found, indent=1, allow_nan=False) if options.json else as_text(found))
    return PASS


def explain(
    model: LanguageModel, prompts: Sequence[Prompt], arm_name: str, parts: Sequence[Part], every: bool, progress: Progress
) -> dict[str, Any]:  # fmt: skip
    """{arm, prompts: [...], flips, parts: ranking}: the choices with and without the arm, and what each part recovers."""
    arm = partial(arm_on, model, prompts)(arm_name)
    rows, flipped = [], []
    for index, prompt in enumerate(prompts):
        readings = dict(
            compute(
                Job(prompt, get_arm("fp16", sinks=arm.sinks), (Seat(arm_name, arm, replies=False),)), model
            )
        )
        reference, coded = (readings[label].alternatives for label in ("reference", arm_name))
        rows.append(
            {
                "prompt": prompt.name,
                "choice_reference": choice(reference),
                "choice": choice(coded),
                "log_odds_reference": log_odds(reference),
                "log_odds": log_odds(coded),
                "facts": dict(prompt.facts),
            }
        )
        if every or choice(reference) != choice(coded):
            flipped.append(prompt)
        progress("choices", index + 1, len(prompts))
    restored: list[dict[str, Any]] = []
    for index, prompt in enumerate(flipped):
        restored += recoveries(model, [prompt], arm, parts, only_flipped=False)
        progress("restoring parts", index + 1, len(flipped))
    flips = sum(r["choice"] != r["choice_reference"] for r in rows)
    return {"model": model.name, "arm": arm_name, "prompts": rows, "flips": flips, "parts": ranking(restored)}


def as_text(found: dict[str, Any]) -> str:
    """The flips, and the parts that give most back."""
    n = len(found["prompts"])
    lines = [f"{found['flips']} of {n} choices changed under {found['arm']} on {found['model']}"]
    changed = [r for r in found["prompts"] if r["choice"] != r["choice_reference"]]
    rows = [
        [r["prompt"], r["choice_reference"], r["choice"], r["log_odds_reference"], r["log_odds"]]
        for r in changed
    ]
    if rows:
        lines.append(text_table(["prompt", "fp16 chose", "arm chose", "log-odds fp16", "log-odds arm"], rows))
    if not found["parts"]:
        return "\n".join([*lines, "nothing to explain; --all explains the prompts whose choice stayed"])
    parts = [
        [p["part"], p["prompts"], "none" if p["recovered"] is None else f"{p['recovered']:+.0%}"]
        for p in found["parts"]
    ]
    lines.append(text_table(["part kept in float16", "prompts", "of the change recovered"], parts[:SHOWN]))
    if len(parts) > SHOWN:
        lines.append(f"... and {len(parts) - SHOWN} parts that recover less (--json has all)")
    return "\n".join(lines)
