"""The judge: what it calls right and wrong, and that it tells what the learner's code raises instead of raising it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tq_core import exercises
from tq_core.errors import ValueRangeError
from tq_core.exercises import EXERCISES
from tq_core.exercises.check import FAIL, NOT_ATTEMPTED, PASS, difference, judge
from tq_core.exercises.ex04_pages_and_bits import pack
from tq_core.show import plates


def said(number: str, attempt: Any) -> str:
    return str(judge(EXERCISES[number], attempt))


def test_a_wrong_answer_names_the_first_differing_index() -> None:
    def wrong(codes: np.ndarray) -> np.ndarray:
        packed = pack(codes)
        packed[2:] ^= 1
        return packed

    assert said("4.1", wrong).splitlines() == [
        "FAIL: 4.1 three bits into bytes, case 1 of 5",
        "  1 of 3 values differ, the first at [2]",
        "  yours[2]  251",
        "  spec[2]   250",
    ]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda codes: None, "expected an answer, got None: is there a return?"),
        (lambda codes: pack(codes)[:2], "expected shape (3,), got (2,)"),
        (lambda codes: pack(codes).astype(np.int64), "expected dtype uint8, got int64"),
        (lambda codes: "bytes", "expected numbers, got str"),
        (lambda codes: np.array([1, [2]], dtype=object), "expected numbers, got ndarray of object"),
        (lambda codes: [[1], [2, 3]], "your code raised ValueError"),
    ],
)
def test_an_answer_of_another_kind_fails(answer: Any, words: str) -> None:
    text = said("4.1", answer)
    assert text.startswith(f"{FAIL}: ")
    assert words in text


def test_what_the_code_raises_is_told_with_its_line() -> None:
    names: dict[str, Any] = {}
    exec(compile("def f(codes):\n    a = codes\n    return a[99]\n", "<cell>", "exec"), names)
    text = said("4.1", names["f"])
    assert text.startswith(
        f"{FAIL}: 4.1 three bits into bytes\n  your code raised IndexError in line 3 of the cell: "
    )


def test_leaving_is_told_and_an_interrupt_goes_through() -> None:
    def leave(codes: np.ndarray) -> np.ndarray:
        raise SystemExit(3)

    def interrupted(codes: np.ndarray) -> np.ndarray:
        raise KeyboardInterrupt

    assert "your code raised SystemExit" in said("4.1", leave)
    with pytest.raises(KeyboardInterrupt):
        judge(EXERCISES["4.1"], interrupted)


def test_something_that_is_no_function_is_told() -> None:
    assert said("4.1", 7).startswith(FAIL)
    assert said("4.1", lambda: None).startswith(FAIL)


def test_the_inputs_of_the_next_case_are_not_the_learners_to_change() -> None:
    def destroys(codes: np.ndarray) -> np.ndarray:
        packed = pack(codes)
        codes[:] = 0
        return packed

    assert said("4.1", destroys).startswith(PASS)


def test_tolerance_is_relative_to_the_largest_and_never_lets_nan_through() -> None:
    spec = np.array([1000.0, 0.0])
    assert difference(spec + 0.5, spec, 1e-3) == []
    assert difference(spec + 2, spec, 1e-3) != []
    assert difference(np.array([1000.0, np.nan]), spec, 1e-3)[0] == "1 of 2 values differ, the first at [1]"
    assert (
        difference(np.float32([1, -0.0]), np.float32([1, 0.0]), 0)[0]
        == "1 of 2 values differ, the first at [1]"
    )


def test_a_tuple_is_compared_part_by_part() -> None:
    lines = difference((1.0, 2.0), (1.0, 3.0), 0)
    assert lines == ["part 1 of the answer:", "yours  2", "spec   3"]
    assert difference(1.0, (1.0, 3.0), 0) == ["expected a tuple of 2 parts, got float"]


def test_an_unknown_number_is_an_error() -> None:
    with pytest.raises(ValueRangeError, match=r"number: expected one of 1\.1, .*, got '9\.9'"):
        exercises.check("9.9", None)


def test_show_says_what_is_drawn(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    monkeypatch.setattr("tq_core.show.nb.show", lambda figure, alt, columns, rows: drawn.append(alt))

    def not_yet(codes: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def broken(codes: np.ndarray) -> np.ndarray:
        raise ZeroDivisionError("planted")

    for attempt in (not_yet, broken, lambda codes: None, pack):
        exercises.show("4.1", attempt)
    first, second, third, fourth = capsys.readouterr().out.splitlines()
    assert first == "Drawn: the specification, until there is code of yours"
    assert second.startswith("Drawn: the specification: your code raised ZeroDivisionError")
    assert second.endswith("planted")
    assert third.startswith("Drawn: the specification: your code raised ")
    assert fourth == "Drawn: your code"
    assert len(drawn) == 4


def test_check_prints_a_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    def not_yet(codes: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    exercises.check("4.1", not_yet)
    exercises.check("4.1", pack)
    first, second = capsys.readouterr().out.splitlines()
    assert first == f"{NOT_ATTEMPTED}: 4.1 three bits into bytes"
    assert second == f"{PASS}: 4.1 three bits into bytes: 5 cases, equal bit for bit"


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", [e.number for e in EXERCISES.values() if not e.attempt.endswith("_source")]
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_no_answer_makes_show_or_check_raise(
    number: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tq_core.show.nb.show", lambda figure, alt, columns, rows: plates.png(figure))
    answers: list[Any] = [
        None,
        np.inf,
        np.nan,
        10**400,
        -1,
        "x",
        [],
        (1, 2, 3),
        np.full(8, np.inf),
        {},
        2**40,
    ]
    for answer in answers:
        exercises.show(number, lambda *arguments, answer=answer: answer)
        exercises.check(number, lambda *arguments, answer=answer: answer)
    text = capsys.readouterr().out
    assert text.count("Drawn: ") == len(answers)
    assert text.count(f"FAIL: {number} ") == len(answers)
