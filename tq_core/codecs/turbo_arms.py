"""Arms whose codecs run on the kernels of structured TurboQuant: they differ in codec classes, code and defaults alone."""

from __future__ import annotations

from collections.abc import Callable

from tq_core.codecs.arm import WINDOW, Arm, one_of
from tq_core.codecs.eden import EDEN_RULES, EdenKeys, EdenValues
from tq_core.codecs.turbo_rounds import TwoRoundKeys, TwoRoundValues
from tq_core.codecs.turboquant import TurboKeys, TurboValues
from tq_core.math.books import RATES
from tq_core.math.prng import check_seed
from tq_core.math.quantize import NormMode

RULES = tuple(NormMode.__members__)


def _factory(
    name: str,
    keys: type[TurboKeys] = TurboKeys,
    values: type[TurboValues] = TurboValues,
    code: str = "split",
    rules: tuple[str, ...] = RULES,
    default_value_bits: float = 3.0,
    default_key_norm: str = "matched",
) -> Callable[..., Arm]:
    """A factory of arms called ``name``; the values' rotation has the seed after the keys'."""

    def make(
        key_bits: float = 3.5,
        value_bits: float = default_value_bits,
        window: int = WINDOW,
        sinks: int = 0,
        seed: int = 1,
        key_norm: str = default_key_norm,
        value_norm: str = "min_mse",
        arithmetic: str = "exact",
        key_centre: str = "none",
    ) -> Arm:
        check_seed(seed)
        key_rule, value_rule = one_of("key_norm", key_norm, rules), one_of("value_norm", value_norm, rules)
        key_rate, value_rate = one_of("key_bits", key_bits, RATES), one_of("value_bits", value_bits, RATES)
        return Arm(
            name,
            keys(key_rate, int(seed), key_rule, arithmetic, code, key_centre),
            values(value_rate, (int(seed) + 1) % 2**64, value_rule, arithmetic, code),
            window,
            sinks,
        )

    return make


TURBO_ARMS: dict[str, Callable[..., Arm]] = {
    "structured-turbo": _factory("structured-turbo"),
    "pair-turbo": _factory("pair-turbo", code="pair", default_value_bits=2.5),
}
TURBO_VARIANTS: dict[str, Callable[..., Arm]] = {
    "turbo-two-rounds": _factory("turbo-two-rounds", TwoRoundKeys, TwoRoundValues),
    "eden": _factory("eden", EdenKeys, EdenValues, rules=EDEN_RULES, default_key_norm="unbiased"),
}
