"""Small valid files to start from: every arm, empty to several pages, on a shape of one narrow head."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tq_core.cache.identify import identify
from tq_core.cache.paged_cache import PagedCache
from tq_core.cache.saved import image_of
from tq_core.cache.saved_format import Image
from tq_core.cache.saved_write import chunks
from tq_core.codecs.arms import Arm, arm_names, get_arm
from tq_core.kernels.backend import NumpyBackend
from tq_core.shapes import ModelShape

LENGTHS = (0, 1, 36, 140)
PAGE_LENGTH = 36


@dataclass(frozen=True)
class Seed:
    """A valid file, what it was written from, and the arm that reads it."""

    arm: Arm
    image: Image
    raw: bytes


def seed_files() -> list[Seed]:
    """One file per arm and length; two layers where the file is short."""
    out = []
    for name in arm_names():
        arm = get_arm(name) if name == "fp16" else get_arm(name, window=2, sinks=1)
        for n in LENGTHS:
            d = arm.key_codec.tags.head_dim_step
            shape = ModelShape(2 if n < PAGE_LENGTH else 1, 2, 1, d)
            cache = PagedCache(shape, arm, NumpyBackend())
            rng = np.random.default_rng(n)
            for layer in range(shape.n_layers):
                keys, values = (rng.standard_normal((n, 1, d)).astype(np.float32) for _ in range(2))
                cache.append(layer, keys, values)
            identity = identify(
                shape, arm, model_digest="m", tokenizer_digest="t", chat_template_digest="c", positions="p"
            )
            image = image_of(cache, identity, np.arange(n))
            out.append(Seed(arm, image, b"".join(chunks(image))))
    return out
