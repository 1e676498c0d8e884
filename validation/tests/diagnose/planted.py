"""Vectors with one thing planted in them, seeded."""

import numpy as np

from tq_core.math.rotary import Rotary
from validation.diagnose.advice import advise
from validation.diagnose.measure import diagnosis
from validation.diagnose.vectors import Vectors


def gauss(n=256, heads=2, d=64, layers=2, seed=0, scale=1.0):
    """(layers, n, heads, d) float32."""
    return (scale * np.random.default_rng(seed).standard_normal((layers, n, heads, d))).astype(np.float32)


def vectors(keys, values=None, queries=None, rotary=None):
    """Without a name, a text or a model."""
    return Vectors("planted", keys, values, queries, (rotary,) * len(keys))


def diagnosed(*args, **options):
    """Figures and advice by topic."""
    data = diagnosis(vectors(*args, **options))
    data["advice"] = advise(data)
    by_topic = {}
    for finding in data["advice"]["findings"]:
        by_topic.setdefault(finding["topic"], []).append(finding)
    return data, {t: f[0] if t != "input" else f for t, f in by_topic.items()}


HALF = Rotary(10000.0, "half")
