"""Kind E: the tokens are right and belong to another sequence, another model or another time."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tq_core.cache.beams import reorder
from tq_core.cache.paged_cache import PagedCache
from tq_core.cache.saved import cache_of
from tq_core.cache.saved_read import parse
from tq_core.cache.saved_write import chunks
from tq_core.codecs.arms import get_arm
from tq_core.codecs.base import F32
from tq_core.codecs.checklist import check_batch_append_equals_single_appends, check_deterministic
from tq_core.codecs.mapped import Rows
from tq_core.errors import CacheFileError, IdentityMismatch
from tq_core.kernels.backend import NumpyBackend
from validation.museum.exhibit import Exhibit, always
from validation.museum.maths import read_keys
from validation.museum.rows import RowKeys
from validation.museum.stops import conformance, refusal, rule
from validation.museum.study import (
    SAVED_ARM,
    SAVED_TOKENS,
    Layer,
    Twins,
    fixture_layer,
    gaussian_layer,
    identity_of,
    paged,
    saved_image,
    twins,
    twins_readings,
)

DRAFTED = 5


def _attend(cache: PagedCache, layer: Layer, part: slice) -> np.ndarray:
    return cache.attend(0, layer.queries[part], layer.keys[part], layer.values[part])


def speculated(layer: Layer, take_back: Any) -> np.ndarray:
    """Outputs of the last tokens when DRAFTED ones came before them and were rejected."""
    n, cache = len(layer.keys), paged(layer, get_arm("fp16"))
    _attend(cache, layer, slice(0, n - 8))
    draft = gaussian_layer(9, n_tokens=DRAFTED, head_dim=layer.shape.head_dim)
    cache.attend(0, draft.queries, draft.keys, draft.values)
    take_back(cache, n - 8)
    return _attend(cache, layer, slice(n - 8, n))


def _speculation(take_back: Any) -> Any:
    def made(layer: Layer) -> Twins:
        fresh = paged(layer, get_arm("fp16"))
        _attend(fresh, layer, slice(0, len(layer.keys) - 8))
        last = slice(len(layer.keys) - 8, len(layer.keys))
        return twins(layer, _attend(fresh, layer, last), speculated(layer, take_back))

    return made


def _swap_window_only(caches: list[PagedCache], beams: list[int]) -> None:
    """A reorder that knows the recent window and forgets the pages before it."""
    windows = [[layer.copy() for layer in caches[beam].store_list[2].layers] for beam in beams]
    for cache, window in zip(caches, windows):
        cache.store_list[2].layers = window
    for store in caches[0].store_list:
        store.pool.recount()


def _beams(swap: Any) -> Any:
    """Two beams swap places and go on; beside them, the same two that never swapped."""

    def made(layer: Layer) -> Twins:
        n = len(layer.keys)
        arm = get_arm("kivi-control", key_bits=4, value_bits=4, window=8)
        other = gaussian_layer(11, n_tokens=n)

        def two() -> list[PagedCache]:
            first = paged(layer, arm)
            _attend(first, layer, slice(0, 4))
            caches = [first, first.fork()]
            for cache, source in zip(caches, (layer, other)):
                cache.attend(0, source.queries[4:-1], source.keys[4:-1], source.values[4:-1])
            return caches

        still, moved = two(), two()
        swap(moved, [1, 0])
        last = slice(n - 1, n)
        expected = np.concatenate([_attend(still[i], layer, last) for i in (1, 0)])
        return twins(layer, expected, np.concatenate([_attend(cache, layer, last) for cache in moved]))

    return made


def _reload(**expected: Any) -> Any:
    """Load a saved cache for somebody who expects these facts."""

    def made(given: Any) -> Any:
        image, identity = given
        arm = get_arm("structured-turbo", **SAVED_ARM)
        return partial(cache_of, image, replace(identity, **expected), arm, NumpyBackend())

    return made


def _reload_rotated(seed: int) -> Any:
    def made(given: Any) -> Any:
        image, _ = given
        layer, arm = (
            fixture_layer(n_tokens=len(SAVED_TOKENS)),
            get_arm("structured-turbo", **SAVED_ARM, seed=seed),
        )
        return partial(cache_of, image, identity_of(layer, arm), arm, NumpyBackend())

    return made


def _reload_prompt(*tokens: int) -> Any:
    def made(given: Any) -> Any:
        image, identity = given
        arm = get_arm("structured-turbo", **SAVED_ARM)
        return partial(cache_of, image, identity.with_tokens(tokens), arm, NumpyBackend())

    return made


def _written(forget: bool) -> Any:
    """Read a file back whose writer forgot where the window begins."""

    def made(given: Any) -> Any:
        image, _ = given
        if forget:
            recent = image.stores[2]
            layers = tuple(replace(layer, position=0) for layer in recent.layers)
            image = replace(image, stores=(*image.stores[:2], replace(recent, layers=layers)))
        data = np.frombuffer(b"".join(bytes(piece) for piece in chunks(image)), np.uint8)
        return partial(parse, data)

    return made


class DriftingKeys(RowKeys):
    """Codes with a dither that depends on how often the codec was called before."""

    def encode(self, x: F32) -> Rows:
        calls = _CALLS.setdefault("encode", 0)
        _CALLS["encode"] += 1
        dither = np.random.default_rng([17, calls]).standard_normal(x.shape) * 0.05 * np.abs(x).mean()
        return super().encode((x + dither).astype(np.float32))


_CALLS: dict[str, int] = {}


def _drifting(given: Layer) -> DriftingKeys:
    _CALLS.clear()
    return DriftingKeys(4, rotation="structured")


class CrowdKeys(RowKeys):
    """A token's norm is summed pairwise alone and in channel order in a batch, as a library may choose to."""

    def encode(self, x: F32) -> Rows:
        rows = super().encode(x)
        if x.shape[1] > 1:
            halves = x.astype(np.float16)
            total = np.zeros(x.shape[:2], np.float16)
            for channel in range(x.shape[2]):
                total = (total + halves[..., channel] ** 2).astype(np.float16)
            exact = (x.astype(np.float64) ** 2).sum(axis=2)
            stored = rows["scales"].view(np.float16)
            rows["scales"] = (stored * np.sqrt(total / exact)[..., None]).astype(np.float16).view(np.uint8)
        return rows


