"""A seeded share of the fuzzing, and proof that it would see a reader with a missing check."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tq_core.cache import saved_read
from tq_core.cache.page import read_header
from tq_core.errors import TqError
from validation.fuzz import loop
from validation.fuzz.mutate import lying, mutated
from validation.fuzz.seeds import seed_files
from validation.fuzz.targets import Finding, check_file

SHARE = 10_000  # about 10 s on a free core


@pytest.mark.slow
def test_the_seeded_share_finds_nothing() -> None:
    report = loop.run(SHARE, seed=20)
    assert report.findings == []
    assert report.inputs == SHARE == sum(report.outcomes.values())
    assert report.corpus > len(seed_files())  # coverage did guide
    assert len(report.outcomes) > 80, report.outcomes
    assert 400 < sum(n for name, n in report.outcomes.items() if name.endswith(": accepted")) < SHARE / 2
    assert "0 findings" in report.text()


@pytest.mark.slow
def test_a_run_repeats() -> None:
    first, second = loop.run(150, seed=3).as_dict(), loop.run(150, seed=3).as_dict()
    assert {**first, "seconds": 0} == {**second, "seconds": 0}
    assert loop.run(150, seed=4).as_dict()["outcomes"] != first["outcomes"]


def _skip_length(self: Any, at: int, nbytes: int, what: str) -> None: ...


def _skip_padding(self: Any, start: int, end: int, what: str) -> None: ...


def _believe_all_but(part: str) -> Any:
    def need(ok: bool, what: str, expected: str, got: object) -> None:
        if part not in what:
            plain(ok, what, expected, got)

    plain = saved_read.need
    return need


@pytest.mark.slow
@pytest.mark.parametrize(
    "owner, name, fault",
    [
        (saved_read.Window, "inside", _skip_length),
        (saved_read.Window, "padding", _skip_padding),
        (saved_read, "verify_page", read_header),
        (saved_read, "need", _believe_all_but("file")),
        (saved_read, "need", _believe_all_but("offset")),
        (saved_read, "need", _believe_all_but("page_tokens")),
        (saved_read, "need", _believe_all_but("n_pages")),
        (saved_read, "need", _believe_all_but("length")),
        (saved_read, "need", _believe_all_but("checksum")),
    ],
    ids=[
        "length",
        "padding",
        "page checksum",
        "trailing",
        "offset",
        "page_tokens",
        "n_pages",
        "tokens",
        "checksum",
    ],
)
def test_a_missing_check_is_found(owner: Any, name: str, fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, name, fault)
    monkeypatch.setattr(loop, "MAX_FINDINGS", 1)
    report = loop.run(3000, seed=5)
    assert len(report.findings) == 1, report.outcomes
    raw, message = report.findings[0]
    assert message
    monkeypatch.undo()
    for arm in {seed.arm for seed in seed_files()}:
        assert check_file(raw, arm) != "accepted"  # the reader with all its checks refuses the same bytes


def test_mutations_are_inputs_of_every_kind() -> None:
    seeds, rng = seed_files(), random.Random(1)
    outcomes = set()
    for _ in range(200):
        seed = rng.choice(seeds)
        outcomes.add(check_file(mutated(rng, seed.raw, seeds[0].raw), seed.arm).split()[0])
        outcomes.add(check_file(lying(rng, seed.image), seed.arm).split()[0])
    assert {"accepted", "CacheFileError", "PageError", "IdentityMismatch"} <= outcomes


def test_a_finding_is_not_a_refusal() -> None:
    assert not issubclass(Finding, TqError)
