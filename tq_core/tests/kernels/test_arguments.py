"""Bad calls are refused before a kernel runs, and the message names the argument."""

from __future__ import annotations

import numpy as np
import pytest

from tq_core.errors import BackendError, DTypeError, KernelError, ShapeError, TqError, ValueRangeError
from tq_core.kernels.arguments import bind
from tq_core.kernels.backend import get_backend
from tq_core.kernels.cases import cases
from tq_core.kernels.table import KERNELS

NAMES = ("3.5x64x3x2x17", "3.0x48x17", "Nonex64x1x5x17", "64x3x2x17", "(1, 3, 4, 2)x4x17", "64x4x2x1x5x70")
CASES = {c.kernel: c for c in cases() if c.name.startswith(NAMES)}


def _build(kernel: str) -> dict:
    return CASES[kernel].build()


@pytest.mark.parametrize(
    "kernel, change, error, names",
    [
        ("score_keys", lambda a: a.update(query=a["query"].astype(np.int32)), DTypeError, "query"),
        ("score_keys", lambda a: a.update(query=a["query"].tolist()), DTypeError, "query"),
        ("score_keys", lambda a: a.update(query=a["query"][:, :48].copy()), ShapeError, "widths"),
        ("score_keys", lambda a: a.update(step=a["step"][:-1].copy()), ShapeError, "step"),
        ("score_keys", lambda a: a.update(scores=np.asfortranarray(a["scores"])), KernelError, "scores"),
        ("score_keys", lambda a: a["scores"].setflags(write=False), KernelError, "scores"),
        ("score_keys", lambda a: a.update(pages=a["pages"] + np.uint32(9)), KernelError, "pages"),
        ("score_keys", lambda a: a.update(n_tokens=129), KernelError, "n_tokens"),
        ("score_keys", lambda a: a.update(offset=6), KernelError, "offset"),
        ("score_keys", lambda a: a.update(n_kv_heads=4), (KernelError, ShapeError), "n_kv_heads|page_bytes"),
        ("score_keys", lambda a: a.update(n_kv_heads=0), ShapeError, "n_kv_heads"),
        ("score_keys", lambda a: a.update(n_tokens=-1), ValueRangeError, "n_tokens"),
        ("score_keys", lambda a: a.update(widths=np.full_like(a["widths"], 5)), ValueRangeError, "widths"),
        (
            "score_keys",
            lambda a: a.update(widths=np.array([5, 0, 0, 4], np.uint8)),
            ValueRangeError,
            "widths",
        ),
        (
            "score_keys",
            lambda a: a.update(centre_query=a["query"].astype(np.float32)),
            KernelError,
            "key_centres",
        ),
        ("append_keys", lambda a: a.update(centre_tokens=32), KernelError, "centre_tokens"),
        ("score_keys", lambda a: a.update(pool=a["pool"][:1000].copy()), KernelError, "pages"),
        ("score_keys", lambda a: a.update(layout=_with(a["layout"], 0, 100)), KernelError, "page_tokens"),
        ("score_keys", lambda a: a.update(layout=_with(a["layout"], 0, 512)), KernelError, "page_tokens"),
        ("score_keys", lambda a: a.update(layout=_with(a["layout"], 5, 2**31)), KernelError, "key_codes"),
        ("score_keys", lambda a: a.update(layout=_with(a["layout"], 3, 2**31)), KernelError, "page_bytes"),
        ("score_keys", lambda a: a.pop("step"), TqError, "step"),
        ("score_keys", lambda a: a.update(extra=1), TqError, "extra"),
        ("sum_values", lambda a: a.update(out=a["out"][:-1].copy()), ShapeError, "out"),
        ("score_signs", lambda a: a.update(layout=_with(a["layout"], 5, 2**31)), KernelError, "key_codes"),
        ("score_polar", lambda a: a.update(layout=_with(a["layout"], 0, 96)), KernelError, "page_tokens"),
        ("score_polar", lambda a: a.update(layout=_with(a["layout"], 4, 2**20)), KernelError, "key_scales"),
        ("score_sketch", lambda a: a.update(n_outliers=17), KernelError, "n_outliers"),
        ("score_sketch", lambda a: a.update(outer_codes_at=2**20), KernelError, "outer_codes_at"),
        ("score_sketch", lambda a: a.update(outer_scales_at=7), KernelError, "outer_scales_at"),
        ("score_sketch", lambda a: a.update(outliers_at=2**20), KernelError, "outliers_at"),
        ("score_sketch", lambda a: a.update(outer=a["outer"][:, :20].copy()), ShapeError, "outer"),
        (
            "store_key_codes",
            lambda a: a.update(widths=np.full_like(a["widths"], 5)),
            ValueRangeError,
            "widths",
        ),
        ("store_key_codes", lambda a: a.update(widths=a["widths"][:-1].copy()), ShapeError, "widths"),
        (
            "store_value_codes",
            lambda a: a.update(layout=_with(a["layout"], 7, 2**20)),
            KernelError,
            "value_codes",
        ),
        ("append_keys", lambda a: a.update(first=2**32), ValueRangeError, "first"),
        ("append_keys", lambda a: a.update(first=1000), KernelError, "n_tokens"),
        ("append_keys", lambda a: a.update(hadamard=np.ones((5, 5), np.float32)), ShapeError, "hadamard"),
        ("append_keys", lambda a: a["pool"].setflags(write=False), KernelError, "pool"),
        ("score_f16", lambda a: a.update(first=64), KernelError, "n_tokens"),
    ],
)
def test_refused(kernel, change, error, names) -> None:
    arguments = _build(kernel)
    bind(kernel, arguments)
    change(arguments)
    before = {k: v.tobytes() for k, v in arguments.items() if isinstance(v, np.ndarray)}
    with pytest.raises(error, match=names):
        get_backend("numpy").call(kernel, **arguments)
    assert all(arguments[k].tobytes() == stored for k, stored in before.items())


