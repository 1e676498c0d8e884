"""Every codec of every arm passes every check that applies to it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tq_core.codecs.arms import arm_names, get_arm
from tq_core.codecs.checkbench import Bench, CheckFailed
from tq_core.codecs.checklist import (
    READ_TOLERANCE,
    check_declared_bytes_are_the_real_ones,
    check_page_round_trip,
    check_read_equals_decode,
    check_same_bits_as_numpy,
)
from tq_core.codecs.checks import Check, yield_checks
from tq_core.errors import CodecError
from tq_core.kernels.backend import NumpyBackend, available_backends, get_backend
from tq_core.tests.codecs.rotation_options import ROTATION_OPTIONS

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "fp16": [{}],
    "structured-turbo": [
        {},
        {"key_bits": 2, "value_bits": 4, "key_norm": "unbiased", "value_norm": "paper"},
        {"key_bits": 4, "value_bits": 2, "arithmetic": "f32"},
        {"key_bits": 3, "value_bits": 3.5, "seed": 2**64 - 1},
        {"arithmetic": "fast"},
        {"key_centre": "page"},
        {"key_centre": "page", "arithmetic": "f32", "key_norm": "unbiased"},
        {"key_bits": 2.5, "value_bits": 2.5, "key_norm": "min_mse", "value_norm": "matched"},
    ],
    "pair-turbo": [
        {},
        {"key_bits": 2.5, "value_bits": 3.5, "arithmetic": "f32", "key_norm": "unbiased"},
        {"arithmetic": "fast", "key_centre": "page", "value_norm": "paper"},
    ],
    "kivi-control": [{}, {"key_bits": 2, "value_bits": 4}, {"key_bits": 4, "value_bits": 2}, {"group": 64}, {"group": 128}],
    "int8": [{}],
    "q8_0": [{}],
    "q4_0": [{}],
    "fp8": [{}, {"format": "e5m2"}],
    "flexgen": [{}, {"group": 32}],
    "quarot": [{}, {"key_bits": 8, "value_bits": 3, "zero": "integer"}, {"clip": 0.95}],
    "spinquant": [{}],
    "qserve": [{}, {"key_bits": 8, "symmetric": True}],
}  # fmt: skip
OPTIONS |= ROTATION_OPTIONS
CODECS = {
    f"{name}{i}-{side}": getattr(get_arm(name, **options), f"{side}_codec")
    for name, variants in OPTIONS.items()
    for i, options in enumerate(variants)
    for side in ("key", "value")
}
# The quick run checks one form of each arm that has kernels; all forms of all arms are left to the whole suite.
QUICK = ("fp16", "structured-turbo", "pair-turbo", "kivi-control")


def _marks(label: str, check: Check) -> list[Any]:
    quick = label[:-1].rsplit("0-", 1)[0] in QUICK and check.__name__ != "check_erase"
    return [] if quick else [pytest.mark.slow]


CHECKED = [
    pytest.param(codec, check, id=f"{check.__name__[6:]}-{label}", marks=_marks(label, check))
    for label, codec in CODECS.items()
    for check in yield_checks(codec)
]


def test_every_arm_is_covered() -> None:
    assert set(OPTIONS) == set(arm_names())


@pytest.mark.parametrize("codec, check", CHECKED)
def test_check(codec: Any, check: Check) -> None:
    small = codec.tags.head_dim_step == 16 and not codec.tags.known_failures  # which show at powers of two
    try:
        check(Bench(codec, NumpyBackend(), 48 if small else 64, n_kv_heads=2, group=3))
    except CheckFailed as failure:
        if check.__name__ not in codec.tags.known_failures:
            raise
        pytest.xfail(f"the method as published: {failure}")


@pytest.mark.parametrize("head_dim", [*range(16, 257, 16), 576])
@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in arm_names()]
)
def test_every_head_size(name: str, head_dim: int) -> None:
    """80, 96, 112 and 160 included: no size needs padding, whatever the number of heads."""
    for codec in (get_arm(name).key_codec, get_arm(name).value_codec):
        if head_dim % codec.tags.head_dim_step:
            with pytest.raises(CodecError, match="^head_dim: expected a multiple of 32"):
                codec.check(head_dim)
            continue
        bench = Bench(codec, NumpyBackend(), head_dim, n_kv_heads=1, group=2)
        check_read_equals_decode(bench)
        if head_dim % 48 == 32:  # 32, 80, 128, ...: a full page takes the numpy backend a while
            check_declared_bytes_are_the_real_ones(bench)


@pytest.mark.parametrize("pages", [4, 5, 9])
def test_histories_longer_than_one_unpacked_run(pages: int) -> None:
    """Codecs that numpy reads are read RUN_PAGES pages at a time; the runs together are the whole."""
    for codec in (get_arm("quarot").key_codec, get_arm("quarot").value_codec):
        bench = Bench(codec, NumpyBackend(), head_dim=16, n_kv_heads=2, group=2)
        n = codec.page_tokens * (pages - 1) + 32
        stored, given = bench.store(bench.tokens(n)), bench.question(n)
        want, size = bench.exact(bench.decode(stored, n), given)
        assert float((np.abs(bench.read(stored, n, given) - want) / size).max()) < READ_TOLERANCE


@pytest.mark.slow  # compiles the kernels of each target
@pytest.mark.kernels
@pytest.mark.parametrize("label", [label for label, codec in CODECS.items() if codec.tags.same_bits])
def test_same_bits_on_the_native_backends(label: str) -> None:
    native = [name for name in available_backends() if name.startswith("native-")]
    if not native:
        pytest.skip("not exercised: no native backend here")
    for name in (native[0], native[-1]):  # scalar and the widest; the parity test takes all, kernel by kernel
        head_dim = 80 if CODECS[label].tags.head_dim_step == 16 else 96
        bench = Bench(CODECS[label], get_backend(name), head_dim, n_kv_heads=1, group=3)
        check_same_bits_as_numpy(bench)
        check_page_round_trip(bench)
