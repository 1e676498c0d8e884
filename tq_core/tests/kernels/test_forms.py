"""Forms: what they describe is read exactly, and a form that leads outside a head's block is refused."""

from __future__ import annotations

from dataclasses import fields

import ml_dtypes
import numpy as np
import pytest

from tq_core.errors import KernelError, TqError
from tq_core.kernels.arguments import bind
from tq_core.kernels.backend import get_backend
from tq_core.kernels.case_forms import scan_affine, scan_bytes
from tq_core.kernels.forms import AffineForm, ByteForm, Kind, Scaling, float_form
from tq_core.kernels.reference_bytes import byte_rows, floats8

BYTE_FIELDS = [f.name for f in fields(ByteForm)]
AFFINE_FIELDS = [f.name for f in fields(AffineForm)]


@pytest.mark.parametrize(
    "dtype, mantissa_bits, bias", [(ml_dtypes.float8_e4m3fn, 3, 7), (ml_dtypes.float8_e5m2, 2, 15)]
)
def test_every_float_code_but_nan_and_infinity_is_read_exactly(dtype, mantissa_bits: int, bias: int) -> None:
    codes = np.arange(256, dtype=np.uint8)
    form = float_form(mantissa_bits, bias, 0, 256)
    want = codes.view(dtype).astype(np.float32)
    finite = np.isfinite(want)
    assert finite.sum() >= 248
    got = floats8(codes, form.first, form.second)
    assert got[finite].tobytes() == want[finite].tobytes()  # negative zero included


def test_rows_of_nibbles_with_half_a_block() -> None:
    """48 channels are a block and a half: 24 bytes, and zeros in the places that the row does not have."""
    row = np.arange(24, dtype=np.uint8) * 9
    form = ByteForm(Kind.nibbles, Scaling.none, 48, 64, 0, 8, 0, 24, 0)
    got = byte_rows(np.concatenate([row, row[::-1]]), form, 2)
    want = (
        np.concatenate([row[:16] & 15, row[:16] >> 4, row[16:] & 15, [0] * 8, row[16:] >> 4, [0] * 8]) - 8.0
    )
    assert got.shape == (2, 64) and np.array_equal(got[0], want)
    assert got[1, 0] == (23 * 9 & 15) - 8


@pytest.mark.parametrize(
    "scaling, want",
    [(Scaling.none, 5), (Scaling.step, 10), (Scaling.minimum, 13), (Scaling.inverse, 5.5), (Scaling.zero, 4)],
)
def test_scalings(scaling: Scaling, want: float) -> None:
    """Code 5 with the stored numbers 2 and 3."""
    block = np.concatenate([np.full(16, 5, np.uint8), np.array([2, 3], np.float16).view(np.uint8)])
    form = ByteForm(Kind.bytes, scaling, 16, 16, 0, 0, 0, 16, 0, 16, 2, 0, 18, 2, 0)
    assert (byte_rows(block, form, 1) == want).all()


@pytest.mark.parametrize(
    "kernel, field, value",
    [
        ("score_affine", "bits", 5),
        ("score_affine", "group", 16),  # keys: whole tiles of tokens
        ("score_affine", "group", 96),
        ("sum_affine", "group", 0),
        ("sum_affine", "group", 128),  # 64 channels
        ("sum_affine", "codes", 2**31),
        ("sum_affine", "steps", 1),
        ("score_affine", "minima", 2**31),
    ],
)
def test_affine_form_refused(kernel: str, field: str, value: int) -> None:
    made = scan_affine(kernel, 3, 32, 64, 2, 3, 40)
    _refused(kernel, made, AFFINE_FIELDS.index(field), value, f"form.{field}")


@pytest.mark.parametrize(
    "field, value",
    [
        ("kind", 3),
        ("scaling", 5),
        ("channels", 24),
        ("channels", 0),
        ("group", 48),
        ("first", 256),
        ("second", 256),
    ]
    + [
        (f"{part}_{place}", 2**31) for part in ("code", "step", "minimum") for place in ("at", "row", "group")
    ],
)
@pytest.mark.parametrize("kernel", ["score_bytes", "sum_bytes"])
def test_byte_form_refused(kernel: str, field: str, value: int) -> None:
    made = scan_bytes(kernel, "flexgen", 112, 2, 3, 40)
    named = field.rsplit("_", 1)[0] + "_at" if "_" in field else field
    _refused(kernel, made, BYTE_FIELDS.index(field), value, f"form.{named}")


@pytest.mark.parametrize("field, value", [("first", 23), ("second", 0), ("second", 128), ("scaling", 1)])
def test_float_form_refused(field: str, value: int) -> None:
    made = scan_bytes("score_bytes", "e4m3", 64, 2, 3, 40)
    _refused("score_bytes", made, BYTE_FIELDS.index(field), value, f"form.{field}")


def test_queries_of_another_number_of_channels_are_refused() -> None:
    made = scan_bytes("score_bytes", "flexgen", 112, 2, 3, 40)
    assert made["query"].shape[1] == 128
    made["query"] = made["query"][:, :112].copy()
    with pytest.raises(TqError, match="head_dim: expected (a multiple of 32|128 channels)"):
        bind("score_bytes", made)


def test_the_last_row_may_end_with_the_block() -> None:
    """A form is good up to the last byte of a head's block, and one byte further is refused."""
    made = scan_bytes("score_bytes", "int8", 64, 1, 1, 128)
    head_bytes = int(made["layout"][3])
    at = BYTE_FIELDS.index("code_at")
    last = made["form"].copy()
    last[at] = head_bytes - 128 * 64
    bind("score_bytes", {**made, "form": last})
    _refused("score_bytes", made, at, head_bytes - 128 * 64 + 1, "form.code_at")


def _refused(kernel: str, made: dict, index: int, value: int, named: str) -> None:
    bind(kernel, made)
    changed = made["form"].copy()
    changed[index] = value
    made["form"] = changed
    before = {k: v.tobytes() for k, v in made.items() if isinstance(v, np.ndarray)}
    with pytest.raises(KernelError, match=f"^{named}: expected .*, got"):
        get_backend("numpy").call(kernel, **made)
    assert all(made[k].tobytes() == stored for k, stored in before.items())
