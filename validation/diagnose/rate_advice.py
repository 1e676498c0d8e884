"""Advice on how keys and values are stored: rotation, centring, smoothing, arm, bits."""

from __future__ import annotations

from math import log2
from typing import Any

from validation.diagnose.finding import Finding, Reason, above, below, of
from validation.diagnose.thresholds import (
    ARM_BITS,
    CENTRING_BITS,
    FLAT,
    KURTOSIS,
    LOGIT_ERROR,
    NORM_RATIO,
    OUTLIER_CHANNEL,
    SMOOTHING_BITS,
    VALUE_ERROR,
)

ROTATION, PAGE, STATIC, BEFORE, GROUPS = (
    "rotation", "rotation, page centre", "rotation, static mean", "rotation, pre-RoPE mean", "groups per channel",
)  # fmt: skip
CENTRES = {PAGE: "page", STATIC: "static", BEFORE: "pre-RoPE"}
SHARES = {PAGE: "page_128_share", STATIC: "static_mean_share", BEFORE: "pre_rope_mean_share"}
TRIAL_BITS, DEFAULT_KEY_BITS, DEFAULT_VALUE_BITS = 3, 4, 3
TURBO_RATES: tuple[float, ...] = (2, 2.5, 3, 3.5, 4)
KIVI_RATES: tuple[float, ...] = (2, 3, 4)
SLACK = 0.1  # of a bit, by which a rate may fall short


def costs(data: dict[str, Any], sinks: int) -> dict[str, float]:
    """Bits per channel of each arm plus log2 of its error: at equal error, the lower the better. Empty without a trial."""
    name = "key_errors_sinks" if sinks else "key_errors"
    out = {}
    for arm, bits in data["trial"]["bits_all_in"].items():
        error = of(data["summary"], f"{name}[{arm}]", "rms")
        if error:  # no error at all says nothing about bits
            out[arm] = bits + log2(error)
    return out


def key_centring(data: dict[str, Any], sinks: int) -> Finding:
    """none, page, static or pre-RoPE. A page centre needs no calibration, so a fitted one has to lead it clearly."""
    cost, summary = costs(data, sinks), data["summary"]
    tried = "by 3-bit storage"
    if ROTATION in cost:
        gains = {arm: cost[ROTATION] - cost[arm] for arm in CENTRES if arm in cost}
    else:
        tried, gains = "by the share of energy", {}
        for arm, figure in SHARES.items():
            share = of(summary, figure)
            if share is not None:
                gains[arm] = -log2(max(1 - share, 2.0**-20)) / 2 - (0.125 if arm == PAGE else 0)
    reasons = tuple(
        above(f"bits saved by a {CENTRES[a]} centre ({tried})", g, CENTRING_BITS) for a, g in gains.items()
    )
    useful = {a: g for a, g in gains.items() if g >= CENTRING_BITS.value}
    shares = ", ".join(
        f"{CENTRES[a]} {s:.2f}" for a, f in SHARES.items() if (s := of(summary, f)) is not None
    )
    energy = f"share of key energy in the mean: {shares}" if shares else "keys have no energy"
    if not useful:
        return Finding("key_centring", "none", f"no centring of keys pays for itself ({energy})", reasons)
    best = max(useful, key=lambda a: useful[a])
    if PAGE in useful and useful[best] < useful[PAGE] + 2 * CENTRING_BITS.value:
        best = PAGE
    how = {
        PAGE: "store keys without a mean per page (key_centre='page'), which needs no calibration",
        STATIC: "store keys without their mean per head (with_key_offset and fit_offset), fitted on other text",
        BEFORE: "store keys without their mean before RoPE (with_key_offset with a rotary); a projection's bias is exactly that",
    }[best]
    return Finding("key_centring", CENTRES[best], f"{how}: rotation does not remove what all keys share ({energy})", reasons, True)  # fmt: skip


