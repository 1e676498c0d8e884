"""Exercises of notebook 02: the transform, one step towards the table, the rotation and its inverse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tq_core.exercises.draw import Drawing, Touched, accesses
from tq_core.exercises.exercise import Cases, Exercise, in_place
from tq_core.math.hadamard import fwht
from tq_core.math.prng import rademacher
from tq_core.show import figures, plates


def fwht_in_place(x: np.ndarray) -> np.ndarray:
    """The stages of ``hadamard.fwht`` in the array itself: pairs 1, 2, 4... apart become sum and difference."""
    h = 1
    while h < len(x):
        for start in range(0, len(x), 2 * h):
            for i in range(start, start + h):
                a, b = x[i], x[i + h]
                x[i], x[i + h] = a + b, a - b
        h *= 2
    return x


def lloyd_step(samples: np.ndarray, centroids: np.ndarray) -> np.ndarray:
    """One iteration of Lloyd's algorithm: every centroid moves to the mean of the samples nearest to it."""
    boundaries = (centroids[1:] + centroids[:-1]) / 2
    cell = np.searchsorted(boundaries, samples)
    return np.array([samples[cell == i].mean() if (cell == i).any() else c for i, c in enumerate(centroids)])


def rotate(x: np.ndarray, signs: np.ndarray, back: bool) -> np.ndarray:
    """T x = H D x / sqrt(d), or its inverse D H x / sqrt(d); H is symmetric for powers of two."""
    root = np.float32(np.sqrt(len(x)))
    return signs * fwht(x) / root if back else fwht(signs * x) / root


def _samples() -> np.ndarray:
    return np.random.default_rng(2).standard_normal(4000)


def _draw_fwht(run: Callable[..., Any]) -> Drawing:
    x = Touched(np.arange(16, dtype=np.float32))
    # The specification that is compared with works on a copy; the one drawn works in place.
    (fwht_in_place if run is fwht else run)(x)
    alt = "Elements of an array of 16 against the order of accesses: pairs 1 apart, then 2, 4 and 8 apart."
    return accesses(x.log, 16, alt)


def _draw_lloyd(run: Callable[..., np.ndarray]) -> Drawing:
    old, samples = np.linspace(-3, 3, 8), _samples()
    new = np.asarray(run(samples, old), np.float64)
    figure, (axes,) = plates.plate(7.2, 2.6)
    axes.hist(samples, 60, color="#dddddd", edgecolor="none")
    axes.plot(old, np.full(8, 20.0), "o", color=plates.STYLES[1]["color"], fillstyle="none", label="before")
    axes.plot(new, np.full(8, 20.0), "s", color=plates.STYLES[0]["color"], label="after")
    axes.set(xlabel="coordinate", ylabel="samples")
    axes.legend()
    alt = "Histogram of samples with eight centroids before and after one step: outer ones move inwards."
    return Drawing(
        figure, alt, ["centroid", "before", "after"], [[i, *pair] for i, pair in enumerate(zip(old, new))]
    )


def _draw_rotation(run: Callable[..., np.ndarray]) -> Drawing:
    x = np.zeros(32, np.float32)
    x[[3, 20]] = 4, 1
    signs = rademacher(7, 32)
    there = run(x.copy(), signs, False)
    series = {"x": x, "rotated": there, "and back": run(np.array(there), signs, True)}
    alt = "Channels of a vector: two outliers before, spread over all 32 channels after the rotation, two again after going back."
    lines = {name: np.asarray(values, np.float64).tolist() for name, values in series.items()}
    figure = figures.lines(range(32), lines, "channel", "value")
    figure.axes[0].set_xticks([0, 8, 16, 24, 31])
    rows = [[name, f"{np.linalg.norm(v):.4f}", f"{np.abs(v).max():.4f}"] for name, v in series.items()]
    return Drawing(figure, alt, ["vector", "length", "largest"], rows)


def _vectors() -> Cases:
    rng = np.random.default_rng(1)
    return [(rng.standard_normal(n).astype(np.float32),) for n in (1, 2, 16, 128)]


def _lloyd_cases() -> Cases:
    return [(_samples(), np.linspace(-3, 3, k)) for k in (2, 8)] + [
        (np.array([0.1, 0.2]), np.array([0.0, 5.0]))
    ]


def _rotations() -> Cases:
    return [(x, rademacher(7, len(x)), back) for (x,) in _vectors()[1:] for back in (False, True)]


EXERCISES = (
    Exercise(
        number="2.1",
        name="the fast transform in place",
        attempt="my_fwht",
        difficulty=2,
        importance=5,
        minutes=10,
        task=(
            "The Walsh-Hadamard transform takes `n log2 n` additions and no second array: in stage `h = 1, 2, 4, ...` every "
            "pair of elements `h` apart (a *butterfly*) becomes its sum and its difference. Change `x` itself. The order of "
            "stages is part of the task, since the bits are compared; the picture shows your butterflies."
        ),
        hint="Blocks of `2 * h` elements; in each, element `i` of the first half meets element `i + h`. Keep both before writing.",
        spec=fwht,
        cases=_vectors,
        draw=_draw_fwht,
        adapt=in_place,
    ),
    Exercise(
        number="2.2",
        name="one step of Lloyd and Max",
        attempt="my_lloyd_step",
        difficulty=2,
        importance=3,
        minutes=10,
        task=(
            "The two conditions of section 2, used one after the other on samples instead of a density: cut midway between "
            "centroids, then move each centroid to the mean of its cell. A centroid whose cell is empty stays."
        ),
        hint="`np.searchsorted(boundaries, samples)` is the number of each sample's cell.",
        spec=lloyd_step,
        cases=_lloyd_cases,
        draw=_draw_lloyd,
        tolerance=1e-12,
    ),
    Exercise(
        number="2.3",
        name="rotate and rotate back",
        attempt="my_rotate",
        difficulty=2,
        importance=5,
        minutes=10,
        task=(
            "Signs, transform, scale: $T x = H D x / \\sqrt d$, as text `H(signs * x) / sqrt(d)`. Then its inverse, from the "
            "same three pieces in another order."
        ),
        hint="$T$ is orthogonal, so its inverse is its transpose. Both $D$ and this $H$ are symmetric: $T^T = D H / \\sqrt d$.",
        spec=rotate,
        cases=_rotations,
        draw=_draw_rotation,
        tolerance=1e-6,
    ),
)
