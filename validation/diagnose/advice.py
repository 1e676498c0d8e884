"""The advice as a whole: findings in the order in which they depend on each other, and the options of an arm."""

from __future__ import annotations

from typing import Any

from tq_core.codecs.arms import get_arm
from validation.diagnose import policy_advice as policy
from validation.diagnose import rate_advice as rates
from validation.diagnose.finding import Finding
from validation.diagnose.thresholds import ALL


def advise(data: dict[str, Any]) -> dict[str, Any]:
    """What a diagnosis speaks for: findings, the topics that are special, and options for ``get_arm``.

    Sinks come first, since centred keys are judged with or without them; then centring, then arm and bits.
    """
    sinks = policy.sinks(data)
    centring = rates.key_centring(data, sinks.value)
    arm, key_bits = rates.arm_and_key_bits(data, sinks.value, centring.value)
    if arm.value != "structured-turbo" and centring.special:
        text = f"arm {arm.value} brings its own centre or enough bits; with rotation: {centring.text}"
        centring = Finding("key_centring", "none", text, centring.reasons, True)
    found = [
        *policy.degenerate(data), policy.head_size(data), rates.rotation(data), centring, sinks, arm, key_bits,
        rates.value_bits(data), rates.value_centring(data), policy.window(data), rates.smoothing(data),
    ]  # fmt: skip
    by_topic = {f.topic: f for f in found}
    options: dict[str, Any] = {"window": by_topic["window"].value, "sinks": sinks.value}
    if arm.value != "q8_0":
        options |= {"key_bits": key_bits.value, "value_bits": by_topic["value_bits"].value}
    if arm.value == "structured-turbo" and centring.value == "page":
        options["key_centre"] = "page"
    get_arm(arm.value, **options)  # an advice that cannot be followed is an error here, not for the reader
    return {
        "arm": arm.value,
        "options": options,
        "special": [f.topic for f in found if f.special],
        "findings": [f.as_dict() for f in found],
        "thresholds": [t.as_dict() for t in ALL],
    }
