"""What is frozen: every stage that decides a stored byte or a score, from the numpy reference alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tq_core.cache.identify import identify
from tq_core.cache.paged_cache import PagedCache
from tq_core.cache.saved import image_of
from tq_core.cache.saved_write import chunks
from tq_core.codecs.arms import arm_names, get_arm
from tq_core.kernels.backend import NumpyBackend
from tq_core.math.books import RATES, load_books, widths_for
from tq_core.math.prng import rademacher, splitmix64
from tq_core.math.quantize import NormMode, encode_rows
from tq_core.math.rotation import StructuredRotation
from tq_core.model import tiny
from tq_core.shapes import ModelShape

Arrays = dict[str, np.ndarray]


def integers(seed: int, *shape: int) -> np.ndarray:
    """Small float32 vectors that need no random library: eighths, from the project's own generator."""
    raw = splitmix64(seed, int(np.prod(shape))) >> np.uint64(59)
    return ((raw.astype(np.float32) - np.float32(15.5)) / np.float32(8)).reshape(shape)


def _codes() -> Arrays:
    books = load_books()
    out: Arrays = {}
    for head_dim in (64, 80):
        rotation = StructuredRotation(head_dim, seed=1)
        x = integers(3, 9, head_dim)
        for rate in RATES:
            widths = widths_for(rate, head_dim)
            codes, scales = encode_rows(x, rotation.signs, rotation.hadamard, widths, books, NormMode.matched)
            out[f"codes_{head_dim}_{rate}"], out[f"scales_{head_dim}_{rate}"] = codes, scales
    return out


def _pages(name: str) -> Arrays:
    """Pages of a short two-layer cache under one arm, and the scores of a query against them."""
    shape = ModelShape(2, 6, 2, 32)
    out: Arrays = {}
    options = {} if name == "fp16" else {"window": 8, "sinks": 2}
    cache = PagedCache(shape, get_arm(name, **options), NumpyBackend())
    for layer in range(shape.n_layers):
        cache.append(layer, integers(10 + layer, 45, 2, 32), integers(20 + layer, 45, 2, 32))
    if (
        cache.arm.key_codec.tags.same_bits
    ):  # others' arithmetic goes through BLAS: only their bytes are frozen
        out["scores"] = cache.scores(1, integers(30, 6, 32))
    for kind, store in cache.stores.items():
        if store.pool.in_use:
            out[f"{kind}_page"] = store.pool.page(int(store.tables[1][0])).copy()
    return out


def _saved() -> Arrays:
    """A whole saved cache, full and open pages in it; the build's digest, which moves with every source, is left out."""
    shape, arm = ModelShape(1, 2, 1, 16), get_arm("structured-turbo", window=8, sinks=2)
    cache = PagedCache(shape, arm, NumpyBackend())
    cache.append(0, integers(40, 170, 1, 16), integers(41, 170, 1, 16))
    facts = {name: name for name in ("model_digest", "tokenizer_digest", "chat_template_digest", "positions")}
    identity = replace(identify(shape, arm, **facts), runtime_build="left out")
    image = image_of(cache, identity, np.arange(170))
    raw = np.frombuffer(b"".join(chunks(image)), np.uint8)
    return {"file": raw, "identity": np.frombuffer(bytes.fromhex(image.identity.digest), np.uint8)}


def golden_cases() -> dict[str, Arrays]:
    """Case name to its named arrays."""
    books = load_books()
    rotation = StructuredRotation(80, seed=7)
    x = integers(1, 3, 80)
    return {
        "signs": {"seed_1": rademacher(1, 256), "seed_2": rademacher(2, 256)},
        "rotation": {"x": x, "forward": rotation.forward(x), "inverse": rotation.inverse(x)},
        "books": {"levels": books.levels, "scale": books.scale, "boundaries": books.boundaries},
        "codes": _codes(),
        **{f"pages_{name}": _pages(name) for name in arm_names()},
        "saved_cache": _saved(),
        "arms": {name: np.frombuffer(bytes.fromhex(get_arm(name).digest), np.uint8) for name in arm_names()},
        **tiny.golden_cases(),
    }
