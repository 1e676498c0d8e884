"""What is claimed of unbiased estimators, and the checks and metrics that do or do not see their faults."""

from __future__ import annotations

import numpy as np
import pytest

from tq_core.codecs.aither import AitherKeys
from tq_core.codecs.checkbench import Bench
from tq_core.codecs.qjl import QjlKeys
from tq_core.codecs.rabitq import RaBitQKeys
from tq_core.codecs.turboquant_mse import MseKeys
from tq_core.codecs.turboquant_prod import ProdKeys
from tq_core.codecs.vllm_turbo import VllmTurboKeys
from tq_core.kernels.backend import NumpyBackend
from tq_core.math.maps import rotation
from tq_core.math.sketch import mean_abs_coordinate, sketch, sketch_constant
from tq_core.tests.codecs.vectors import gaussian, measure, reconstruct

D = 128


def softmax_effect(codec: object) -> tuple[float, float, float]:
    """Std of the logit error, mean KL and mean shift of log Z over 64 random queries and 1024 keys, 3 draws."""
    rows = []
    for draw in range(3):
        rng = np.random.default_rng(draw)
        keys = rng.standard_normal((1, 1024, D)).astype(np.float32)
        queries = rng.standard_normal((64, D)) / np.sqrt(D)
        exact, coded = queries @ keys[0].T.astype(np.float64), queries @ reconstruct(codec, keys)[0].T
        z, z_hat = (np.log(np.exp(x).sum(axis=1, keepdims=True)) for x in (exact, coded))
        kl = (np.exp(exact - z) * ((exact - z) - (coded - z_hat))).sum(axis=1)
        rows.append(((coded - exact).std(), kl.mean(), (z_hat - z).mean()))
    spread, divergence, shift = np.mean(rows, axis=0)
    return float(spread), float(divergence), float(shift)


@pytest.mark.slow
@pytest.mark.parametrize("bits", [2, 3])
def test_unbiased_logits_are_not_better_attention(bits: int) -> None:
    """Noise of variance v raises log Z by v / 2; the last bit is better spent in the book than in a sketch."""
    rules = ("paper", "unbiased", "matched")
    seen = {rule: softmax_effect(MseKeys(bits, 1, "two-rounds", "sphere", rule)) for rule in rules}
    for kind in ("gaussian", "orthogonal"):
        seen[kind] = softmax_effect(ProdKeys(bits - 1, 1, "two-rounds", kind))
    want = {2: (0.342, 0.363, 0.346, 0.749, 0.453), 3: (0.185, 0.187, 0.184, 0.425, 0.257)}[bits]
    for name, spread in zip(seen, want, strict=True):
        assert seen[name][0] == pytest.approx(spread, rel=0.03), name
    for name in ("unbiased", "gaussian", "orthogonal"):
        assert seen[name][2] == pytest.approx(seen[name][0] ** 2 / 2, rel=0.12), name
    assert seen["paper"][2] < 0 and abs(seen["matched"][2]) < 0.1 * seen["unbiased"][2]
    kl = {name: numbers[1] for name, numbers in seen.items()}
    assert kl["matched"] < kl["unbiased"]
    assert 4 * kl["paper"] < kl["gaussian"] and 1.5 * kl["paper"] < kl["orthogonal"] < 2.2 * kl["paper"]


def test_a_mean_signed_error_does_not_see_a_slope() -> None:
    """2 bits with S = 1 shrink every score to .885: over random pairs the mean error is nothing, regression shows it."""
    x = gaussian(D)[0].astype(np.float64)
    q = np.random.default_rng(3).standard_normal(x.shape)
    truth = (q * x).sum(axis=1)
    got = (q * reconstruct(MseKeys(2, 1, "structured"), gaussian(D))[0]).sum(axis=1)
    standard_error = (got - truth).std() / np.sqrt(len(truth))
    assert abs((got - truth).mean()) < 3 * standard_error
    assert float(got @ truth / (truth @ truth)) == pytest.approx(0.884, abs=0.006)
    correlated = measure(MseKeys(2, 1, "structured")).slope  # q = x: the bias is the whole of it
    assert correlated.mean() < 0.9


def test_rabitq_bound_holds_with_its_probability_only() -> None:
    """The error over its scale is N(0, 1): about 5.6 % of pairs lie beyond 1.9, so zero violations is a wrong test."""
    x = gaussian(D)[0].astype(np.float64)
    q = np.random.default_rng(4).standard_normal(x.shape)
    got = reconstruct(RaBitQKeys(1, rotation="structured"), gaussian(D))[0]
    cosine = np.sqrt(1 - measure(RaBitQKeys(1, rotation="structured", norm="min_mse")).error)
    lengths = np.linalg.norm(x, axis=1) * np.linalg.norm(q, axis=1)
    scale = lengths * np.sqrt((1 - cosine**2) / cosine**2) / np.sqrt(D - 1)
    normal = (q * (got - x)).sum(axis=1) / scale
    assert normal.std() == pytest.approx(0.996, abs=0.02)
    assert 0.05 < (np.abs(normal) > 1.9).mean() < 0.064
    assert 0.024 < (normal > 1.9).mean() < 0.034


