"""Cayley steps stay on the manifold and the learned rotation lowers the error of what it was learned on."""

from __future__ import annotations

import numpy as np
import pytest

from tq_core.codecs.quarot import QuaRotKeys
from tq_core.codecs.spinquant import SpinQuantKeys, fit_spinquant, learn_rotation, range_loss
from tq_core.errors import CodecError
from tq_core.math.rotation import haar_rotation
from tq_core.math.stiefel import cayley_step, skew_direction
from tq_core.tests.codecs.measure import gaussian, offset_keys, relative_mse


def test_steps_are_orthogonal_and_directions_antisymmetric() -> None:
    random, x, momentum = np.random.default_rng(1), haar_rotation(32, 1), np.zeros((32, 32))
    for _ in range(50):
        gradient = random.standard_normal((32, 32)) * 10
        w = skew_direction(x, momentum - gradient)
        assert np.allclose(w, -w.T, atol=1e-9)
        x, momentum = cayley_step(x, gradient, momentum, rate=1.5)
        assert np.abs(x.T @ x - np.eye(32)).max() < 1e-6


def test_the_published_iteration_converges_to_the_exact_step() -> None:
    """SpinQuant's fixed point Y <- X + a/2 W (X + Y) has the Cayley transform as its limit."""
    x, gradient = haar_rotation(16, 2), np.random.default_rng(2).standard_normal((16, 16))
    w = skew_direction(x, -gradient)
    a = min(1.5, 1 / (np.abs(w).sum(axis=0).max() + 1e-8))
    exact, _ = cayley_step(x, gradient, np.zeros_like(x), 1.5)
    y, errors = x + a * w @ x, []
    for _ in range(8):
        y = x + a / 2 * w @ (x + y)
        errors.append(np.abs(y - exact).max())
    assert errors[4] < 1e-3 and errors[7] < errors[4] / 10


def test_a_small_step_goes_downhill_on_a_known_problem() -> None:
    """Least squares between rotated points: the loss falls to nearly zero at the planted rotation."""
    points, target = np.random.default_rng(3).standard_normal((16, 200)), haar_rotation(16, 4)
    if np.linalg.det(target) < 0:
        target[0] *= -1
    x, momentum, losses = np.eye(16), np.zeros((16, 16)), []
    for _ in range(400):
        residual = x @ points - target @ points
        losses.append(float((residual**2).mean()))
        x, momentum = cayley_step(x, residual @ points.T / 200, momentum, rate=0.1)
    assert losses[-1] < 1e-3 * losses[0]


def test_the_gradient_is_that_of_the_loss_with_residuals_held() -> None:
    x, rotation, e = gaussian(40, 1, 16)[:, 0].astype(np.float64), haar_rotation(16, 5), 1e-5
    _, gradient = range_loss(rotation, x, 4)

    def held(r: np.ndarray) -> float:
        y0, y = x @ rotation.T, x @ r.T
        step0, step = np.ptp(y0, axis=1) / 15, np.ptp(y, axis=1) / 15
        units = (y0 - y0.min(axis=1, keepdims=True)) / step0[:, None]
        residual = ((np.rint(units) - units) ** 2).sum(axis=1)
        return float((residual * step**2).sum() / (x**2).sum())

    for i, j in ((0, 0), (3, 7), (15, 2)):
        moved = rotation.copy()
        moved[i, j] += e
        assert gradient[i, j] == pytest.approx((held(moved) - held(rotation)) / e, rel=1e-3, abs=1e-7)


def test_learning_lowers_the_loss_and_keeps_the_best() -> None:
    x = offset_keys(256)[:, 0, :64].astype(np.float64)
    rotation, losses = learn_rotation(x)
    assert range_loss(rotation, x, 4)[0] == pytest.approx(min(losses)) and min(losses) < 0.8 * losses[0]
    assert np.abs(rotation.T @ rotation - np.eye(64)).max() < 1e-6


def test_learned_rotation_beats_hadamard_on_other_tokens() -> None:
    fit, other = (offset_keys(512, seed=s)[..., :64] for s in (7, 8))
    learned = SpinQuantKeys(calibration=fit_spinquant(fit[None]))
    assert relative_mse(learned, other) < 0.9 * relative_mse(QuaRotKeys(), other)
    assert relative_mse(SpinQuantKeys(), other) == relative_mse(QuaRotKeys(), other)


def test_groups_of_128_channels() -> None:
    assert SpinQuantKeys().streams(256)[0] == ("key_steps", 2 * 2 * 128)
    assert QuaRotKeys().streams(256)[0] == ("key_steps", 2 * 128)
    with pytest.raises(CodecError, match="^steps"):
        fit_spinquant(gaussian(64, 1, 16)[None], steps=0)
