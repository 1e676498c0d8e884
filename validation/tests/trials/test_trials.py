"""Trials as records: what they compute from what was measured, what a machine cannot do, and the command line."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tq_core.cache.identity import identity_fields
from tq_core.codecs.arms import get_arm
from tq_core.errors import BackendError, ShapeError
from tq_core.kernels.backend import NumpyBackend
from tq_core.kernels.wasm_memory import GROWTH_BYTES
from tq_core.model.zoo import load_model
from validation import cli, rules_of_memory
from validation.gates import overall
from validation.museum.hoards import SMALL, arm, load_by_name
from validation.museum.linear import LinearBackend
from validation.plan import make_plan
from validation.repeat import trial_command, validate_command
from validation.rules_of_memory import TRIAL_OF, trial_gates
from validation.study_file import find_study
from validation.trials import __main__ as command
from validation.trials import peak_rss as rss
from validation.trials import run as running
from validation.trials import wasm_growth as growth
from validation.trials.identity_trial import changed, differing_bits
from validation.trials.peak_memory import Growth, PeakMemory, Step
from validation.trials.peak_rss import PeakRss
from validation.trials.record import TRIALS, Trials
from validation.trials.run import run_trials
from validation.trials.session import feed, plain, random_rows
from validation.trials.wasm_growth import WasmGrowth, wasm_growth
from validation.trials.wasm_memory import WasmMemory


def steps(*rows: tuple[int, int, int]) -> tuple[Step, ...]:
    """(ledger, allocated, peak) of steps of 10 tokens each."""
    return tuple(Step(10 * (i + 1), a, a, b, c) for i, (a, b, c) in enumerate(rows))


ARM = Growth("a", steps((300, 310, 320), (310, 330, 900), (400, 411, 500)))
FP16 = Growth("fp16", steps((200, 210, 220), (400, 410, 420), (600, 610, 1000)))
RSS = PeakRss("numpy", 10, 1000, (520, 500, 540), (1000, 1010, 1020), (10, 10, 10))
STILL = WasmGrowth("h", 8, 2, (1, 2, 2, 2, 2), (0, 9, 9, 9, 9), (2, 2), (0, 0))


def judge(name: str, **made: Any) -> Any:
    return next(g for g in trial_gates(Trials(**made)) if g.name == name).judge(Trials(**made))


def test_a_peak_is_the_most_of_any_step() -> None:
    made = PeakMemory("numpy", 30, 4, 40, ARM, FP16)
    assert (ARM.peak, ARM.ledger_peak, ARM.staging, ARM.hidden) == (900, 400, 570, 10)
    assert made.share == 0.9 and made.smaller_from == 20
    assert judge("peak-memory", peak_memory=made).status == "pass"
    assert judge("peak-memory", peak_memory=replace(made, arm=FP16)).status == "fail"
    assert judge("hidden-memory", peak_memory=made).value == 0.25
    assert replace(made, arm=FP16).smaller_from is None
    json.dumps(made.as_dict(), allow_nan=False)


def test_resident_sizes_are_compared_net_of_the_baseline_and_above_the_noise() -> None:
    assert (RSS.net("arm"), RSS.net("fp16"), RSS.spread) == (510, 1000, 40)
    assert judge("peak-rss", peak_rss=RSS).status == "pass"
    assert judge("peak-rss", peak_rss=replace(RSS, arm=(1600, 1610, 1620))).status == "fail"
    noisy = judge("peak-rss", peak_rss=replace(RSS, arm=(100, 300, 1000)))
    assert noisy.status == "not exercised" and "does not stand out" in noisy.evidence


@pytest.mark.parametrize(
    ("change", "leaked"),
    [({}, 0), ({"pages": (1, 2, 2, 2, 3)}, 65536), ({"pages": (1, 3, 3, 3, 3)}, 65536),
     ({"held": (0, 9, 9, 9, 73)}, 64), ({"session_pages": (2, 3)}, 65536), ({"session_held": (0, 8)}, 8), ({"session_held": (8, 8)}, 8)],
)  # fmt: skip
def test_growth_counts_pages_and_pools(change: dict[str, Any], leaked: int) -> None:
    verdict = judge("wasm-growth", wasm_growth=replace(STILL, **change))
    assert verdict.value == leaked and (verdict.status == "pass") == (leaked == 0)


def test_linear_memory_is_counted_without_what_was_there() -> None:
    made = WasmMemory("h", 8, 8, 5, 105, 205)
    assert made.share == 0.5 and judge("wasm-memory", wasm_memory=made).status == "pass"
    assert judge("wasm-memory", wasm_memory=replace(made, arm=205)).status == "fail"


def test_without_trials_every_gate_is_not_exercised_and_says_why() -> None:
    verdicts = [g.judge(Trials(not_exercised={"peak_rss": "no such file"})) for g in trial_gates(Trials())]
    assert {v.name for v in verdicts} == set(TRIAL_OF) and overall(verdicts) == "incomplete"
    told = {v.name: v.evidence for v in verdicts}
    assert told["peak-rss"] == "no such file" and told["identity"] == "the trial was left out"


def test_a_gate_that_cannot_apply_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_model("tiny")
    made = run_trials(model, get_arm("quarot"), NumpyBackend(), only=["wasm_growth", "wasm_memory"])
    assert (
        set(made.left_out) == {"wasm_growth", "wasm_memory"} and "numpy alone" in made.left_out["wasm_growth"]
    )
    assert {g.name for g in trial_gates(made)} == {"peak-memory", "hidden-memory", "peak-rss", "identity"}

    def nowhere(*given: Any) -> Any:
        raise BackendError("no wasm host: none")

    monkeypatch.setattr(running, "wasm_growth", nowhere)
    absent = run_trials(model, get_arm("fp16"), NumpyBackend(), only=["wasm_growth"])
    assert absent.not_exercised["wasm_growth"] == "no wasm host: none" and set(TRIALS) == set(
        absent.not_exercised
    )
    with pytest.raises(ShapeError, match="only"):
        run_trials(model, get_arm("fp16"), NumpyBackend(), only=["speed"])


def test_a_system_that_does_not_tell_is_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rss, "unable", lambda: "no /proc")
    made = run_trials(load_model("tiny"), get_arm("fp16"), NumpyBackend(), only=["peak_rss"])
    assert "no /proc" in made.not_exercised["peak_rss"]


def test_a_child_that_fails_is_an_error_with_its_last_line() -> None:
    if rss.unable():
        pytest.skip(f"not exercised: {rss.unable()}")
    with pytest.raises(BackendError, match="expected a result, got .*the process for the arm cache ended"):
        rss.peak_rss(SMALL, arm(), "numpy", tokens=256, repeats=1, make=load_by_name)


def test_a_session_puts_in_what_it_says() -> None:
    cache, rows = plain(SMALL, arm(), NumpyBackend()), random_rows(SMALL, 32)
    assert list(feed(cache, SMALL, rows, 80, 2)) == [32, 64, 80, 81, 82] and cache.length == 82


def test_what_the_arena_holds_is_what_was_not_let_go() -> None:
    backend = LinearBackend()
    block = backend.allocate(1000)
    held = backend.held_bytes()
    assert 1000 < held <= 1000 + 4 * 64
    other = backend.allocate(GROWTH_BYTES)
    del other
    assert backend.held_bytes() == held
    del block
    assert backend.held_bytes() == 0


def test_reserved_pages_that_are_not_enough_are_growth() -> None:
    """A cache that forgets its reservation grows with the tokens, and is caught."""
    sound, forgetful = (
        wasm_growth(SMALL, get_arm("fp16"), fresh=LinearBackend, make=m, steps=62, sessions=2, prompt=70)
        for m in (plain, lambda shape, arm, backend, reserve: plain(shape, arm, backend))
    )
    assert sound.leaked == 0 < forgetful.late_bytes
    assert growth.STEPS > 8


def test_bits_and_changes() -> None:
    a = np.zeros(4, np.float32)
    assert differing_bits(a, a) == 0 and differing_bits(a, a[:2]) == 128
    b = a.copy()
    b.view(np.uint32)[1] = 0b101
    assert differing_bits(a, b) == 2
    from validation.museum.study import fixture_layer, identity_of

    identity = identity_of(fixture_layer(), get_arm("fp16"))
    for f in identity_fields():
        other = changed(identity, f.name)
        assert [g.name for g in identity_fields() if getattr(other, g.name) != getattr(identity, g.name)] == [
            f.name
        ]


PLANS = (
    make_plan("tiny", ["structured-turbo"]),
    make_plan("smollm2", ["kivi-control"], options={"key_bits": 2, "window": 64}, kl_budget=0.1, backend="numpy", seed=4, prompts=3, parity="off"),
    make_plan("smollm2", ["structured-turbo"], study=find_study("smollm2-text"), options={"key_bits": 2.5, "seed": 3}, length=128),
)  # fmt: skip


@pytest.mark.parametrize("plan", PLANS, ids=["study", "own", "another study"])
def test_commands_are_understood_and_say_the_same(plan: Any) -> None:
    import shlex

    words = shlex.split(validate_command(plan))
    told = cli._parser().parse_args(words[1:])
    options = {"key_bits": told.key_bits, "window": told.window, "seed": told.rotation_seed}
    again = make_plan(
        told.model,
        [told.arm],
        study=find_study(told.study) if told.study else None,
        options={name: value for name, value in options.items() if value is not None},
        prompts=told.prompts,
        length=told.length,
        workloads=told.workload,
        kl_budget=told.kl_budget,
        top1_budget=told.top1_budget,
        parity=told.parity,
        seed=told.seed,
        backend=told.backend,
    )
    assert words[0] == "tq" and replace(again, exploratory=plan.exploratory) == plan
    for gate in TRIAL_OF:
        words = shlex.split(trial_command(gate, plan.model, plan.arm, plan.options))
        assert words[:3] == ["python", "-m", "validation.trials"]
        found = command.parser().parse_args(words[3:])
        assert found.gate == gate and dict(map(command.option, found.option)) == dict(plan.options)


@pytest.mark.parametrize(
    ("change", "code"), [({}, cli.PASS), ({"accepted": ("window",)}, cli.FAILED), (None, cli.INCOMPLETE)]
)
def test_the_command_line(change: Any, code: int, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    from validation.trials.identity_trial import IdentityTrial

    fine = IdentityTrial(20, 10, 39, 4, 0, "", (), (), ())
    made = Trials() if change is None else Trials(identity=replace(fine, **change))
    monkeypatch.setattr(command, "run_trials", lambda *a, **k: made)
    assert command.main(["identity", "--option", "window=8"]) == code
    data = json.loads(capsys.readouterr().out)
    (gate,) = data["gates"]
    assert data["options"] == {"window": 8} and gate["command"].endswith("--option window=8")
    assert cli.CODES[data["status"]] == code
    assert set(rules_of_memory.TRIAL_OF.values()) == set(TRIALS)


@pytest.mark.parametrize(
    "words",
    [
        ["speed"],
        ["identity", "--option", "window"],
        ["identity", "--arm", "none"],
        ["identity", "--model", "none"],
    ],
)
def test_bad_input(words: list[str], capsys: Any) -> None:
    assert command.main(words) == cli.BAD_INPUT
    said = capsys.readouterr()
    assert said.out == "" and said.err
