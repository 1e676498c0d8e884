"""Kind B: head sizes that are no power of two, tails, packing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tq_core.cache.saved import cache_of
from tq_core.codecs.aither import AitherValues
from tq_core.codecs.arms import get_arm
from tq_core.codecs.base import F32, Pages
from tq_core.codecs.checklist import (
    check_declared_bytes_are_the_real_ones,
    check_distortion_falls_with_bits,
    check_read_equals_decode,
)
from tq_core.codecs.checklist_bias import check_gain
from tq_core.codecs.mapped import Rows
from tq_core.codecs.turboquant import TurboKeys
from tq_core.errors import IdentityMismatch, TqError
from tq_core.kernels.backend import Backend, NumpyBackend
from tq_core.kernels.cases import Case, cases
from tq_core.math.block_maps import SplitBlocks
from tq_core.math.hadamard import fwht
from tq_core.math.maps import LinearMap
from tq_core.math.prng import rademacher
from tq_core.shapes import ModelShape
from validation.museum.exhibit import Exhibit, always
from validation.museum.maths import read_backend, read_keys, read_values
from validation.museum.rows import RowKeys
from validation.museum.stops import conformance, parity, refusal
from validation.museum.study import Layer, fixture_layer, paged, saved_image


@dataclass(frozen=True)
class CutPadding:
    """Pad to a power of two, rotate, and cut back to head_dim: an isometry no longer."""

    head_dim: int
    seed: int
    divisor: int
    nbytes = 0

    def _turn(self, x: F32, signs_first: bool) -> F32:
        size = 1 << (self.head_dim - 1).bit_length()
        signs, root = rademacher(self.seed, self.head_dim), np.float32(np.sqrt(self.divisor))
        wide = np.zeros((*x.shape[:-1], size), np.float32)
        wide[..., : self.head_dim] = signs * x if signs_first else x
        out = fwht(wide)[..., : self.head_dim] / root
        return out if signs_first else signs * out

    def forward(self, x: F32) -> F32:
        """(..., head_dim) to the same."""
        return self._turn(x, True)

    def transpose(self, y: F32) -> F32:
        """Its transpose; not its inverse."""
        return self._turn(y, False)


class CutPaddingKeys(RowKeys):
    """TurboQuant_mse under a rotation that is padded and cut."""

    def maps(self, head_dim: int) -> tuple[LinearMap, ...]:
        return (CutPadding(head_dim, self.seed, head_dim),)


class OneRootKeys(RowKeys):
    """TurboQuant_mse under blocks that are all divided by the root of the head's size."""

    def maps(self, head_dim: int) -> tuple[LinearMap, ...]:
        return (SplitBlocks((head_dim,), self.seed, own_size=False),)


