"""What `tq plan` prints for people: plain data in, lines out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from validation.budget.published import AGREES, Checked


def size(nbytes: float) -> str:
    """Bytes in the largest binary unit that leaves at least 1."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(nbytes) < 1024:
            return f"{nbytes:.0f} {unit}" if unit == "B" else f"{nbytes:.2f} {unit}"
        nbytes /= 1024
    return f"{nbytes:.2f} TiB"


def _count(tokens: int | None, never: str) -> str:
    return never if tokens is None else f"{tokens:,} tokens"


def plan(data: dict[str, Any]) -> str:
    """The plan as lines of text."""
    s, window = data["shape"], data["window"]
    out = [
        f"{data['model']}: {s['n_layers']} layers, {s['n_query_heads']} query heads, {s['n_kv_heads']} KV heads, "
        f"head_dim {s['head_dim']} ({data['source']})"
    ]
    if data["local_layers"]:
        out.append(
            f"{data['local_layers']} layers see the newest {data['sliding_window']} tokens only; counted without older ones"
        )
    if data["remark"]:
        out.append(f"remark: {data['remark']}")
    kept = "all tokens" if window is None else f"the newest {window} and the first {data['sinks']} tokens"
    out += [
        f"{data['arm']}: keys {data['key_bits']:g} bits, values {data['value_bits']:g} bits, {kept} in fp16",
        "",
        f"{data['tokens']:,} tokens{'':<8} {'bytes':>18} {'':>12} {'bits per channel':>17}",
    ]
    for line in [
        *data["lines"],
        {"line": "total", "bytes": data["total"], "bits_per_channel": data["bits_per_channel"]},
    ]:
        if line["bytes"]:
            out.append(
                f"  {line['line']:<15} {line['bytes']:>20,} {size(line['bytes']):>14} {line['bits_per_channel']:>17.4f}"
            )
    out += [
        f"  a full page takes {data['bits_per_channel_full_page']:.4f} bits per channel",
        "",
        "the same tokens as",
    ]
    for name, nbytes in data["baselines"].items():
        out.append(
            f"  {name:<15} {nbytes:>20,} {size(nbytes):>14} {nbytes / data['total']:>12.2f} x this cache"
        )
    out += ["", f"a decode step reads {size(data['step_bytes'])} (fp16: {size(data['baselines']['fp16'])})"]
    out.append(_budget(data))
    out.append(_break_even(data))
    return "\n".join(line for line in out if line is not None)


def _budget(data: dict[str, Any]) -> str:
    if "budget" not in data:
        return "budget: none given (--budget 2GiB)"
    unlimited = "any number of tokens"
    return (
        f"budget {size(data['budget'])}: {data['tokens']:,} tokens {'fit' if data['fits'] else 'DO NOT FIT'}; at most "
        f"{_count(data['max_tokens'], unlimited)} (fp16 arm: {_count(data['max_tokens_fp16_arm'], unlimited)})"
    )


def _break_even(data: dict[str, Any]) -> str:
    if "costs" not in data:
        return "break-even: no measured costs given (--append-ns, --scan-ns, --fp16-scan-ns, or --bench FILE)"
    c = data["costs"]
    return (
        f"break-even after a prompt of {data['tokens']:,}: {_count(data['break_even_tokens'], 'never')} generated "
        f"(append {c['append_ns']:g} ns, scan {c['scan_ns']:g} ns, fp16 scan {c['fp16_scan_ns']:g} ns per token and KV head; "
        f"{c['source']})"
    )


def published(made: Sequence[Checked]) -> str:
    """The figures that do not agree, and how many do."""
    out = []
    for table in dict.fromkeys((c.source, c.table) for c in made):
        rows = [c for c in made if (c.source, c.table) == table]
        good = sum(c.verdict == AGREES for c in rows)
        out.append(f"{table[0]}: {table[1]}: {good} of {len(rows)} agree")
        for c in rows:
            if c.verdict != AGREES:
                out.append(f"  {c.verdict}: {c.item}: published {c.published}, computed {c.right}")
                out.append(f"    {c.why}")
    agree = sum(c.verdict == AGREES for c in made)
    return "\n".join([*out, f"{agree} of {len(made)} published figures agree to the printed digit"])