def _with(layout: np.ndarray, index: int, value: int) -> np.ndarray:
    changed = layout.copy()
    changed[index] = value
    return changed


@pytest.mark.parametrize("name, index, value", [("widths", 0, 5), ("layout", 5, 2**31), ("layout", 0, 100)])
def test_a_table_that_was_changed_in_place_is_checked_again(name: str, index: int, value: int) -> None:
    """What tables decide is remembered by their contents, not by the arrays that held them."""
    arguments = _build("score_keys")
    changed = arguments[name] = arguments[name].copy()
    bind("score_keys", arguments)
    good, changed[index] = changed[index].copy(), value
    for _ in range(2):
        with pytest.raises(TqError, match="width|key_codes|page_tokens"):
            bind("score_keys", arguments)
    changed[index] = good
    bind("score_keys", arguments)


def test_outputs_may_not_overlap_each_other() -> None:
    arguments = next(c for c in cases() if c.kernel == "attend_packed").build()
    q = len(arguments["peak"])
    memory = np.zeros(2 * q - 1, np.float32)
    bind("attend_packed", arguments)
    with pytest.raises(KernelError, match="peak: expected its own memory, got an overlap with total"):
        bind("attend_packed", {**arguments, "peak": memory[:q], "total": memory[q - 1 :]})


def test_outputs_may_not_overlap_inputs() -> None:
    memory = np.zeros(64 * 3, np.float32)
    x, y = memory[: 64 * 2].reshape(2, 64), memory[64:].reshape(2, 64)
    with pytest.raises(KernelError, match="overlap"):
        bind("rotate", {**_rotation(), "x": x, "y": y, "inverse": 0, "scale": 1.0})


def _rotation() -> dict:
    return {"signs": np.ones(64, np.float32), "hadamard": np.ones((1, 1), np.float32)}


def test_unknown_kernel_and_backend() -> None:
    with pytest.raises(TqError, match="score_keyz"):
        bind("score_keyz", {})
    with pytest.raises(BackendError, match="native-avx9"):
        get_backend("native-avx9")


def test_backend_from_the_environment(monkeypatch) -> None:
    monkeypatch.setenv("TQ_BACKEND", "numpy")
    assert get_backend().name == "numpy"
    monkeypatch.setenv("TQ_BACKEND", "abacus")
    with pytest.raises(BackendError, match="abacus"):
        get_backend()


def test_every_size_is_carried_by_an_array() -> None:
    for kernel in KERNELS.values():
        assert set(kernel.sizes) == {e for a in kernel.args for e in a.shape if isinstance(e, str)}
        assert any(a.role != "in" for a in kernel.args)
