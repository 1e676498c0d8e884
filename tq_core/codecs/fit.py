"""An arm with everything fitted that its method can fit on captured keys and values."""

from __future__ import annotations

from typing import Any

from tq_core.codecs.arm import Arm
from tq_core.codecs.arms import get_arm
from tq_core.codecs.base import F32
from tq_core.codecs.calibration import Calibration, check_fit
from tq_core.codecs.fp8 import fit_fp8
from tq_core.codecs.kvquant_fit import fit_kvquant_keys, fit_kvquant_values
from tq_core.codecs.qserve import fit_smoothing
from tq_core.codecs.shaped_arm import BEST_SINKS
from tq_core.codecs.shaped_fit import FIT_TOKENS, ShapedParts, fit_shaped_keys, fit_shaped_values
from tq_core.codecs.spinquant import fit_spinquant
from tq_core.errors import CodecError
from tq_core.math.prng import check_seed
from tq_core.math.rotary import Rotary


def fit_arm(
    name: str,
    keys: F32,
    values: F32,
    rotary: Rotary | None = None,
    queries: F32 | None = None,
    **options: Any,
) -> Arm:
    """The arm called ``name``, fitted on keys and values (n_layers, n_tokens, n_kv_heads, head_dim) float32.

    They are as a cache receives them, after RoPE, their first token at position 0; ``rotary`` is the model's embedding,
    for methods that undo it or must commute with it; queries (.., n_query_heads, ..) for those that weigh errors by what
    is asked. Options as in ``get_arm``; arms that fit nothing are returned as
    they are. Raises the errors of ``get_arm`` and of the method's fit, CodecError where queries are missing.
    """
    made: dict[str, Calibration] = {}
    if name == "fp8":
        kind = options.get("format", "e4m3")
        made = {"key": fit_fp8(keys, "key", format=kind), "value": fit_fp8(values, "value", format=kind)}
    elif name == "spinquant":
        made = {"key": fit_spinquant(keys, options.get("key_bits", 4)), "value": fit_spinquant(values, options.get("value_bits", 4))}  # fmt: skip
    elif name == "qserve":
        made = {"key": fit_smoothing(keys, pairing=rotary.pairing if rotary else "adjacent")}
    elif name == "kvquant":
        made = {"key": fit_kvquant_keys(keys, rotary), "value": fit_kvquant_values(values)}
        options = {"rotary": rotary, **options}
    elif name == "best-turbo":
        if queries is None:
            raise CodecError("queries: expected those that read the keys, for best-turbo, got None")
        for vectors in (keys, values, queries):
            check_fit(vectors, FIT_TOKENS)
        seed, kept = options.pop("seed", 1), options.get("sinks", BEST_SINKS)
        check_seed(seed)
        get_arm("fp16", sinks=kept)  # refuses what is no count of tokens
        # Sinks are never coded, and unlike all other tokens.
        k, v, q = (x[:, kept:] for x in (keys, values, queries))
        made = {
            "key": fit_shaped_keys(k, q, ShapedParts(seed=seed)),
            "value": fit_shaped_values(v, ShapedParts(seed=(seed + 1) % 2**64)),
        }
    return get_arm(name, **{f"{side}_calibration": c for side, c in made.items()}, **options)
