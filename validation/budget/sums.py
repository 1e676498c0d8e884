"""Everything that `tq plan` says, as plain data: memory by line, other formats, longest context, bandwidth, break-even."""

from __future__ import annotations

from typing import Any

from tq_core.cache.breakdown import WHAT, page_bits
from tq_core.cache.capacity import step_bytes
from tq_core.codecs.arms import Arm, get_arm
from tq_core.model.outline import ModelOutline
from tq_core.model.outline_bytes import longest_context, parts, plain_bytes, planned_bytes
from validation.budget.costs import Costs


def sums(
    outline: ModelOutline, arm: Arm, tokens: int, budget: int | None, costs: Costs | None
) -> dict[str, Any]:
    """The plan of a cache for ``tokens`` tokens. ``budget`` in bytes; raises CodecError when the arm cannot store the shape."""
    lines = planned_bytes(outline, arm, tokens)
    bits, plain = lines.bits, plain_bytes(outline, tokens)
    data: dict[str, Any] = {
        "status": "pass",
        "model": outline.name,
        "source": outline.source,
        "remark": outline.remark,
        "shape": vars(outline.shape),
        "local_layers": outline.local_layers,
        "sliding_window": outline.sliding_window,
        "arm": arm.name,
        "key_bits": arm.key_codec.nominal_bits(outline.shape.head_dim),
        "value_bits": arm.value_codec.nominal_bits(outline.shape.head_dim),
        "window": arm.window,
        "sinks": arm.sinks,
        "tokens": tokens,
        "lines": [
            {"line": name, "bytes": n, "bits_per_channel": float(bits[name]), "what": WHAT[name]}
            for name, n in lines.nbytes.items()
        ],
        "total": lines.total,
        "bits_per_channel": float(sum(bits.values())),
        "bits_per_channel_full_page": float(sum(page_bits(outline.shape, arm).values())),
        "baselines": plain,
        "share_of_fp16": lines.total / plain["fp16"],
        "step_bytes": sum(step_bytes(shape, arm, held) for shape, held in parts(outline, tokens)),
    }
    if budget is not None:
        fits = lines.total <= budget
        data |= {"status": "pass" if fits else "fail", "budget": budget, "fits": fits}
        data["max_tokens"] = longest_context(outline, arm, budget)
        data["max_tokens_fp16_arm"] = longest_context(outline, get_arm("fp16"), budget)
    if costs is not None:
        data |= {
            "costs": costs.as_dict(),
            "break_even_tokens": costs.break_even(outline.shape, tokens, outline.local_layers),
        }
    return data
