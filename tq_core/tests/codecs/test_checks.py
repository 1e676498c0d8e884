"""The checks can fail: each planted fault is caught by the check that is there for it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from tq_core.codecs import checklist, checklist_bias, checks
from tq_core.codecs.base import CodecTags, Pages
from tq_core.codecs.checkbench import Bench, CheckFailed
from tq_core.codecs.eden import EdenKeys
from tq_core.codecs.fp16 import HalfKeys, HalfValues
from tq_core.codecs.kivi import KiviKeys
from tq_core.codecs.quarot import QuaRotKeys
from tq_core.codecs.turboquant import TurboKeys, TurboValues
from tq_core.errors import TqError
from tq_core.kernels.backend import NumpyBackend


class ShrinkingScores(TurboKeys):
    def scores(self, backend: Any, queries: Any, scale: float, *rest: Any) -> None:
        super().scores(backend, queries, 0.88 * scale, *rest)


class WrongHeads(HalfKeys):
    """Reads KV head h % n_kv_heads instead of h // group."""

    def scores(
        self, backend: Any, queries: Any, scale: float, pages: Any, n: int, out: Any, offset: int
    ) -> None:
        heads = pages.layout.n_kv_heads
        order = np.argsort(np.arange(len(queries)) % heads, kind="stable")
        part = np.full_like(out, -7)
        super().scores(backend, np.ascontiguousarray(queries[order]), scale, pages, n, part, offset)
        out[order] = part


class TouchesItsInput(HalfValues):
    def append(self, backend: Any, pages: Any, first: int, x: Any) -> None:
        super().append(backend, pages, first, x)
        x *= 2


class IgnoresTheTable(HalfKeys):
    def decode(self, pages: Pages, n_tokens: int, head_dim: int) -> Any:
        table = np.arange(len(pages.table), dtype=np.uint32)
        return super().decode(replace(pages, table=table), n_tokens, head_dim)


class OverwritesTheSum(TurboValues):
    def weighted_sum(self, backend: Any, weights: Any, pages: Any, n: int, offset: int, out: Any) -> None:
        out[:] = 0
        super().weighted_sum(backend, weights, pages, n, offset, out)


class ReadsTheFirstColumns(HalfValues):
    def weighted_sum(
        self, backend: Any, weights: Any, pages: Any, n: int, offset: int, out: Any, first: int = 0
    ) -> None:
        super().weighted_sum(backend, weights, pages, n, 0, out)


class CountsTooFewBits(TurboKeys):
    def nominal_bits(self, head_dim: int) -> float:
        return super().nominal_bits(head_dim) - 0.5


class DeclaresTooMuch(TurboKeys):
    def streams(self, head_dim: int) -> Any:
        return (*super().streams(head_dim), ("key_sidecar", 64))


class WritesElsewhere(HalfKeys):
    def append(self, backend: Any, pages: Any, first: int, x: Any) -> None:
        super().append(backend, pages, first, x)
        pages.pool[int(pages.table[0]) * pages.layout.page_bytes + 5] = 77  # in the header


class StoresHalfOfIt(TurboKeys):
    """Every second byte of the codes is lost."""

    def append(self, backend: Any, pages: Any, first: int, x: Any) -> None:
        super().append(backend, pages, first, x)
        for page in pages.table.tolist():
            for head in range(pages.layout.n_kv_heads):
                pages.layout.view(pages.pool, page, head, "key_codes")[::2] = 0


class WritesBehindThePage(HalfKeys):
    """Bytes after the last page that it was given, which may belong to somebody else."""

    def append(self, backend: Any, pages: Any, first: int, x: Any) -> None:
        super().append(backend, pages, first, x)
        end = (int(pages.table[-1]) + 1) * pages.layout.page_bytes
        pages.pool[end : end + 16] = 0


class ComesBackShort(HalfValues):
    """Promises nothing about bias, and has no rate to vary: two thirds of each vector come back."""

    def decode(self, pages: Pages, n_tokens: int, head_dim: int) -> Any:
        return super().decode(pages, n_tokens, head_dim) * np.float32(2 / 3)


class DriftsWithTime(HalfKeys):
    calls = 0

    def append(self, backend: Any, pages: Any, first: int, x: Any) -> None:
        type(self).calls += 1
        super().append(backend, pages, first, x * np.float32(2 ** (type(self).calls % 2)))


