"""Fixed key centres: a vector per layer and KV head that packed keys are stored without, such as a projection's bias.

Every packed key of a head lacks the same score, so giving it back moves the peak of the packed tokens' softmax state
and nothing else: no kernel takes part, and no code is spent on an offset that all keys share.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from tq_core.math import lanes

F32 = npt.NDArray[np.float32]


def centred_digest(arm_digest: str, key_centres: F32 | None) -> str:
    """The digest of pages under these centres (n_layers, n_kv_heads, head_dim): under others they hold other keys."""
    if key_centres is None:
        return arm_digest
    return hashlib.sha256(bytes.fromhex(arm_digest) + key_centres.astype("<f4").tobytes()).hexdigest()


def centre_scores(key_centres: F32 | None, layer: int, queries: F32, scale: float) -> F32 | float:
    """(n_query_heads,): scale * <query, centre>, which the logits of packed tokens lack; 0 without centres."""
    if key_centres is None:
        return 0.0
    centres = np.repeat(key_centres[layer], len(queries) // key_centres.shape[1], axis=0)
    scores: F32 = lanes.dot(queries, centres) * np.float32(scale)
    return scores
