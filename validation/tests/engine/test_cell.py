"""One prompt read by several arms: the same to the bit whenever it is read, and zero where nothing is compressed."""

import json
from dataclasses import fields, replace

import numpy as np
import pytest

from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.arms import get_arm
from tq_core.kernels.backend import get_backend
from tq_core.model.exact_cache import ExactCache
from validation.controls import arm_for, one_side
from validation.engine.cell import Job, Seat, account, compute
from validation.engine.continuations import log_probability
from validation.engine.reading import Reading
from validation.logit_scores import log_softmax
from validation.simulate import SimulatedCache
from validation.workloads.episodes import WORKLOAD


@pytest.fixture(scope="module")
def prompt():
    from tq_core.model.zoo import load_model

    return WORKLOAD.prompts(load_model("tiny"), 1, 200)[0]


@pytest.fixture(scope="module")
def seats():
    turbo = get_arm("structured-turbo", window=48)
    return (
        Seat("turbo", turbo), Seat("same", turbo), Seat("simulated", turbo, "simulated"),
        Seat("no-op", get_arm("fp16")), Seat("float32", get_arm("fp16"), "source"),
    )  # fmt: skip


def read(tiny, prompt, seats, **given):
    return dict(compute(Job(prompt, get_arm("fp16"), tuple(seats), **given), tiny))


@pytest.fixture(scope="module")
def found(prompt, seats):
    from tq_core.model.zoo import load_model

    return read(load_model("tiny"), prompt, seats, layers=(0, 2), sampling=(5,))


def test_the_reference_and_the_no_op_arm_are_zero_everywhere(found):
    for label in ("reference", "no-op"):
        scores = found[label].scores
        assert not scores.kl.any() and not scores.max_difference.any() and scores.same_top.all()
        assert np.array_equal(found[label].alternatives, found["reference"].alternatives)


def test_an_arm_read_twice_has_the_same_bits_and_the_window_is_exact(found):
    a, b = found["turbo"], found["same"]
    for f in fields(a.scores):
        assert getattr(a.scores, f.name).tobytes() == getattr(b.scores, f.name).tobytes()
    assert not a.scores.max_difference[:47].any() and a.scores.max_difference[60:].all()


def test_the_simulated_arm_is_the_paged_one_up_to_rounding(found):
    a, b = found["turbo"].scores, found["simulated"].scores
    assert a.kl.mean() > 1e-4
    np.testing.assert_allclose(b.nll, a.nll, atol=0.02)
    np.testing.assert_allclose(found["simulated"].alternatives, found["turbo"].alternatives, atol=0.05)


def test_the_source_runtime_differs_by_the_rounding_of_fp16_only(found):
    kl = found["float32"].scores.kl
    assert 0 < kl.mean() < 1e-5


def test_alternatives_are_the_probabilities_of_reading_on(tiny, prompt, found):
    for tokens, got in zip(prompt.alternatives, found["reference"].alternatives, strict=True):
        cache = PagedCache(tiny.shape, get_arm("fp16"), get_backend())
        logits = tiny.forward(np.concatenate([prompt.tokens, tokens]), cache)
        rows = log_softmax(logits[len(prompt.tokens) - 1 : -1])
        assert got == pytest.approx(rows[np.arange(len(tokens)), tokens].sum(), abs=1e-4)
    assert found["reference"].alternatives.argmax() == 0, "the tiny model knows its task"
    assert len(found["reference"].floor) == len(prompt.alternatives) and len(found["turbo"].floor) == 0


def test_attention_is_compared_on_the_asked_layers_of_paged_arms(found):
    assert set(found["turbo"].attention) == {0, 2} and not found["simulated"].attention
    assert 0 < found["turbo"].attention[2].output_error.mean() < 0.5
    assert found["turbo"].held.ledger["n_tokens"] == 197 and found["simulated"].held is None


def test_a_row_keeps_every_bit(found):
    for reading in found.values():
        again = Reading.of_row(json.loads(json.dumps(reading.as_row(), allow_nan=False)))
        assert again.as_row() == reading.as_row()
        for f in fields(reading.scores):
            a, b = getattr(reading.scores, f.name), getattr(again.scores, f.name)
            assert a.dtype == b.dtype and a.tobytes() == b.tobytes()


def test_an_own_reply_is_forced_on_every_arm_and_its_end_too(tiny, prompt):
    free = replace(
        prompt, answer=np.zeros(0, np.int32), answers=(), scored_from=len(prompt.tokens), new_tokens=6,
        alternatives=(),
    )  # fmt: skip
    first = read(tiny, free, [Seat("turbo", get_arm("structured-turbo", window=48))], sampling=(1, 2))
    own = first["reference"]
    assert len(own.generated) == 6 and own.forced == own.generated == first["turbo"].forced
    assert len(own.scores) == 6 and set(own.sampled) == {"1", "2"}
    ended = replace(free, stop_ids=(own.generated[3],))
    stopped = read(tiny, ended, [])["reference"]
    at = own.generated.index(own.generated[3])
    assert stopped.generated == own.generated[:at] and stopped.forced == own.generated[: at + 1]


def test_a_reply_leaves_the_cache_as_it_was(tiny, prompt):
    from tq_core.model.sampling import Sampling
    from validation.engine.continuations import reply

    for cache in (PagedCache(tiny.shape, get_arm("structured-turbo", window=16), get_backend()), SimulatedCache(tiny.shape, get_arm("structured-turbo", window=16))):  # fmt: skip
        last = tiny.forward(prompt.tokens, cache)[-1]
        before = log_probability(tiny, cache, last, prompt.alternatives[0])
        a = reply(tiny, cache, last, 40, (), Sampling())
        assert cache.length == len(prompt.tokens) and a == reply(tiny, cache, last, 40, (), Sampling())
        assert log_probability(tiny, cache, last, prompt.alternatives[0]) == before


def test_one_sided_arms_err_less_than_both_and_bytes_are_accounted(tiny, prompt):
    arm = get_arm("structured-turbo", window=16, key_bits=2, value_bits=2)
    seats = [Seat("both", arm, "simulated")]
    seats += [Seat(side, one_side(arm, side), "simulated") for side in ("keys", "values")]
    found = read(tiny, prompt, seats)
    kl = {label: found[label].scores.kl.mean() for label in ("both", "keys", "values")}
    assert 0 < max(kl["keys"], kl["values"]) < kl["both"]
    cache = PagedCache(tiny.shape, one_side(arm, "keys"), get_backend())
    tiny.forward(prompt.tokens, cache)
    held = account(cache)
    assert held.unaccounted < 512 and held.parts == held.ledger["total"]


def test_the_planted_bad_arm_is_bad(tiny, prompt):
    found = read(
        tiny,
        prompt,
        [Seat("bad", arm_for("planted-bad")), Seat("good", get_arm("structured-turbo", window=48))],
    )
    assert found["bad"].scores.kl.mean() > 5 * found["good"].scores.kl.mean()


def test_the_float32_cache_and_numpy_backend_can_be_asked_for(tiny, prompt):
    numpy = read(tiny, prompt, [Seat("turbo", get_arm("structured-turbo", window=48))], backend="numpy")
    fast = read(tiny, prompt, [Seat("turbo", get_arm("structured-turbo", window=48))])
    assert numpy["turbo"].scores.kl.tobytes() == fast["turbo"].scores.kl.tobytes(), (
        "the kernels' bits are numpy's"
    )
    assert ExactCache(tiny.shape).length == 0