def keys_with_an_outlier(n: int = 64) -> np.ndarray:
    """(1, n, 64) Gaussian float32 whose channel 5 is a hundred."""
    x = gaussian(64, n).copy()
    x[..., 5] = 100
    return x


def test_qjl_is_unbiased_over_sketches() -> None:
    """Inliers and outliers alike: the mean over 60 sketches is within its standard errors of <q, k>."""
    x = keys_with_an_outlier()
    q = np.random.default_rng(5).standard_normal((5, 64))
    truth = x[0].astype(np.float64) @ q.T
    errors = np.array([reconstruct(QjlKeys(seed=s), x)[0] @ q.T - truth for s in range(60)])
    z = errors.mean(axis=0) / (errors.std(axis=0) / np.sqrt(60))
    assert z.std() == pytest.approx(1, abs=0.2) and abs(z.mean()) < 0.5


def test_qjl_keeps_an_outlier_channel_out_of_the_inliers_scores() -> None:
    """A query on other channels than the outlier pays for the outlier's length with one sketch, not with two."""
    x = keys_with_an_outlier(640)
    codec = QjlKeys(outliers=2)
    bench = Bench(codec, NumpyBackend(), 64, n_kv_heads=1, group=64)
    pages = bench.store(np.swapaxes(x, 0, 1).copy())
    taken = np.unique(codec.encode(x)["outliers"])
    q = np.random.default_rng(5).standard_normal((64, 64)).astype(np.float32)
    q[:, taken] = 0
    truth = x[0] @ q.T
    split = bench.read(pages, len(truth), q).T - truth
    single = sketch("orthogonal", 128, 64, 1)
    z = np.sign(single.forward(x[0]))
    norms = np.linalg.norm(x[0], axis=1, keepdims=True)
    whole = sketch_constant("orthogonal", 128, 64) * norms * z @ single.forward(q).T - truth
    assert 5 in taken and split.std() < whole.std() / 5


def test_gaussian_constant_with_an_orthonormal_sketch_is_dead() -> None:
    """The residual comes back sqrt(d) too small: the sign bits do nothing, and the slope of their part shows it."""
    wrong, right = np.sqrt(np.pi / 2) / D, sketch_constant("orthogonal", D, D) * np.sqrt(D)
    unit = gaussian(D)[0].astype(np.float64)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    o = rotation("structured", D, 9)
    signs = np.sign(o.forward(unit.astype(np.float32))).astype(np.float32)
    back = (unit * o.transpose(signs)).sum(axis=1).mean()
    assert right * back == pytest.approx(1, abs=0.003)
    assert wrong * back == pytest.approx(1 / np.sqrt(D), rel=0.01)
    assert right == pytest.approx(1 / (D * mean_abs_coordinate(D)))


@pytest.mark.parametrize("version, slope", [("published", 1 / 8), ("repaired", 1.0)])
def test_slope_of_the_residual_part_tells_the_published_constant(version: str, slope: float) -> None:
    """Groups of 64 channels: the published correction is sqrt(64) too small, the repaired one gives the residual back."""
    x, codec = gaussian(D), AitherKeys("tq35", version)
    main, sketched = codec.coordinates(codec.encode(x), D)
    rotate, project = codec.maps(D)
    residual = x.astype(np.float64) - rotate.transpose(main)
    back = project.transpose(sketched)
    assert float((residual * back).sum() / (residual**2).sum()) == pytest.approx(slope, rel=0.01)


@pytest.mark.parametrize("version, identity", [("published", False), ("repaired", True)])
def test_blocks_of_the_published_rotation_do_not_come_back(version: str, identity: bool) -> None:
    """96 channels as 64 + 32, all divided by sqrt(96): 2/3 and 1/3 return."""
    rotate = AitherKeys("tq25", version).maps(D)[0]
    x = gaussian(D, 32)
    back = rotate.transpose(rotate.forward(x))
    assert bool(np.allclose(back, x, atol=1e-5)) is identity
    want = x * np.repeat([1, 1, 1] if identity else [1, 2 / 3, 1 / 3], [32, 64, 32]).astype(np.float32)
    np.testing.assert_allclose(back, want, atol=1e-5)


@pytest.mark.parametrize("bits", [3, 4])
def test_hadamard_without_signs_turns_a_constant_into_a_spike(bits: int) -> None:
    """The presets' keys lose most of a constant vector at a power of two; signs keep it."""
    x = np.full((1, 2, 64), 2.5, np.float32)
    size = float((x.astype(np.float64) ** 2).sum())
    plain = float(((reconstruct(VllmTurboKeys(bits), x) - x) ** 2).sum()) / size
    signed = (
        float(((reconstruct(MseKeys(bits, 1, "structured", "gauss", "matched"), x) - x) ** 2).sum()) / size
    )
    assert plain > 0.1 > 0.05 > signed and plain > 5 * signed
