# %% 5.1
import numpy as np


def my_exact_tokens(n_tokens, window, sinks):
    """Mask (n_tokens, n_tokens) bool: entry [t, j] says whether step t reads token j in float16.

    Spec: mask[t, j] = j <= t and (j is one of the `window` newest of tokens 0..t, or j < sinks).
    """
    t, j = np.arange(n_tokens)[:, None], np.arange(n_tokens)[None, :]
    return (j <= t) & ((j > t - window) | (j < sinks))


# %% 5.2
import numpy as np


def my_merge(a, b):
    """State (peak, total, sum) of two pages' tokens together, from the states a and b of each.

    peak: float, the largest logit s; total: float, sum of exp(s - peak); sum: (d,) float64, sum of exp(s - peak) * value.
    Spec: what the same three formulas give for the logits and values of both pages, one after the other.
    """
    peak = max(a[0], b[0])
    left, right = np.exp(a[0] - peak), np.exp(b[0] - peak)
    return peak, a[1] * left + b[1] * right, a[2] * left + b[2] * right
