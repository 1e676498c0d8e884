# %% 3.1
import numpy as np

from tq_core.exercises.ex03_one_layer_fixture import rope


def my_logits(query, keys, position, positions, rotation, rope_first):
    """Logits (n,) float64 of one query for n keys, both put through RoPE and the rotation in the order asked for.

    query (d,), keys (n, d) float64 before RoPE; position int, positions (n,) int; rotation (d, d) orthogonal.
    rope(x (m, d), positions (m,)) turns rows. Spec: logit[t] = <q, k_t> / sqrt(d) after both steps.
    """

    def prepared(x, at):
        return rope(x, at) @ rotation.T if rope_first else rope(x @ rotation.T, at)

    q = prepared(query[None], [position])[0]
    return prepared(keys, positions) @ q / np.sqrt(len(query))


# %% 3.2
import numpy as np


def my_scale(x, c):
    """Scale (n,) of each row: x (n, d) float32 vectors, c (n, d) float32 centroids of their codes, never all zero.

    Spec: scale[i] >= 0 with norm(scale[i] * c[i]) == norm(x[i]).
    """
    return np.linalg.norm(x, axis=1) / np.linalg.norm(c, axis=1)


# %% 3.3
import numpy as np


def my_estimate(query, signs, norm, sketch):
    """Unbiased estimate (a float) of <query, key> from what a sketch kept of the key.

    query (d,) float64; signs (m,) = sign(sketch @ key), +1 or -1; norm = length of the key; sketch (m, d) normal.
    Spec: the mean over all sketches of the answer is query @ key.
    """
    mean = np.mean(signs * (sketch @ query))
    return np.sqrt(np.pi / 2) * norm * mean
