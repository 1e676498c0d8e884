# %% 2.1
def my_fwht(x):
    """Unnormalised Walsh-Hadamard transform of x (n,) float32, n a power of two. Changes x, returns nothing.

    Spec: x[:] = H @ x with H[i, j] = (-1) ** (number of bits that i and j share), stages 1, 2, 4, ... apart.
    """
    h = 1
    while h < len(x):
        for start in range(0, len(x), 2 * h):
            for i in range(start, start + h):
                a, b = x[i], x[i + h]
                x[i], x[i + h] = a + b, a - b
        h *= 2


# %% 2.2
import numpy as np


def my_lloyd_step(samples, centroids):
    """One Lloyd iteration: samples (n,) float64, centroids (k,) float64 ascending; returns new centroids (k,).

    Spec: cell of a sample = number of midpoints (c[i] + c[i + 1]) / 2 below it; new c[i] = mean of the samples
    of cell i, or the old c[i] where there are none.
    """
    boundaries = (centroids[1:] + centroids[:-1]) / 2
    cell = np.searchsorted(boundaries, samples)
    new = centroids.copy()
    for i in range(len(centroids)):
        if (cell == i).any():
            new[i] = samples[cell == i].mean()
    return new


# %% 2.3
import numpy as np

from tq_core.math.hadamard import fwht


def my_rotate(x, signs, back):
    """x (d,) float32, d a power of two, signs (d,) of +1 and -1; returns T x (d,), or T^-1 x when `back`.

    Spec: T = hadamard(d) @ diag(signs) / sqrt(d). fwht(x) is hadamard(d) @ x.
    """
    root = np.float32(np.sqrt(len(x)))
    return signs * fwht(x) / root if back else fwht(signs * x) / root