class ErasesWholeTiles(TurboKeys):
    def erase(self, pages: Pages, page: int, first: int, head_dim: int) -> None:
        super().erase(pages, page, -(-first // 32) * 32, head_dim)


class AbsoluteEpsilon(HalfKeys):
    def append(self, backend: Any, pages: Any, first: int, x: Any) -> None:
        super().append(backend, pages, first, x + np.float32(1e-2))


class DividesByTheRange(KiviKeys):
    def decode(self, pages: Pages, n_tokens: int, head_dim: int) -> Any:
        x = super().decode(pages, n_tokens, head_dim)
        span = x.max(axis=0, keepdims=True, initial=-1e9) - x.min(axis=0, keepdims=True, initial=1e9)
        with np.errstate(all="ignore"):
            return (x / span) * span


class AcceptsAnyHead(HalfKeys):
    def check(self, head_dim: int) -> None:
        pass


@dataclass(frozen=True)
class ForgetsAField(TurboKeys):
    clip: float = field(default=1.0)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ForgetsAField) and replace(self, clip=1.0).bits == replace(other, clip=1.0).bits
        )


class ClaimsToBeUnbiased(TurboKeys):
    """S = 1 shrinks."""

    tags = CodecTags(unbiased_scores=True)


FAULTS: list[tuple[Any, checks.Check]] = [
    (ShrinkingScores(), checklist.check_read_equals_decode),
    (WrongHeads(), checklist.check_read_equals_decode),
    (TouchesItsInput(), checklist.check_inputs_not_modified),
    (IgnoresTheTable(), checklist.check_page_round_trip),
    (OverwritesTheSum(), checklist.check_touches_only_its_columns),
    (ReadsTheFirstColumns(), checklist.check_touches_only_its_columns),
    (ErasesWholeTiles(3.0, 1, "matched"), checklist.check_erase),
    (CountsTooFewBits(), checklist.check_declared_bytes_are_the_real_ones),
    (DeclaresTooMuch(), checklist.check_declared_bytes_are_the_real_ones),
    (WritesElsewhere(), checklist.check_declared_bytes_are_the_real_ones),
    (WritesBehindThePage(), checklist.check_declared_bytes_are_the_real_ones),
    (ComesBackShort(), checklist_bias.check_gain),
    (StoresHalfOfIt(), checklist.check_distortion_falls_with_bits),
    (DriftsWithTime(), checklist.check_deterministic),
    (AbsoluteEpsilon(), checklist.check_scale_equivariance),
    (AbsoluteEpsilon(), checklist.check_zero_tokens),
    (DividesByTheRange(), checklist.check_constant_tokens),
    (AcceptsAnyHead(), checklist.check_refuses_other_head_sizes),
    (ForgetsAField(), checklist.check_identity_names_every_field),
    (ClaimsToBeUnbiased(3, 1, "paper"), checklist_bias.check_unbiased_scores),
]


@pytest.mark.parametrize("codec, check", FAULTS, ids=lambda x: getattr(x, "__name__", type(x).__name__))
def test_planted_fault_is_caught(codec: Any, check: checks.Check) -> None:
    with pytest.raises(CheckFailed, match="expected .*, got "):
        check(Bench(codec, NumpyBackend(), head_dim=32, n_kv_heads=2, group=3))


def test_failed_check_is_a_typed_error() -> None:
    assert issubclass(CheckFailed, TqError)


def test_run_checks_makes_a_table_and_survives_a_codec_that_raises() -> None:
    class Raises(HalfKeys):
        def decode(self, pages: Pages, n_tokens: int, head_dim: int) -> Any:
            raise ZeroDivisionError("nothing here")

    results = checks.run_checks(Raises(), NumpyBackend(), head_dims=(32,))
    assert [r.check for r in results] == [c.__name__ for c in checks.yield_checks(Raises())]
    failed = {r.check: r.message for r in results if not r.passed}
    assert failed["check_prefix"] == "ZeroDivisionError: nothing here"
    assert "check_refuses_other_head_sizes" not in failed
    good = checks.run_checks(HalfKeys(), NumpyBackend(), head_dims=(16, 80))
    assert all(r.passed and not r.message for r in good)
    assert {r.head_dim for r in good} == {16, 80}


def test_tags_and_fields_choose_the_checks() -> None:
    half, turbo, kivi = (set(checks.yield_checks(c)) for c in (HalfKeys(), TurboKeys(), KiviKeys()))
    assert set(checks.ALWAYS) <= half & turbo & kivi
    assert checklist.check_distortion_falls_with_bits in turbo & kivi
    assert checklist.check_distortion_falls_with_bits not in half
    assert checklist.check_refuses_partial_groups in kivi - turbo
    eden = set(checks.yield_checks(EdenKeys()))
    assert checklist_bias.check_unbiased_scores in eden - turbo
    rotating = set(checks.yield_checks(QuaRotKeys()))
    assert checklist.check_same_bits_as_numpy in (half & turbo & kivi) - rotating
