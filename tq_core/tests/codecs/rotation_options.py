"""Options under which the conformance checks look at the arms that rotate or sketch."""

from __future__ import annotations

from typing import Any

ROTATION_OPTIONS: dict[str, list[dict[str, Any]]] = {
    "turboquant-mse": [
        {},
        {"key_bits": 1, "value_bits": 4, "key_norm": "unbiased", "rotation": "structured"},
    ],
    "turbo-two-rounds": [
        {},
        {"key_bits": 2, "key_norm": "unbiased", "arithmetic": "f32", "key_centre": "page"},
    ],
    "turboquant-prod": [{}, {"key_bits": 4, "value_bits": 1, "sketch": "orthogonal"}],
    "structured-turbo-qjl": [{}, {"key_bits": 2, "value_bits": 2.5}],
    "qjl": [{}, {"ratio": 4, "outlier_ratio": 1, "outliers": 4, "value_bits": 4}],
    "polarquant": [{}, {"rotation": "two-rounds"}],
    "eden": [{}, {"key_bits": 2, "value_bits": 4, "key_norm": "min_mse", "value_norm": "unbiased"}],
    "drive": [{}, {"key_norm": "min_mse", "value_norm": "unbiased"}],
    "rabitq": [{}, {"key_bits": 1, "value_bits": 4, "key_norm": "min_mse"}],
    "turbovec": [{}, {"key_bits": 2, "value_bits": 2}],
    "vllm-turboquant": [{}, {"preset": "k3v4_nc"}, {"preset": "k8v4"}],
    "turbo-sidecar": [{}, {"key_bits": 4, "value_bits": 2, "outliers": 1, "key_norm": "unbiased"}],
    "turbo-lognorm": [{}, {"key_bits": 2, "value_bits": 4, "key_norm": "paper"}],
    "plane-turbo": [
        {},
        {"key_bits": 2.5, "value_bits": 4, "key_norm": "unbiased"},
        {"key_bits": 2, "value_bits": 3},
    ],
    "aither-hybrid": [
        {},
        {"mode": "tq25"},
        {"version": "published"},
        {"mode": "tq25", "version": "published", "seed": 3},
    ],
}
