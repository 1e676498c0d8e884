"""Conformance checks that every codec must pass, in the manner of scikit-learn's estimator checks.

``yield_checks(codec)`` gives those that apply to a codec; ``run_checks(codec)`` runs them and returns a table
for a notebook. The checks themselves are in ``checklist``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

from tq_core.codecs.checkbench import Bench
from tq_core.codecs.checklist import (
    check_batch_append_equals_single_appends,
    check_constant_tokens,
    check_declared_bytes_are_the_real_ones,
    check_deterministic,
    check_distortion_falls_with_bits,
    check_erase,
    check_identity_names_every_field,
    check_inputs_not_modified,
    check_page_round_trip,
    check_prefix,
    check_read_equals_decode,
    check_refuses_other_head_sizes,
    check_refuses_partial_groups,
    check_same_bits_as_numpy,
    check_scale_equivariance,
    check_shapes_and_dtypes,
    check_touches_only_its_columns,
    check_zero_tokens,
)
from tq_core.codecs.checklist_bias import check_gain, check_unbiased_scores
from tq_core.codecs.checklist_extremes import check_degenerate_groups, check_extreme_tokens
from tq_core.kernels.backend import Backend, get_backend

Check = Callable[[Bench], None]

ALWAYS: tuple[Check, ...] = (
    check_shapes_and_dtypes, check_deterministic, check_inputs_not_modified, check_batch_append_equals_single_appends,
    check_erase, check_prefix, check_read_equals_decode, check_touches_only_its_columns,
    check_constant_tokens, check_extreme_tokens, check_gain, check_degenerate_groups,
    check_declared_bytes_are_the_real_ones, check_page_round_trip, check_identity_names_every_field,
    check_refuses_other_head_sizes,
)  # fmt: skip


def yield_checks(codec: Any) -> Iterator[Check]:
    """The checks that apply to a key or value codec, by its tags and fields."""
    yield from ALWAYS
    if codec.tags.scale_free:
        yield from (check_scale_equivariance, check_zero_tokens)
    if "bits" in {f.name for f in fields(codec)}:
        yield check_distortion_falls_with_bits
    if codec.flush_tokens > 1:
        yield check_refuses_partial_groups
    if codec.tags.unbiased_scores:
        yield check_unbiased_scores
    if codec.tags.same_bits:
        yield check_same_bits_as_numpy


@dataclass(frozen=True)
class CheckResult:
    """Outcome of one check at one head size; ``message`` is empty when it passed."""

    check: str
    head_dim: int
    passed: bool
    message: str


def run_checks(
    codec: Any, backend: Backend | None = None, head_dims: Sequence[int] = (48, 80)
) -> list[CheckResult]:
    """Run every check that applies, at each head size. Failures, and errors that a codec raises, become results.

    A codec that takes larger steps of head_dim is run at the next size that it takes.
    """
    results = []
    step = codec.tags.head_dim_step
    for head_dim in (-(-d // step) * step for d in head_dims):
        bench = Bench(codec, backend or get_backend(), head_dim)
        for check in yield_checks(codec):
            try:
                check(bench)
                results.append(CheckResult(check.__name__, head_dim, True, ""))
            except Exception as error:  # a broken codec may raise anything
                results.append(
                    CheckResult(check.__name__, head_dim, False, f"{type(error).__name__}: {error}")
                )
    return results
