"""Exercises of notebook 03: on which side of RoPE, which scale, and an estimate that is right on average."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tq_core.exercises.draw import Drawing, bars_beside
from tq_core.exercises.exercise import Cases, Exercise
from tq_core.math.rotary import Rotary
from tq_core.math.rotation import haar_rotation
from tq_core.show import figures, plates

D = 32


def rope(x: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """x (n, d) float64 with channels 2 i, 2 i + 1 turned by positions (n,) * 10000^(-2 i / d) (RoFormer, eq. 15)."""
    angles = np.asarray(positions)[:, None] * Rotary().frequencies(x.shape[-1])
    a, b, c, s = x[:, 0::2], x[:, 1::2], np.cos(angles), np.sin(angles)
    return np.stack([a * c - b * s, a * s + b * c], axis=-1).reshape(x.shape)


def logits(
    query: np.ndarray,
    keys: np.ndarray,
    position: int,
    positions: np.ndarray,
    rotation: np.ndarray,
    rope_first: bool,
) -> np.ndarray:
    """<q, k_t> / sqrt(d) after both steps, in the order asked for."""

    def prepared(x: np.ndarray, at: np.ndarray) -> np.ndarray:
        return rope(x, at) @ rotation.T if rope_first else rope(x @ rotation.T, at)

    q = prepared(query[None], np.array([position]))[0]
    found: np.ndarray = prepared(keys, positions) @ q / np.sqrt(len(query))
    return found


def matched_scale(x: np.ndarray, c: np.ndarray) -> np.ndarray:
    """||x|| / ||c|| per row, so that the reconstruction scale * c is as long as x; 0 for a zero vector."""
    return (np.linalg.norm(x, axis=1) / np.linalg.norm(c, axis=1)).astype(np.float32)


def estimate(query: np.ndarray, signs: np.ndarray, norm: float, sketch: np.ndarray) -> float:
    """sqrt(pi / 2) / m * ||k|| * <S q, sign(S k)> (QJL, 2406.03482)."""
    return float(np.sqrt(np.pi / 2) / len(signs) * norm * (signs @ (sketch @ query)))


def _layer() -> tuple[np.ndarray, np.ndarray, int, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    return rng.standard_normal(D), rng.standard_normal((24, D)), 24, np.arange(24), haar_rotation(D, 1)


def _draw_logits(run: Callable[..., np.ndarray]) -> Drawing:
    query, keys, position, positions, rotation = _layer()
    exact = logits(query, keys, position, positions, np.eye(D), True)
    found = {
        name: np.asarray(run(query, keys, position, positions, rotation, first))
        for name, first in (("RoPE, then rotation", True), ("rotation, then RoPE", False))
    }
    figure = figures.scatter(exact, found, "logit without a rotation", "logit")
    change = {name: np.abs(v - exact).max() for name, v in found.items()}
    rows = [[name, "below 1e-9" if c < 1e-9 else f"{c:.2f}"] for name, c in change.items()]
    alt = "Logits against those without a rotation: one order lies on the diagonal, the other is scattered."
    return Drawing(figure, alt, ["order", "largest change of a logit"], rows)


def _coded() -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(6).standard_normal((6, D)).astype(np.float32)
    return x, np.sign(x) * np.float32(0.8)


def _draw_scale(run: Callable[..., np.ndarray]) -> Drawing:
    x, c = _coded()

    def ratio(function: Callable[..., np.ndarray]) -> list[float]:
        scales = np.asarray(function(x.copy(), c.copy()), np.float64)
        return list(np.round(scales * np.linalg.norm(c, axis=1) / np.linalg.norm(x, axis=1), 5))

    alt = "Bars: length of each reconstruction over the length of its vector; a matched norm gives 1 everywhere."
    names = [f"vector {i}" for i in range(len(x))]
    return bars_beside(names, ratio(run), ratio(matched_scale), "length of x_hat / length of x", alt, 1.0)


def _draw_estimate(run: Callable[..., float]) -> Drawing:
    rng = np.random.default_rng(8)
    query, key = rng.standard_normal((2, D))
    found = []
    for _ in range(2000):
        sketch = rng.standard_normal((D, D))
        found.append(float(run(query, np.sign(sketch @ key), float(np.linalg.norm(key)), sketch)))
    figure, (axes,) = plates.plate(6.4, 2.6)
    axes.hist(found, 40, color="#8fb8d8", edgecolor="none")
    axes.axvline(float(query @ key), color="#222222", label="true inner product")
    axes.axvline(float(np.mean(found)), color="#D55E00", linestyle="--", label="mean of the estimates")
    axes.set(xlabel="estimate", ylabel="sketches, 2000 in all")
    axes.legend()
    alt = "Histogram of 2000 estimates of one inner product: wide, but its mean is close to the true value."
    rows = [
        ["true", f"{query @ key:.3f}"],
        ["mean of 2000", f"{np.mean(found):.3f}"],
        ["spread", f"{np.std(found):.3f}"],
    ]
    return Drawing(figure, alt, ["inner product", "value"], rows)


def _estimates() -> Cases:
    rng, made = np.random.default_rng(9), []
    for m in (D, 64):
        sketch, query, key = rng.standard_normal((m, D)), *rng.standard_normal((2, D))
        made.append((query, np.sign(sketch @ key), float(np.linalg.norm(key)), sketch))
    return made


def _scales() -> Cases:
    x, c = _coded()
    zero = x.copy()
    zero[2] = 0
    return [(x, c), (zero, c)]


EXERCISES = (
    Exercise(
        number="3.1",
        name="on which side of RoPE",
        attempt="my_logits",
        difficulty=3,
        importance=5,
        minutes=15,
        task=(
            "Compute the logits of one query in both orders: RoPE and then the rotation, or the rotation and then RoPE. The "
            "picture compares them with the logits without a rotation. Which order may a cache use?"
        ),
        hint=(
            "`x @ rotation.T` rotates rows. The query goes through the same two steps as the keys, at its own position: "
            "`rope(query[None], [position])[0]`."
        ),
        spec=logits,
        cases=lambda: [(*_layer(), True), (*_layer(), False)],
        draw=_draw_logits,
        tolerance=1e-9,
    ),
    Exercise(
        number="3.2",
        name="the scale that keeps the length",
        attempt="my_scale",
        difficulty=1,
        importance=4,
        minutes=5,
        task=(
            "Keys store matched norm: $S$ such that $\\lVert S c\\rVert = \\lVert x\\rVert$, with $c$ the centroids of the codes. "
            "As text: `norm(scale * c) == norm(x)`. One number per vector; a zero vector gets 0."
        ),
        hint="Two norms along axis 1 and one division.",
        spec=matched_scale,
        cases=_scales,
        draw=_draw_scale,
        tolerance=1e-6,
    ),
    Exercise(
        number="3.3",
        name="an inner product from signs",
        attempt="my_estimate",
        difficulty=3,
        importance=3,
        minutes=15,
        task=(
            "A sketch keeps only the signs of $S k$ and the length of $k$, yet $\\langle q, k\\rangle$ can be estimated without "
            "bias: for a row $s$ of normal numbers, $E[\\,\\mathrm{sign}\\langle s,k\\rangle\\,\\langle s,q\\rangle\\,] = "
            "\\sqrt{2/\\pi}\\,\\langle q,k\\rangle / \\lVert k\\rVert$. Turn that into an estimate from $m$ rows."
        ),
        hint="Average over the `m` rows, then undo the two factors on the right: multiply by `norm` and by `sqrt(pi / 2)`.",
        spec=estimate,
        cases=_estimates,
        draw=_draw_estimate,
        tolerance=1e-12,
    ),
)