_plain = partial(fixture_layer, n_tokens=65)
_gauss = partial(gaussian_layer, 8, n_tokens=72)
_identity = "tq_core.cache.identity.check_identity"

EXHIBITS = (
    Exhibit(
        "E1", "Rejected drafts stay in the cache", "vLLM 40831, 52475, 53180",
        "Five drafted tokens are rejected and the next ones are appended behind them.",
        "Taking back leaves a cache that never saw them, bit for bit.",
        _gauss, _speculation(lambda cache, length: cache.truncate(length)), _speculation(lambda cache, length: None),
        rule("no-op"), twins_readings,
    ),
    Exhibit(
        "E3", "Beams are permuted in the window only", "transformers 45510, 48700",
        "Reordering beams swaps the newest tokens and leaves the packed pages where they were.",
        "A reordered beam goes on as the beam that it copies, bit for bit.",
        _gauss, _beams(reorder), _beams(_swap_window_only), rule("no-op"), twins_readings,
    ),
    Exhibit(
        "E4", "A rotated cache restored under another rotation", "llama.cpp 28498",
        "Pages are loaded by an arm whose signs have another seed: same shapes, same sizes, noise.",
        "The identity names rotation and seed; another one is refused.",
        saved_image, _reload_rotated(1), _reload_rotated(7), refusal(IdentityMismatch, _identity),
    ),
    Exhibit(
        "E5", "A hit for another prompt", "omlx 3690, 2272",
        "A stored prefix of the right length and the wrong last token is used again.",
        "Token ids are compared one by one.",
        saved_image, _reload_prompt(*SAVED_TOKENS), _reload_prompt(*SAVED_TOKENS[:-1], 99), refusal(IdentityMismatch, _identity),
    ),
    Exhibit(
        "E6", "The key of the store is the model's name", "osaurus 1989, MemOS 2300",
        "Weights were baked again under the same name and shape; their old keys are reused.",
        "The digest of the weights is part of the identity.",
        saved_image, _reload(), _reload(model_digest="1" * 64), refusal(IdentityMismatch, _identity),
    ),
    Exhibit(
        "E9", "Another result at the same seed", "AmesianX TurboQuant 19",
        "A dither goes on from call to call, so the same tokens give other bytes.",
        "The same tokens give the same bytes, always.",
        _plain, always(RowKeys(4, rotation="structured")), _drifting,
        conformance(check_deterministic), read_keys,
        "Quality hardly changes, so no quality metric will find it.",
    ),
    Exhibit(
        "E10", "Bytes that depend on the batch", "turbovec 206",
        "A sum runs in another order for a batch than for a single token, as threads and libraries do.",
        "Appended one by one or all at once: equal bytes.",
        _plain, always(RowKeys(4, rotation="structured")), always(CrowdKeys(4, rotation="structured")),
        conformance(check_batch_append_equals_single_appends), read_keys,
    ),
    Exhibit(
        "E12", "A state that forgets an offset", "maclocal-api 46",
        "The restored window begins at position 0 instead of where it stood.",
        "A file whose stores do not follow each other is refused.",
        saved_image, _written(False), _written(True), refusal(CacheFileError, "tq_core.cache.saved_read.parse"),
    ),
)  # fmt: skip
