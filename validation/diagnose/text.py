"""A diagnosis as lines of text: plain data in, nothing is computed."""

from __future__ import annotations

from typing import Any

from tq_core.model.zoo import model_names

# Figures of the table by column title; the last two are only there with queries.
COLUMNS = (
    ("K/V", "norm_ratio"), ("centred", "norm_ratio_centred"), ("peak", "peak_channel_energy"), ("outl", "outlier_channels"),
    ("kurt", "kurtosis"), ("rotated", "kurtosis_rotated"), ("static", "static_mean_share"), ("p32", "page_32_share"),
    ("p64", "page_64_share"), ("p128", "page_128_share"), ("preRoPE", "pre_rope_mean_share"), ("key0", "first_key_norms"),
    ("mass0", "mass_first"), ("smooth", "smoothing_bits"),
)  # fmt: skip
LEGEND = (
    "K/V, centred: key over value length, as they are and without the mean key; peak: largest over mean channel energy",
    "outl: outlier channels; kurt, rotated: excess kurtosis before and after rotation; static, p32.., preRoPE: share of",
    "key energy in the mean of all keys, of pages of 32, 64, 128, of keys before RoPE; key0: length of the first key over",
    "the usual; mass0: attention on it; smooth: bits that smoothing could save. A dash is not known or not defined.",
)


def _cell(value: Any) -> str:
    if isinstance(value, list):
        value = len(value) if value and isinstance(value[0], int) else (value[0] if value else 0)
    if value is None:
        return "-"
    return f"{value:d}" if isinstance(value, int) else f"{value:.3g}"


def table(rows: list[dict[str, Any]]) -> list[str]:
    """One line per layer and KV head."""
    shown = [(title, name) for title, name in COLUMNS if any(name in row for row in rows)]
    head = f"{'layer':>5} {'head':>4}" + "".join(f" {title:>8}" for title, _ in shown)
    lines = [head]
    for row in rows:
        cells = "".join(f" {_cell(row.get(name)):>8}" for _, name in shown)
        lines.append(f"{row['layer']:>5} {row['head']:>4}{cells}")
    return lines


def _summary(data: dict[str, Any]) -> list[str]:
    lines = [f"{'':<38} {'median':>9} {'least':>9} {'most':>9}  most at"]
    for name, s in data["summary"].items():
        at = f"layer {s['most_at']['layer']} head {s['most_at']['head']}"
        numbers = " ".join(f"{s[what]:>9.3g}" for what in ("median", "least", "most"))
        lines.append(f"{name:<38} {numbers}  {at}")
    return lines


def _because(reason: dict[str, Any]) -> str:
    measured = "not known" if reason["measured"] is None else f"{reason['measured']:.3g}"
    mark = "crosses" if reason["crossed"] else "keeps"
    return f"      {reason['figure']}: {measured}, {mark} {reason['limit_value']:g} {reason['unit']} [{reason['origin']}: {reason['limit']}]"


def lines_of_advice(data: dict[str, Any]) -> list[str]:
    """Every finding with its reasons, the special ones marked."""
    advice = data["advice"]
    out = []
    for finding in advice["findings"]:
        out.append(f"  {'*' if finding['special'] else ' '} {finding['topic']}: {finding['text']}")
        out += [_because(reason) for reason in finding["because"]]
    options = " ".join(f"{k}={v}" for k, v in advice["options"].items())
    told = (
        f"special: {', '.join(dict.fromkeys(advice['special']))}" if advice["special"] else "nothing special"
    )
    return [*out, "", f"{told}; arm {advice['arm']} with {options}"]


def page(data: dict[str, Any]) -> str:
    """The whole diagnosis."""
    s, trial = data["source"], data["trial"]
    queries = "no queries" if s["n_query_heads"] is None else f"{s['n_query_heads']} query heads"
    values = "with values" if s["has_values"] else "no values"
    text = f" on {s['text']}" if s["text"] else ""
    out = [
        f"{s['name']}{text}: {s['n_layers']} layers, {s['n_tokens']} tokens, {s['n_kv_heads']} KV heads, {queries}, {values}, "
        f"head_dim {data['head_size']['head_dim']}",
        "",
        *table(data["heads"]),
        *LEGEND,
        "",
        *_summary(data),
        "",
    ]
    if trial["not_tried"]:
        out.append(f"not stored by any codec: {trial['not_tried']}")
    else:
        kind = "logit error in nats" if trial["kind"] == "logit" else "error over the keys' spread"
        arms = ", ".join(f"{name} {bits:.2f}" for name, bits in trial["bits_all_in"].items())
        out.append(
            f"key_errors: {kind} of 3-bit keys, all tokens stored; key_errors_sinks: the first four kept"
        )
        out.append(f"bits all-in: {arms}")
    lines = [*out, "", "advice (* is not what clean Gaussian vectors get)", *lines_of_advice(data)]
    if s["name"] in model_names():
        arm = data["advice"]["arm"]
        lines += [
            "",
            "best-turbo, which is fitted to a model, is outside this advice; hold the two against each other with",
            f"  tq compare --model {s['name']} --arms best-turbo,{arm}",
        ]
    return "\n".join(lines)
