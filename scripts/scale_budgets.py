"""What losses look like, to set budgets by: arms of known quality on prompts that no shipped study reads.

    python scripts/scale_budgets.py

Writes validation/studies/scale.json: mean loss and standard deviation over eight prompts, per workload, arm and metric. The
reasons in the studies quote it, and a test holds them to it. Some ten minutes on one core.
"""

import tq_core  # noqa: F401, I001  (before numpy: it fixes the number of BLAS threads)

import json

import numpy as np

from tq_core.codecs.arms import get_arm
from tq_core.model.zoo import load_model
from tq_core.paths import ROOT
from validation.controls import PLANTED_BAD, arm_for
from validation.engine.cell import Job, Seat, compute
from validation.prompt_metrics import PROMPT_METRICS
from validation.workloads.catalogue import prompts_of

OUT = ROOT / "validation" / "studies" / "scale.json"
COUNT = 8
# (model, workload, first prompt, tokens): the shipped studies read only prompts before the first.
READ = (("tiny", "episodes", 20, 320), ("smollm2", "text", 24, 512), ("smollm2", "chat", 40, 480))


RATES = ((4, 4), (3, 3), (2.5, 2.5), (2, 2), (4, 3), (3, 4), (2, 3), (3, 2))  # keys, values


def arms():
    """The default arm at other bit rates and with other windows, and those it is compared with."""
    rates = {f"structured-turbo {k:g}/{v:g}": {"key_bits": k, "value_bits": v} for k, v in RATES}
    windows = {f"structured-turbo, window {w}": {"window": w} for w in (32, 256)}
    return {
        "structured-turbo": get_arm("structured-turbo"),
        **{name: get_arm("structured-turbo", **options) for name, options in (rates | windows).items()},
        "structured-turbo, no window": get_arm("structured-turbo", window=0),
        "kivi-control": get_arm("kivi-control"),
        PLANTED_BAD: arm_for(PLANTED_BAD),
    }


def measure(model, workload, first, tokens):
    """{arm: {metric: {mean, standard_deviation}}} over COUNT prompts from ``first`` on."""
    prompts = prompts_of(model, workload, first + COUNT, tokens)[first:]
    seats = tuple(Seat(name, arm, "simulated") for name, arm in arms().items())
    readings = [dict(compute(Job(prompt, get_arm("fp16"), seats), model)) for prompt in prompts]
    found: dict[str, dict[str, dict[str, float]]] = {}
    for seat in seats:
        found[seat.label] = {}
        for metric in PROMPT_METRICS.values():
            pairs = [(r[seat.label], r["reference"]) for r in readings]
            losses = [metric.loss(*pair) for pair in pairs if all(map(metric.applies, pair))]
            if losses:
                mean, spread = float(np.mean(losses)), float(np.std(losses, ddof=1))
                found[seat.label][metric.name] = {
                    "mean": round(mean, 5),
                    "standard_deviation": round(spread, 5),
                }
    return found


def main():
    workloads = {}
    for name, workload, first, tokens in READ:
        print(f"{workload} on {name}", flush=True)
        made = {"model": name, "first": first, "tokens": tokens}
        workloads[workload] = {**made, "arms": measure(load_model(name), workload, first, tokens)}
    result = {"prompts": COUNT, "command": "python scripts/scale_budgets.py", "workloads": workloads}
    OUT.write_text(json.dumps(result, indent=1, allow_nan=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