class SplitQueryKeys(RowKeys):
    """Keys rotated in blocks of 64 channels, queries rotated as a whole."""

    def maps(self, head_dim: int) -> tuple[LinearMap, ...]:
        return (SplitBlocks((64,) * (head_dim // 64), self.seed),)

    def logits(self, queries: F32, rows: Rows) -> F32:
        keys, whole = self.maps(queries.shape[-1])[0], RowKeys(self.bits, self.seed, "structured")
        return super().logits(keys.transpose(whole.maps(queries.shape[-1])[0].forward(queries)), rows)


class DroppedTail(NumpyBackend):
    """Kernels that count whole blocks of tokens only."""

    name = "numpy, whole blocks"

    def call(self, kernel: str, **arguments: Any) -> None:
        if kernel in ("score_keys", "score_keys_f32"):
            arguments["n_tokens"] = arguments["n_tokens"] // 32 * 32
            arguments["scores"][:, arguments["offset"] :] = 0
        super().call(kernel, **arguments)


class WrongHead(NumpyBackend):
    """Kernels that find the KV head by the low bits of a number: right for a power of two of heads."""

    name = "numpy, heads by mask"

    def call(self, kernel: str, **arguments: Any) -> None:
        if kernel in ("score_keys", "score_keys_f32") and arguments["n_kv_heads"] == 3:
            given, total = arguments["scores"], arguments["n_kv_heads"]
            out = np.empty_like(given)
            super().call(kernel, **{**arguments, "scores": out})
            per = len(given) // total
            for head in range(total):
                given[head * per : (head + 1) * per] = out[(head & 2) * per : ((head & 2) + 1) * per]
            return
        super().call(kernel, **arguments)


class WideRowKeys(RowKeys):
    """A kernel that writes whole blocks of 64 channels, past the end of a row of 96."""

    def append(self, backend: Backend, pages: Pages, first: int, x: F32) -> None:
        super().append(backend, pages, first, x)
        layout = pages.layout
        used = layout.offsets["key_codes"] + dict(layout.streams)["key_codes"]
        for page in pages.table:
            end = (int(page) + 1) * layout.page_bytes - layout.head_bytes + used  # of the last head
            pages.pool[end : end + 16] = 0


def score_cases() -> list[Case]:
    """Parity cases of float32 scores up to 80 channels, with every count of tokens that they have."""
    return [c for c in cases() if c.kernel == "score_keys_f32" and c.build()["query"].shape[-1] <= 80]


def _image_call(reads: str) -> Any:
    """Load an image that was packed at 3 bits with an arm of these key bits."""

    def made(given: Any) -> Any:
        image, identity = given
        arm = get_arm("structured-turbo", key_bits=float(reads), value_bits=3, window=8)
        return partial(cache_of, image, identity, arm, NumpyBackend())

    return made


def _shape_call(head_dim: int, arm: str) -> Any:
    """Make a cache of this head size, and use it."""

    def call() -> None:
        rng = np.random.default_rng(0)
        q, k, v = rng.standard_normal((3, 40, 1, head_dim)).astype(np.float32)
        paged(Layer(q, k, v), get_arm(arm, window=8)).attend(0, q, k, v)

    return call


def _layer_call(head_dim: int) -> Any:
    """Keys of ``head_dim`` for a cache whose model said 64."""

    def made(layer: Layer) -> Any:
        keys = np.zeros((1, 2, head_dim), np.float32)
        return partial(paged(layer, get_arm("structured-turbo")).append, 0, keys, keys)

    return made


_80 = ModelShape(1, 4, 2, 80)
_96 = ModelShape(1, 4, 2, 96)
_128 = ModelShape(1, 4, 2, 128)
_192 = ModelShape(1, 4, 2, 192)
_plain = partial(fixture_layer, n_tokens=65)

EXHIBITS = (
    Exhibit(
        "A15", "One count of heads out of many", "mlx-swift-lm 87",
        "KV heads are found by a bit mask: right for 1, 2, 4 and 8 heads, wrong for 3.",
        "Every count of heads gives numpy's bits; the cases have odd ones on purpose.",
        partial(fixture_layer, n_tokens=65, shape=ModelShape(1, 6, 3, 64)),
        always(NumpyBackend()), always(WrongHead()), parity(score_cases),
        lambda layer, backend: read_backend(layer, (TurboKeys(3.0, arithmetic="f32"), backend)),
        "Most head counts pass every test, which is why one shape is not a test.",
    ),
    Exhibit(
        "B1", "80 channels padded to 128 and cut back", "vLLM 41413, 41414",
        "The transform runs over 128 channels, is normalised by sqrt(80) and cut back to 80.",
        "A Hadamard matrix of order 80 (Paley), H H^T = 80 I: no padding.",
        partial(fixture_layer, n_tokens=65, shape=_80), always(RowKeys(3, rotation="structured")),
        always(CutPaddingKeys(3, rotation="structured")), conformance(check_distortion_falls_with_bits, 80), read_keys,
    ),
    Exhibit(
        "B2", "Blocks of 64 and 32 under one root", "aither-kvcache 2.4.1, tq25 (repeated here)",
        "96 channels are transformed in blocks of 64 and 32, both divided by sqrt(96).",
        "Each block has the root of its own size, or one Hadamard matrix of order 96.",
        partial(fixture_layer, n_tokens=65, shape=_96), always(RowKeys(3, rotation="structured")),
        always(OneRootKeys(3, rotation="structured")), conformance(check_distortion_falls_with_bits, 96), read_keys,
        "There and back the blocks are 2/3 and 1/3 of what they were.",
    ),
    Exhibit(
        "B2b", "Values that promise nothing", "aither-kvcache 2.4.1, tq25 (repeated here)",
        "The mode as published: the blocks above, and a constant that is too small. It claims no unbiasedness and has one rate.",
        "A vector comes back along itself, but for what its rate explains.",
        partial(fixture_layer, n_tokens=65, shape=_128), always(AitherValues("tq25", "repaired")),
        always(AitherValues("tq25", "published")), conformance(check_gain, 128), read_values,
    ),
    Exhibit(
        "B3", "Keys in groups of 64, queries in one piece", "llama-cpp-turboquant 13, 24",
        "192 channels: keys are rotated in three groups, queries over all channels.",
        "Queries and keys share one rotation.",
        partial(fixture_layer, n_tokens=65, shape=_192), always(RowKeys(3, rotation="structured")),
        always(SplitQueryKeys(3, rotation="structured")), conformance(check_read_equals_decode, 192), read_keys,
        "What is stored is as good as ever; only the logits are noise.",
    ),
    Exhibit(
        "B5", "The last tokens are dropped", "llama-cpp-turboquant 4",
        "An integer division counts whole blocks of tokens, and the tail is never scored.",
        "Every count of tokens gives numpy's bits.",
        _plain, always(NumpyBackend()), always(DroppedTail()), parity(score_cases),
        lambda layer, backend: read_backend(layer, (TurboKeys(3.0, arithmetic="f32"), backend)),
    ),
    Exhibit(
        "B6", "One format written, another read", "llama-cpp-turboquant 4",
        "Pages packed at 3 bits are read by an arm of 4 bits.",
        "A saved cache names its arm, and another one is refused.",
        saved_image, _image_call("3"), _image_call("4"), refusal(IdentityMismatch, "tq_core.cache.saved.cache_of"),
    ),
    Exhibit(
        "B8", "Bytes behind the buffer", "turboquant-vllm 52",
        "A kernel for blocks of 64 channels writes 16 bytes past a stream of 96-channel rows.",
        "Exactly the declared bytes are written.",
        partial(fixture_layer, n_tokens=65, shape=_96), always(RowKeys(2, rotation="structured")),
        always(WideRowKeys(2, rotation="structured")), conformance(check_declared_bytes_are_the_real_ones, 96), read_keys,
        "The stray bytes fall where no metric looks: into padding, or into the next page.",
    ),
    Exhibit(
        "B9", "A head size that a block does not divide", "refract, list of pitfalls",
        "80 channels for codes that come in blocks of 32.",
        "A typed error that names the argument, before a byte is written.",
        lambda: None, always(_shape_call(80, "structured-turbo")), always(_shape_call(80, "pair-turbo")),
        refusal(TqError, "tq_core.cache.paged_cache.PagedCache"),
    ),
    Exhibit(
        "B11", "A layer of another head size", "llama.cpp 21394",
        "A layer with 128 channels feeds a cache that was made for 64; rotation is quietly switched off.",
        "A typed error that names both shapes.",
        _plain, _layer_call(64), _layer_call(128), refusal(TqError, "tq_core.cache.tokens.check_tokens"),
    ),
)  # fmt: skip
