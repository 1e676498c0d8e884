"""How this process rounds: the number of threads of numpy's matrix products is enough to change their last bits."""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np

_SHAPES = ((1, 576, 1536), (64, 576, 192), (64, 64, 512), (37, 1536, 576), (3, 96, 80))


@lru_cache(maxsize=1)
def arithmetic() -> str:
    """Digest of fixed products and functions: whatever makes numpy round otherwise here, threads included, shows in it."""
    rng, digest = np.random.default_rng(5), hashlib.sha256()
    for rows, inner, columns in _SHAPES:
        a = rng.standard_normal((rows, inner)).astype(np.float32)
        b = rng.standard_normal((columns, inner)).astype(np.float32)
        digest.update((a @ b.T).tobytes() + (a @ np.ascontiguousarray(b.T)).tobytes())
        digest.update((a[0] @ b.T).tobytes() + np.einsum("ri,ci->rc", a[:4], b[:4]).tobytes())
        for function in (np.exp, np.tanh, np.sqrt):
            digest.update(function(np.abs(a)).tobytes() + function(np.abs(a).astype(np.float64)).tobytes())
        digest.update(np.log(np.abs(a) + 1).tobytes() + a.sum(axis=1).tobytes())
    return digest.hexdigest()
