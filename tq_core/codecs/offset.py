"""Keys stored without a known offset, around any key codec: rotation does not remove what all keys share.

The offset of KV head h is a fixed vector b_h, or, with ``rotary``, R_n b_h at position n: the bias of the key
projection exactly as RoPE turned it, or the mean of the keys before RoPE. What is subtracted is given back at score
time as <q, R_n b>, so that coded keys stay on one scale with those of window and sinks. It costs one vector per layer
and KV head, whatever the length, and head_dim multiply-adds per score.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tq_core.codecs.arm import Arm
from tq_core.codecs.around import AroundCodec
from tq_core.codecs.base import F32, CodecTags, KeyCodec, Pages
from tq_core.codecs.calibration import Calibration, check_fit
from tq_core.codecs.rows import RUN_PAGES, by_head
from tq_core.errors import CodecError, check
from tq_core.kernels.backend import Backend
from tq_core.math.rotary import Rotary

METHOD = "key-offset"
FIT_TOKENS = 32


@dataclass(frozen=True)
class OffsetKeys(AroundCodec[KeyCodec]):
    """``inner`` stores keys minus ``calibration``'s offset. Raises CodecError for another method's calibration."""

    rotary: Rotary | None = None

    name = "offset"

    _method = METHOD
    _reads = ("scores", "key")

    @property
    def tags(self) -> CodecTags:
        """As those of ``AroundCodec``; an offset that turns with the position is one before RoPE."""
        return replace(super().tags, pre_rope=self.rotary is not None or self.inner.tags.pre_rope)

    def offsets(self, pages: Pages, first: int, count: int) -> F32:
        """(count or 1, n_kv_heads, head_dim) float32: what slots first.. are stored without."""
        vectors = self.calibration.table("offset", pages)[None]
        if self.rotary is None:
            return vectors
        check(pages.position is not None, "pages", "pages that know their position", "none", CodecError)
        return self.rotary.rotate(vectors, int(pages.position or 0) + first + np.arange(count))

    def append(self, backend: Backend, pages: Pages, first: int, x: F32) -> None:
        self.inner.append(backend, pages, first, np.ascontiguousarray(x - self.offsets(pages, first, len(x))))

    def decode(self, pages: Pages, n_tokens: int, head_dim: int) -> F32:
        return self.inner.decode(pages, n_tokens, head_dim) + self.offsets(pages, 0, n_tokens)

    def scores(
        self, backend: Backend, queries: F32, scale: float, pages: Pages, n_tokens: int, out: F32, offset: int
    ) -> None:
        self.inner.scores(backend, queries, scale, pages, n_tokens, out, offset)
        q = by_head(queries, pages.layout.n_kv_heads) * np.float32(scale)
        for first, count, run in pages.runs(n_tokens, RUN_PAGES):
            logits = np.einsum("ghd,thd->hgt", q, self.offsets(run, 0, count), optimize=True)
            out[:, offset + first : offset + first + count] += logits.reshape(len(queries), -1)


def fit_offset(keys: F32, rotary: Rotary | None = None) -> Calibration:
    """Mean key per layer and KV head from keys (n_layers, n_tokens, n_kv_heads, head_dim), 32 tokens or more.

    With ``rotary``: the mean of the keys before RoPE, the first of them at position 0. Raises the errors of check_fit.
    """
    x = check_fit(keys, FIT_TOKENS)
    if rotary is not None:
        x = np.stack([rotary.rotate(layer, np.arange(x.shape[1]), inverse=True) for layer in x])
    return offset_of(x.mean(axis=1, dtype=np.float64))


def offset_of(vectors: np.ndarray) -> Calibration:
    """A calibration from known offsets (n_layers, n_kv_heads, head_dim), such as the bias of the key projection."""
    return Calibration(METHOD, np.shape(vectors)[-1], {"offset": vectors})


def with_key_offset(arm: Arm, calibration: Calibration, rotary: Rotary | None = None) -> Arm:
    """The arm with its keys stored without an offset, under its name and "+offset"."""
    return replace(arm, name=f"{arm.name}+offset", key_codec=OffsetKeys(arm.key_codec, calibration, rotary))
