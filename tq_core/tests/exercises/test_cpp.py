"""C++ exercises: solutions pass natively and in the Wasmer host; wrong order, wrong text and a wrong reach are told."""

from __future__ import annotations

from typing import Any

import pytest

from tq_core.errors import BackendError, KernelError
from tq_core.exercises import EXERCISES, cpp
from tq_core.exercises.cells import solution
from tq_core.exercises.check import judge
from tq_core.exercises.ex06_native_kernels import SCORE, score_in
from tq_core.kernels import cling
from tq_core.kernels.hosts import preferred_wasmer
from tq_core.tests.exercises.helpers import defined

pytestmark = pytest.mark.kernels


@pytest.fixture(autouse=True, scope="module")
def machines() -> None:
    try:
        cling.load_cppyy()
        preferred_wasmer()
    except BackendError as error:
        pytest.skip(f"not exercised: {error}")


def text_of(number: str) -> str:
    text: str = defined(EXERCISES[number], solution(EXERCISES[number]))
    return text


def said(number: str, text: Any) -> str:
    return str(judge(EXERCISES[number], text))


@pytest.mark.slow
@pytest.mark.parametrize("number", ["6.1", "6.2", "7.2"])
def test_solutions_pass_and_draw_as_the_specification(number: str) -> None:
    exercise = EXERCISES[number]
    assert said(number, text_of(number)).startswith("PASS")
    assert exercise.draw(exercise.adapt(text_of(number))).rows == exercise.draw(exercise.spec).rows


@pytest.mark.slow
def test_left_to_right_has_other_bits() -> None:
    text = text_of("6.2").replace("lane[j % 16]", "lane[0]")
    lines = said("6.2", text).splitlines()
    assert lines[0].startswith("FAIL: 6.2")
    assert "values differ, the first at [" in lines[1]


@pytest.mark.slow
def test_texts_that_do_not_compile_are_told_by_both_compilers() -> None:
    broken = text_of("7.2").replace("float lane[16]", "floa lane[16]")
    assert "FAIL: 7.2" in said("7.2", broken)
    assert "your code raised KernelError: source: expected C++ that compiles" in said("6.2", broken)
    with pytest.raises(KernelError, match=r"wasm: expected C\+\+ that compiles, got:\n(.*\n)*cell\.h:.*floa"):
        cpp.in_wasm(broken, SCORE)
    assert "expected a function score_4bit, got none" in said("6.2", "int other() { return 1; }")


@pytest.mark.slow
def test_writing_outside_the_arrays_is_found_in_wasm() -> None:
    text = text_of("7.2").replace("out[t] = lane", "out[n] = 1; out[t] = lane")
    run = score_in(cpp.in_wasm(text, SCORE))
    with pytest.raises(KernelError, match="wrote outside its arrays: .* after out"):
        run(*EXERCISES["7.2"].cases()[0])


def test_without_a_wasmer_host_it_is_not_exercised(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> None:
        raise BackendError("host: planted")

    monkeypatch.setattr(cpp, "preferred_wasmer", absent)
    unseen = text_of("7.2") + "// another text\n"
    assert said("7.2", unseen) == f"NOT EXERCISED: 7.2 {EXERCISES['7.2'].name}: host: planted"