def arm_and_key_bits(data: dict[str, Any], sinks: int, centring: str) -> tuple[Finding, Finding]:
    """The arm with the lower cost at equal error, and the least rate that reaches the limit of the logit error."""
    summary, cost = data["summary"], costs(data, sinks)
    chosen = next((a for a, c in CENTRES.items() if c == centring), ROTATION)
    ratio = of(summary, "norm_ratio" if centring == "none" else "norm_ratio_centred", "most")
    heavy = above(
        "largest key over value length" + ("" if centring == "none" else ", centred"), ratio, NORM_RATIO
    )
    lead = cost[chosen] - cost[GROUPS] if chosen in cost and GROUPS in cost else None
    reasons = (above("bits by which groups per channel lead at equal error", lead, ARM_BITS), heavy)
    name, best, special = "structured-turbo", chosen, False
    text = "rotation and one small book: no other arm that was tried is clearly ahead"
    if lead is None:
        text = "rotation and one small book, the default: nothing was stored, so nothing was compared"
    if reasons[0].crossed:
        name, best, special = "kivi-control", GROUPS, True
        text = "groups per channel: their steps follow each channel, which leads rotation here at equal error and all-in bits"
    errors = "key_errors_sinks" if sinks else "key_errors"
    logit = of(summary, f"{errors}[{best}]", "rms") if data["trial"]["kind"] == "logit" else None
    why = above("logit error of 3-bit keys", logit, LOGIT_ERROR)
    needed = TRIAL_BITS + log2(logit / LOGIT_ERROR.value) if logit else None
    rates = TURBO_RATES if name == "structured-turbo" else KIVI_RATES
    fitting = [r for r in rates if needed is None or r >= needed - SLACK]
    if heavy.crossed or not fitting:
        told = (
            "keys are so much longer than values"
            if heavy.crossed
            else "4 bits miss the limit of the logit error"
        )
        arm = Finding("arm", "q8_0", f"8-bit keys: {told} that low-bit keys would be noise; values could be lower", reasons, True)  # fmt: skip
        return arm, Finding("key_bits", 8, f"8 bits: {told}", (heavy, why), True)
    arm = Finding("arm", name, text, reasons, special)
    if needed is None:
        told = "4 bits, the default: errors of keys pass through softmax and cost about nine times those of values; queries would tell more"
        return arm, Finding("key_bits", DEFAULT_KEY_BITS, told, (heavy,))
    bits = max(fitting[0], TRIAL_BITS)
    told = f"{bits:g} bits: 3-bit keys err by {logit:.2f} nats, and each bit halves that"
    return arm, Finding("key_bits", bits, told, (why, heavy), why.crossed)


def value_bits(data: dict[str, Any]) -> Finding:
    """3 bits, or 4 where 3-bit values err more than Gaussian ones."""
    error = of(data["summary"], "value_error", "most")
    reason = above("largest relative squared error of 3-bit values", error, VALUE_ERROR)
    if reason.crossed:
        return Finding(
            "value_bits", 4, "4 bits: these values are harder to store than Gaussian ones", (reason,), True
        )
    known = (
        "they store like Gaussian ones"
        if error is not None
        else "the default; no values were given or stored"
    )
    return Finding(
        "value_bits", DEFAULT_VALUE_BITS, f"3 bits: values need fewer than keys, and {known}", (reason,)
    )


def value_centring(data: dict[str, Any]) -> Finding:
    """static where the values' mean holds enough energy. It is one vector per layer and head, so it costs nothing per token."""
    share = of(data["summary"], "value_mean_share")
    saved = -log2(max(1 - share, 2.0**-20)) / 2 if share is not None else None
    reason = above("bits saved by a static mean of values", saved, CENTRING_BITS)
    if reason.crossed:
        text = "store values without their mean (with_value_offset): weights sum to one, so it is added back once per head"
        return Finding("value_centring", "static", text, (reason,), True)
    known = "values share too little" if share is not None else "no values were given"
    return Finding("value_centring", "none", f"no centring of values: {known}", (reason,))


def rotation(data: dict[str, Any]) -> Finding:
    """Whether coordinates need to be rotated at all, and whether one round is enough."""
    s = data["summary"]
    heavy = above("median excess kurtosis of keys", of(s, "kurtosis"), KURTOSIS)
    flat = below("least excess kurtosis of rotated keys", of(s, "kurtosis_rotated", "least"), FLAT)
    count = of(s, "outlier_channels", "most")
    outliers = Reason("most outlier channels in a head", count, OUTLIER_CHANNEL, bool(count))
    reasons = (heavy, outliers, flat)
    if flat.crossed:
        text = "rotate once and keep the fitted scale (key_norm 'matched'): a few channels dominate, and one round makes them flat; with a scale of 1 take two rounds"
    elif heavy.crossed or outliers.crossed:
        text = "rotate keys: single channels carry the energy, and a grid over unrotated tokens would spend its levels on them"
    else:
        text = "rotation changes little: coordinates are alike as they are"
    return Finding(
        "rotation",
        "one round, fitted scale",
        text,
        reasons,
        heavy.crossed or flat.crossed or outliers.crossed,
    )


def smoothing(data: dict[str, Any]) -> Finding:
    """Whether to divide channels between queries and keys before the rotation."""
    bits = of(data["summary"], "smoothing_bits")
    reason = above("bits that smoothing could save", bits, SMOOTHING_BITS)
    if bits is None:
        return Finding("smoothing", "unknown", "smoothing: needs queries to tell", (reason,))
    if reason.crossed:
        text = "smooth keys against queries: channels where queries are large hold small keys; best-turbo fits such a basis on other text"
        return Finding("smoothing", "try", text, (reason,), True)
    return Finding("smoothing", "none", "no smoothing: it would save too little", (reason,))
