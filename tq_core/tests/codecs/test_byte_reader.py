"""Codecs that the kernels over byte rows and affine tiles read: the rows that kernels see are the tokens that decode gives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tq_core.codecs.byte_reader import Order, even_first, odd_first
from tq_core.codecs.checkbench import Bench, CheckFailed
from tq_core.codecs.checklist import check_read_equals_decode, check_same_bits_as_numpy
from tq_core.codecs.flexgen import FlexGenKeys, FlexGenValues
from tq_core.codecs.fp8 import Fp8Keys, Fp8Values, fit_fp8
from tq_core.codecs.ggml import Q4Keys, Q8Keys
from tq_core.codecs.int8 import Int8Keys
from tq_core.codecs.qserve import QServeKeys, QServeValues, fit_smoothing
from tq_core.kernels.backend import NumpyBackend, get_backend
from tq_core.kernels.reference_bytes import byte_rows

# Exact where a code is only multiplied; FlexGen divides by its scale and QServe takes the zero point off first.
EXACT = (
    Int8Keys(),
    Q8Keys(),
    Q4Keys(),
    Fp8Keys(),
    Fp8Keys("e5m2"),
    QServeKeys(symmetric=True),
    QServeKeys(8, True),
)
ROUNDED = (FlexGenKeys(), FlexGenKeys(32), QServeKeys(), QServeKeys(8))


@pytest.mark.parametrize("head_dim", [64, 96, 112, 256])
@pytest.mark.parametrize("codec", [*EXACT, *ROUNDED], ids=str)
def test_kernels_see_the_decoded_tokens(codec: Any, head_dim: int) -> None:
    head_dim = head_dim // codec.tags.head_dim_step * codec.tags.head_dim_step
    bench = Bench(codec, NumpyBackend(), head_dim)
    pages, n = bench.store(bench.tokens(37)), 37
    decoded = bench.decode(pages, n)
    form, order = codec.byte_form(pages.layout, head_dim), codec.block_order(head_dim)
    for head in range(bench.n_kv_heads):
        start = int(pages.table[0]) * pages.layout.page_bytes + 64 + head * pages.layout.head_bytes
        rows = byte_rows(pages.pool[start : start + pages.layout.head_bytes], form, n)
        if order is not None:
            placed = np.zeros((n, head_dim + 1), np.float32)
            placed[:, order] = rows
            rows = placed[:, :-1]
        if codec in EXACT:
            assert np.array_equal(rows, decoded[:, head])
        else:
            assert np.allclose(rows, decoded[:, head], rtol=0, atol=1e-6 * np.abs(decoded).max())


def test_orders_of_a_block_and_a_half() -> None:
    odd, even = odd_first(48), even_first(48)
    assert odd[:32].tolist() == [*range(1, 32, 2), *range(0, 32, 2)]
    assert odd[32:].tolist() == [*range(33, 48, 2), *[48] * 8, *range(32, 48, 2), *[48] * 8]
    assert even[:16].tolist() == odd[16:32].tolist() and even[16:32].tolist() == odd[:16].tolist()
    assert sorted(set(odd.tolist())) == sorted(set(even.tolist())) == list(range(49))


class _EvenChannelsBelowKeys(FlexGenKeys):
    """FlexGen's bytes read as if the even channel were in the low nibble."""

    def block_order(self, head_dim: int) -> Order:
        return even_first(head_dim)


class _EvenChannelsBelowValues(FlexGenValues):
    """The same for values."""

    block_order = _EvenChannelsBelowKeys.block_order


class _WithoutItsScale(Fp8Keys):
    """A calibrated scale that the reader forgets."""

    def gain(self, pages: Any) -> None:  # type: ignore[override]
        return None


def _fitted(kind: type, side: str) -> Any:
    vectors = Bench(Fp8Keys(), NumpyBackend()).tokens(64)[None]
    return kind(calibration=fit_fp8(vectors, side, "head"))


@pytest.mark.parametrize(
    "codec", [_EvenChannelsBelowKeys(), _EvenChannelsBelowValues(), _fitted(_WithoutItsScale, "key")], ids=lambda c: type(c).__name__
)  # fmt: skip
def test_planted_fault_is_caught(codec: Any) -> None:
    with pytest.raises(CheckFailed, match="a relative difference"):
        check_read_equals_decode(Bench(codec, NumpyBackend()))


@pytest.mark.kernels
def test_calibrated_codecs_read_what_they_decode_with_the_same_bits() -> None:
    smooth = fit_smoothing(np.random.default_rng(5).standard_normal((1, 64, 2, 48)).astype(np.float32))
    for codec in (
        _fitted(Fp8Keys, "key"),
        _fitted(Fp8Values, "value"),
        QServeKeys(calibration=smooth),
        QServeValues(),
    ):
        bench = Bench(codec, get_backend())
        check_read_equals_decode(bench)
        check_same_bits_as_numpy(bench)
        check_read_equals_decode(replace(bench, backend=NumpyBackend()))
