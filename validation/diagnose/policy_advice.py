"""Advice on what stays exact and on the vectors themselves: sinks, window, head size, degenerate input."""

from __future__ import annotations

from typing import Any

from validation.diagnose.finding import Finding, above, below, of, share_of_heads
from validation.diagnose.key_figures import FP16_MAX
from validation.diagnose.thresholds import FIRST_MASS, HEADS, LARGE_FIRST, RECENT_MASS, SMALL_FIRST

SINKS = (0, 1, 4)


def sinks(data: dict[str, Any]) -> Finding:
    """0, 1 or 4 first tokens in float16: by their length, and by the attention they get where queries are known."""
    rows, summary = data["heads"], data["summary"]

    def odd(position: int) -> float | None:
        norms = [row["first_key_norms"][position] for row in rows]
        found = [None if n is None else n < SMALL_FIRST.value or n > LARGE_FIRST.value for n in norms]
        return share_of_heads(rows, found)

    length = of(summary, "first_key_norms[0]")
    reasons = [
        below("median length of key 0", length, SMALL_FIRST),
        above("median length of key 0", length, LARGE_FIRST),
        above("share of heads where key 0 is shorter or longer than that", odd(0), HEADS),
        above("mean attention on position 0", _mean(rows, "mass_first", 0), FIRST_MASS),
    ]
    later = max((s for s in (odd(1), odd(2), odd(3)) if s is not None), default=0.0)
    masses = [_mean(rows, "mass_first", i) for i in (1, 2, 3)]
    others = sum(m for m in masses if m is not None) if masses[0] is not None else None
    reasons += [
        above("share of heads where one of keys 1 to 3 is", later, HEADS),
        above("mean attention on positions 1 to 3", others, FIRST_MASS),
    ]
    first, more = any(r.crossed for r in reasons[2:4]), any(r.crossed for r in reasons[4:])
    value = 4 if more else 1 if first else 0
    if value:
        what = "the first token" if value == 1 else "the first four tokens"
        text = f"keep {what} in float16: other lengths, or much attention, make their errors costly, above all once keys are centred"
    else:
        text = "no sinks: the first tokens are like the others"
    if not any(r.figure.startswith("mean attention") and r.measured is not None for r in reasons):
        text += "; without queries the attention on them is not known"
    return Finding(
        "sinks", value, text, tuple(r for r in reasons if r.crossed) or tuple(reasons[2:4]), value > 0
    )


def _mean(rows: list[dict[str, Any]], name: str, index: int) -> float | None:
    found = [row[name][index] for row in rows if name in row]
    return sum(found) / len(found) if found else None


def window(data: dict[str, Any]) -> Finding:
    """128 recent tokens in float16, or 32 where the ones between get little attention."""
    summary, n_tokens = data["summary"], data["source"]["n_tokens"]
    both = [of(summary, f"mass_recent_{n}", "median") for n in (32, 128)]
    between = both[1] - both[0] if both[0] is not None and both[1] is not None else None
    reason = above("attention on tokens 32 to 127 back", between, RECENT_MASS)
    if between is None:
        text = "a window of 128, the default: without queries it is not known how far back attention goes"
    elif n_tokens < 256:
        text = (
            f"a window of 128, the default: {n_tokens} tokens are too few to tell how far back attention goes"
        )
    elif reason.crossed:
        text = "a window of 128: the tokens that a window of 32 would drop get attention"
    else:
        text = "a window of 32 does: the tokens between 32 and 127 back get little attention"
        return Finding("window", 32, text, (reason,), True)
    return Finding("window", 128, text, (reason,))


def head_size(data: dict[str, Any]) -> Finding:
    """How the rotation reaches this head_dim."""
    size = data["head_size"]
    d, padded, cost = size["head_dim"], size["padded_dim"], size["padding_cost"]
    if not size["supported"]:
        more = f"; {size['next_supported']} is the next size that has them" if size["next_supported"] else ""
        text = f"head_dim {d} has no kernels here, so nothing was stored by a codec{more}"
        return Finding("head_dim", d, text, (), True)
    if size["power_of_two"]:
        return Finding("head_dim", d, f"head_dim {d} is a power of two: a plain Hadamard transform")
    m = size["paley_order"]
    text = (
        f"head_dim {d} = {m} x {d // m}: rotated exactly by a Paley matrix of order {m}; do not pad to {padded}, which costs "
        f"{100 * cost:.0f} % more bits, and never drop padded coordinates, which loses {100 * (1 - d / padded):.1f} % of the energy"
    )
    return Finding("head_dim", d, text, (), True)


def degenerate(data: dict[str, Any]) -> list[Finding]:
    """What is wrong with the vectors themselves, one finding each."""
    rows, out = data["heads"], []

    def where(found: list[dict[str, Any]]) -> str:
        first = f"layer {found[0]['layer']} head {found[0]['head']}"
        return first if len(found) == 1 else f"{len(found)} heads, first {first}"

    dead = [r for r in rows if r["key_norm"] == 0]
    if dead:
        out.append(
            Finding(
                "input", "zero keys", f"every key is zero in {where(dead)}: is the capture right?", (), True
            )
        )
    constant = [r for r in rows if r["distinct_tokens"] == 1 and r["key_norm"] > 0]
    if constant:
        text = f"all keys are the same in {where(constant)}: they are an offset alone, and a static mean stores them exactly"
        out.append(Finding("input", "constant keys", text, (), True))
    zeros = [r for r in rows if 0 < r["zero_tokens"] and r["key_norm"] > 0]
    if zeros:
        most = max(r["zero_tokens"] for r in zeros)
        text = f"up to {most} keys are zero vectors in {where(zeros)}: padding? they lower every mean here"
        out.append(Finding("input", "zero tokens", text, (), True))
    channels = [r for r in rows if r["dead_channels"] and r["key_norm"] > 0]
    if channels:
        most = max(r["dead_channels"] for r in channels)
        text = f"up to {most} channels are always zero in {where(channels)}: a smoothing must floor them"
        out.append(Finding("input", "dead channels", text, (), True))
    large = [r for r in rows if r["largest_number"] > FP16_MAX]
    if large:
        text = f"numbers beyond float16 in {where(large)}: the recent window is float16 and refuses them"
        out.append(Finding("input", "beyond float16", text, (), True))
    return out
