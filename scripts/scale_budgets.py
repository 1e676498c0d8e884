"""What losses look like, to set budgets by: arms of known quality on conversations that no shipped study reads.

    python scripts/scale_budgets.py

Prints the mean loss per prompt and its standard deviation, for every metric that applies. Two minutes on one core.
"""

import tq_core  # noqa: F401, I001  (before numpy: it fixes the number of BLAS threads)

import numpy as np

from tq_core.codecs.arms import get_arm
from tq_core.model.zoo import load_model
from tq_core.show.html import text_table
from validation.controls import PLANTED_BAD, arm_for
from validation.engine.cell import Job, Seat, compute
from validation.prompt_metrics import PROMPT_METRICS
from validation.workloads.catalogue import prompts_of

FIRST, LAST, TOKENS = 40, 48, 480  # the shipped studies read the first forty conversations


def arms():
    """The default arm at falling bit rates, and those it is compared with."""
    rates = {f"structured-turbo {b:g}/{b:g}": {"key_bits": b, "value_bits": b} for b in (4, 3, 2.5, 2)}
    made = {name: get_arm("structured-turbo", **bits) for name, bits in rates.items()}
    return {
        "structured-turbo": get_arm("structured-turbo"), **made, "kivi-control": get_arm("kivi-control"),
        PLANTED_BAD: arm_for(PLANTED_BAD),
    }  # fmt: skip


def main():
    model = load_model("smollm2")
    prompts = prompts_of(model, "chat", LAST, TOKENS)[FIRST:]
    seats = tuple(Seat(name, arm, "simulated") for name, arm in arms().items())
    readings = [dict(compute(Job(prompt, get_arm("fp16"), seats), model)) for prompt in prompts]
    rows = []
    for seat in seats:
        for metric in PROMPT_METRICS.values():
            pairs = [(r[seat.label], r["reference"]) for r in readings]
            losses = [metric.loss(*pair) for pair in pairs if all(map(metric.applies, pair))]
            if losses:
                mean, spread = np.mean(losses), np.std(losses, ddof=1)
                rows.append([seat.label, metric.name, len(losses), f"{mean:.4f}", f"{spread:.4f}"])
    print(text_table(["arm", "metric", "prompts", "mean loss", "standard deviation"], rows))


if __name__ == "__main__":
    main()
