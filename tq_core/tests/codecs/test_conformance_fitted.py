"""Codecs with a calibration pass every check that applies to them, like those without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tq_core.codecs.arms import arm_names, calibrated_arm_names, get_arm
from tq_core.codecs.checkbench import Bench, CheckFailed
from tq_core.codecs.checks import Check, yield_checks
from tq_core.codecs.fit import fit_arm
from tq_core.codecs.kvquant import KVQuantKeys
from tq_core.codecs.offset import OffsetKeys, fit_offset, with_key_offset
from tq_core.codecs.value_offset import fit_value_offset, with_value_offset
from tq_core.errors import CodecError
from tq_core.kernels.backend import NumpyBackend
from tq_core.math.rotary import Rotary
from tq_core.tests.codecs.measure import gaussian

pytestmark = pytest.mark.slow

HEADS, HEAD_DIM = 2, 64
VECTORS = 3 * gaussian(300, HEADS, HEAD_DIM)[None]
HALF = Rotary(500000.0, "half")


def fitted(name: str, rotary: Rotary | None = None, **options: Any) -> Any:
    return fit_arm(name, VECTORS, VECTORS, rotary, **options)  # queries are among the options


QUERIES = gaussian(300, 2 * HEADS, HEAD_DIM, 9)[None] * np.exp(np.linspace(-1, 1, HEAD_DIM, dtype=np.float32))
ARMS = {
    "best-turbo": fitted("best-turbo", queries=QUERIES),
    "best-turbo-low": fitted("best-turbo", queries=QUERIES, key_bits=2, value_bits=2.5),
    "fp8": fitted("fp8"),
    "spinquant": fitted("spinquant"),
    "qserve": fitted("qserve", HALF, key_bits=8),
    "kvquant": fitted("kvquant"),
    "kvquant2": fitted("kvquant", Rotary(), key_bits=2, value_bits=4),
    "kvquant-half": fitted("kvquant", HALF),
    "quarot-offset": with_key_offset(get_arm("quarot"), fit_offset(VECTORS + 4)),
    "turbo-bias": with_key_offset(get_arm("structured-turbo"), fit_offset(VECTORS + 4, HALF), HALF),
    "quarot-values": with_value_offset(get_arm("quarot"), fit_value_offset(VECTORS + 1)),
    "turbo-values": with_value_offset(get_arm("structured-turbo"), fit_value_offset(VECTORS + 1)),
    "kivi-bias": with_key_offset(get_arm("kivi-control"), fit_offset(VECTORS + 4, Rotary()), Rotary()),
}
SIDES = [
    (name, side)
    for name in ARMS
    for side in ("key", "value")
    if not name.endswith(("offset", "bias") if side == "value" else ("values",))
]
CODECS = {f"{name}-{side}": getattr(ARMS[name], f"{side}_codec") for name, side in SIDES}
CHECKED = [
    pytest.param(codec, check, id=f"{check.__name__[6:]}-{label}")
    for label, codec in CODECS.items()
    for check in yield_checks(codec)
]


def test_every_calibrated_arm_is_covered_and_asks_for_its_calibration() -> None:
    assert set(calibrated_arm_names()) <= set(ARMS)
    assert not set(calibrated_arm_names()) & set(arm_names())
    for name in calibrated_arm_names():
        with pytest.raises(CodecError, match="^calibration: expected a Calibration fitted for"):
            get_arm(name)


@pytest.mark.parametrize("codec, check", CHECKED)
def test_check(codec: Any, check: Check) -> None:
    try:
        check(Bench(codec, NumpyBackend(), HEAD_DIM, HEADS, group=3))
    except CheckFailed as failure:
        if check.__name__ not in codec.tags.known_failures:
            raise
        pytest.xfail(f"by intent: {failure}")


@pytest.mark.parametrize("label", CODECS)
def test_histories_longer_than_one_run(label: str) -> None:
    """Positions and offsets go on from run to run."""
    bench = Bench(CODECS[label], NumpyBackend(), HEAD_DIM, HEADS, group=2)
    n = 5 * bench.codec.page_tokens
    pages, given = bench.store(bench.tokens(n)), bench.question(n)
    want, size = bench.exact(bench.decode(pages, n), given)
    rounded = (
        getattr(getattr(bench.codec, "inner", None), "arithmetic", "") == "exact"
    )  # weights of 16 bits, five pages
    assert float((np.abs(bench.read(pages, n, given) - want) / size).max()) < (4e-5 if rounded else 2e-5)


def test_the_identity_holds_the_digest() -> None:
    arm = ARMS["kvquant"]
    keys = arm.describe()["keys"]
    assert keys["calibration"] == {"method": "kvquant-keys", "digest": arm.key_codec.calibration.digest}
    other = fit_arm("kvquant", VECTORS * np.float32(1.01), VECTORS)
    assert other.digest != arm.digest and fitted("kvquant").digest == arm.digest
    inner = ARMS["turbo-bias"].describe()["keys"]["inner"]
    assert inner["codec"] == "structured-turboquant" and inner["bits"] == 3.5


def test_positions_matter_to_pre_rope_codecs() -> None:
    """The same tokens at other positions are other codes: a codec that took every page for the first would not see it."""
    codec, x = ARMS["kvquant-half"].key_codec, VECTORS[0, :64]
    assert isinstance(codec, KVQuantKeys) and codec.tags.pre_rope
    at = [Bench(codec, NumpyBackend(), HEAD_DIM, HEADS).pages(64) for _ in range(2)]
    moved = type(at[1])(at[1].pool, at[1].table, at[1].layout, 0, 1000)
    codec.append(NumpyBackend(), at[0], 0, x)
    codec.append(NumpyBackend(), moved, 0, x)
    written = at[0].pool > 0
    assert (at[0].pool != moved.pool)[written].mean() > 0.2
    nowhere = type(moved)(moved.pool, moved.table, moved.layout, 0, None)
    for asked in (codec, ARMS["turbo-bias"].key_codec):
        with pytest.raises(CodecError, match="^pages: expected pages that know their position"):
            asked.append(NumpyBackend(), nowhere, 0, x)
    assert isinstance(ARMS["turbo-bias"].key_codec, OffsetKeys)
