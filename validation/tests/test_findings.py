"""What a small run found, attention probed, and finding bytes that a ledger does not name."""

from dataclasses import replace

import numpy as np
import pytest

from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.arms import get_arm
from tq_core.errors import CodecError, ValueRangeError
from tq_core.kernels.backend import get_backend
from tq_core.shapes import ModelShape
from validation.buffers import held_buffers, held_bytes
from validation.controls import PLANTED_BAD, arm_for
from validation.engine.cell import ALIGNMENT_BYTES, account
from validation.evaluate import checkpoints, probe_attention
from validation.findings import ArmFindings, probed_layers
from validation.plan import make_plan
from validation.study_file import find_study

SHAPE = ModelShape(2, 4, 2, 32)


def fill(cache, n_tokens=160, seed=3):
    rng = np.random.default_rng(seed)
    for layer in range(SHAPE.n_layers):
        q = rng.standard_normal((n_tokens, 4, 32)).astype(np.float32)
        k, v = (rng.standard_normal((n_tokens, 2, 32)).astype(np.float32) for _ in range(2))
        cache.attend(layer, q, k, v)
    return cache


def paged(**options):
    return PagedCache(SHAPE, get_arm("structured-turbo", window=32, **options), get_backend())


def test_the_arms_took_effect_and_the_window_did_not(findings):
    kept = findings.tested.config["window"]
    for document in findings.tested.documents:
        assert not document.max_difference[:kept].any()
        assert (document.max_difference[kept + 8 :] > 0).mean() > 0.95
    longest = max(len(p.tokens) for p in findings.documents)
    assert findings.tested.ledger["tokens_compressed"] == longest - kept


def test_the_no_op_control_is_exactly_zero(findings):
    scores = findings.no_op.scores
    assert not scores.kl.any() and not scores.max_difference.any() and scores.same_top.all()


def test_the_fp16_cache_is_close_to_the_float32_cache_that_shares_no_code_with_it(findings):
    for scores in findings.exact:
        assert 0 < scores.max_difference.max() < 0.05 and scores.kl.mean() < 1e-4


def test_attention_was_probed_in_each_chosen_layer(findings):
    for arm in findings.arms.values():
        assert list(arm.attention) == findings.attention_layers == probed_layers(3)
        for scores in arm.attention.values():
            assert 0 < scores.output_error.mean() < 0.5 and scores.logit_error.max() > 0


def test_more_bits_agree_better_with_exact_attention():
    rng = np.random.default_rng(0)
    q = rng.standard_normal((150, 4, 32)).astype(np.float32)
    k, v = (rng.standard_normal((150, 2, 32)).astype(np.float32) for _ in range(2))
    errors, taus = [], []
    for bits in (2, 3, 4):
        got = probe_attention(SHAPE, lambda b=bits: paged(key_bits=b, value_bits=b), 1, (q, k, v))
        errors.append(got.output_error.mean())
        taus.append(got.tau.mean())
    assert errors == sorted(errors, reverse=True) and taus == sorted(taus)


@pytest.mark.parametrize("n", [2, 3, 7, 512])
def test_checkpoints_end_at_the_last_token(n):
    found = checkpoints(n, 4)
    assert found[-1] == n and found[0] >= 2 and found == sorted(set(found))


def test_the_walk_finds_what_the_cache_says_it_holds():
    cache = fill(paged())
    ledger = cache.ledger()
    named = ledger.total - ledger.scratch - ledger.fixed_tables
    assert 0 <= held_bytes(cache, skip=lambda x: x is cache.backend) - named < ALIGNMENT_BYTES + 512


@pytest.mark.parametrize("where", ["attribute", "list", "view of a larger array", "object"])
def test_a_decoded_copy_is_found_wherever_it_hides(where):
    cache = fill(paged())
    history = np.concatenate(cache.decode(0)).astype(np.float16)
    if where == "attribute":
        cache.mirror = history
    elif where == "list":
        cache.mirror = {"rows": [(history,)]}
    elif where == "view of a larger array":
        cache.mirror = history[:1]
    else:
        cache.mirror = fill(PagedCache(SHAPE, get_arm("fp16"), cache.backend), 40)
    arm = ArmFindings("x", {})
    arm.take_held(account(cache))
    one_token = arm.ledger["baselines"]["fp16"] / arm.ledger["n_tokens"]
    assert arm.unaccounted > one_token
    honest = ArmFindings("x", {})
    honest.take_held(account(fill(paged())))
    assert honest.unaccounted < one_token


def test_a_buffer_reached_twice_is_counted_once():
    class Holder:
        def __init__(self):
            self.a = np.zeros(100, np.uint8)
            self.b, self.c = self.a[10:], self.a

    assert sum(held_buffers(Holder()).values()) == 100


def test_the_planted_bad_arm_is_fixed():
    arm = arm_for(PLANTED_BAD)
    assert arm.name == PLANTED_BAD and arm.window == 0 and arm.describe()["keys"]["bits"] == 2.0
    with pytest.raises(CodecError, match="planted-bad"):
        arm_for(PLANTED_BAD, window=128)
    with pytest.raises(CodecError, match="arm: expected one of"):
        arm_for("nonesuch")


@pytest.mark.parametrize(
    "setting",
    [
        {"kl_budget": 0.0},
        {"kl_budget": float("nan")},
        {"top1_budget": 1.5},
        {"prompts": 0},
        {"parity": "some"},
        {"seed": -1},
    ],
)
def test_a_plan_that_cannot_be_run_is_refused(setting):
    with pytest.raises(ValueRangeError, match=next(iter(setting))):
        make_plan("tiny", **setting)


def test_a_budget_of_ones_own_is_recorded():
    assert make_plan("tiny").exploratory == ()
    plan = make_plan("tiny", kl_budget=0.5)
    assert plan.exploratory == ("budget of kl_mean on episodes: 0.5",) and plan.kl_why == "set by the caller"
    assert plan.registered == make_plan("tiny").registered != plan.study.sha256


def test_a_budget_that_the_study_does_not_have_is_refused_by_name():
    study = find_study("tiny-episodes")
    bare = replace(
        study, budgets=tuple(b for b in study.budgets if b.metric not in ("kl_mean", "top1_agreement"))
    )
    told = r"budgets of study tiny-episodes: expected one of {} on episodes, its first workload, got "
    for setting, metric in (("kl_budget", "kl_mean"), ("top1_budget", "top1_agreement")):
        with pytest.raises(ValueRangeError, match=told.format(metric)):
            make_plan("tiny", study=bare, **{setting: 0.5})
    plan = make_plan("tiny", study=bare)
    for name in ("kl_budget", "kl_why", "top1_budget", "top1_why"):
        with pytest.raises(ValueRangeError, match="budgets of study tiny-episodes: expected one of"):
            getattr(plan, name)
