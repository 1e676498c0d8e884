"""The limits that the advice rests on, each with where it comes from.

Origins: "measured" by `tq diagnose` or `tq validate` on the models of this repository; "prototype", a numpy study of SmolLM2-135M and
Gemma-3-270M whose runs are not in this repository; "report", somebody's public account; "calculated" from formulas.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Threshold:
    """A limit, its unit, and why it is where it is."""

    name: str
    value: float
    unit: str
    origin: str
    why: str

    def as_dict(self) -> dict[str, object]:
        """Plain data."""
        return asdict(self)


NORM_RATIO = Threshold(
    "norm-ratio", 100.0, "key length over value length", "report",
    "6 in GPT-2 and 0.15 to 28 in SmolLM2 and Gemma-3 are harmless; beyond 100 (182 in Qwen2.5-1.5B) low-bit keys "
    "collapse where the offset behind it is not removed",
)  # fmt: skip
OUTLIER_CHANNEL = Threshold(
    "outlier-channel", 6.0, "times the usual channel's root mean square", "calculated",
    "1 / sqrt(12) of a 3-bit grid's step over 2 x 6 usual deviations is half a usual channel: a grid that must span such "
    "a channel leaves the others at most two levels",
)  # fmt: skip
KURTOSIS = Threshold(
    "kurtosis", 1.0, "excess kurtosis", "prototype",
    "2.4 to 72 in real keys, where unrotated 3-bit keys cost 4.7 times the KL of rotated ones; about -0.1 in Gaussian vectors",
)  # fmt: skip
FLAT = Threshold(
    "kurtosis-rotated-low", -1.0, "excess kurtosis after rotation", "calculated",
    "-0.2 to -0.65 in real keys; -2 for a single channel, which one round makes flat: with a scale that is not fitted, 2-bit "
    "codes then err by 0.26 instead of 0.12, with a fitted one by nothing",
)  # fmt: skip
CENTRING_BITS = Threshold(
    "centring-bits", 0.25, "bits per channel saved, after the centre's own", "prototype",
    "removing a share e of the energy is worth -log2(1 - e) / 2 bits; a page mean (0.5 to 1 bit on SmolLM2) halved the KL, "
    "a static mean (0.3 to 0.8) lowered it by a fifth, below that nothing was measurable",
)  # fmt: skip
SMALL_FIRST = Threshold(
    "small-first-key", 0.6, "length of the key at position 0 over the usual", "prototype",
    "0.2 to 0.6 in SmolLM2, where centred keys without a sink raised the KL from 0.043 to 0.073 and one sink lowered it to "
    "0.027; 0.46 to 1.28 in Gemma-3, where centring did no harm",
)  # fmt: skip
LARGE_FIRST = Threshold(
    "large-first-key", 1.7, "length of the key at position 0 over the usual", "calculated",
    "the inverse of the limit for a small one; a first token of 25 times the length broke 4-bit caches in a public report",
)  # fmt: skip
FIRST_MASS = Threshold(
    "first-mass", 0.1, "attention on position 0", "prototype",
    "0.29 on SmolLM2: there one protected position lowered the KL of 3-bit keys by a fifth",
)  # fmt: skip
HEADS = Threshold(
    "share-of-heads", 0.25, "heads with the finding", "calculated",
    "below a quarter the heads that do not need it decide the mean",
)  # fmt: skip
RECENT_MASS = Threshold(
    "recent-mass", 0.05, "attention on tokens 32 to 127 back", "prototype",
    "a window of 128 instead of 32 lowered the KL of 3-bit arms by two fifths on SmolLM2",
)  # fmt: skip
SMOOTHING_BITS = Threshold(
    "smoothing-bits", 0.5, "bits per channel", "prototype",
    "worth nothing clear on SmolLM2 (0.45 here); on Gemma-3 (0.59 here) it halved the KL, as half a bit would",
)  # fmt: skip
LOGIT_ERROR = Threshold(
    "logit-error", 0.25, "nats, attention-weighted root mean square", "prototype",
    "the error of 4-bit rotated keys (KL 0.063 with no window) and of 3-bit groups per channel (0.029); 0.49 gave 0.27",
)  # fmt: skip
ARM_BITS = Threshold(
    "arm-bits", 0.25, "bits per channel between arms at equal error", "calculated",
    "an error e at b bits all-in counts as b + log2(e): halving it costs a bit; smaller leads changed sides between texts",
)  # fmt: skip
VALUE_ERROR = Threshold(
    "value-error", 0.07, "relative squared error of 3-bit values", "calculated",
    "twice the 0.0345 of a Gaussian; 3-bit values at that error cost a KL of 0.03, a ninth of the keys' at 3 bits",
)  # fmt: skip
ALL = (
    NORM_RATIO, OUTLIER_CHANNEL, KURTOSIS, FLAT, CENTRING_BITS, SMALL_FIRST, LARGE_FIRST, FIRST_MASS, HEADS,
    RECENT_MASS, SMOOTHING_BITS, LOGIT_ERROR, ARM_BITS, VALUE_ERROR,
)  # fmt: skip
