"""A codec around another one that stores vectors without a known offset: what keys and values have in common."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np

from tq_core.codecs.base import Codec, CodecTags, Pages, Streams
from tq_core.codecs.calibration import Calibration, check_calibration
from tq_core.errors import CodecError, check

Inner = TypeVar("Inner", bound=Codec)


@dataclass(frozen=True)
class AroundCodec(Generic[Inner]):
    """``inner`` stores vectors minus ``calibration``'s offset. Raises CodecError for another method's calibration."""

    inner: Inner
    calibration: Calibration

    _method = ""
    _reads = ("", "")  # the method that an inner codec of this side has, and the side's name

    def __post_init__(self) -> None:
        method, side = self._reads
        check(hasattr(self.inner, method), "inner", f"a {side} codec", repr(self.inner), CodecError)
        check_calibration(self.calibration, self._method, required=True)

    @property
    def tags(self) -> CodecTags:
        """The inner codec's, with what an absolute offset adds."""
        return replace(self.inner.tags, needs_calibration=True, same_bits=False, scale_free=False)

    @property
    def flush_tokens(self) -> int:
        """The inner codec's."""
        return self.inner.flush_tokens

    @property
    def page_tokens(self) -> int:
        """The inner codec's."""
        return self.inner.page_tokens

    @property
    def longest_offset(self) -> float:
        """Length of the longest vector that is taken off another, which may become so much longer."""
        offsets = self.calibration.arrays["offset"].astype(np.float64)
        own = float(np.linalg.norm(offsets, axis=-1).max())
        return own + float(getattr(self.inner, "longest_offset", 0.0))

    def check(self, head_dim: int) -> None:
        self.inner.check(head_dim)
        fitted = self.calibration.head_dim
        check(fitted == head_dim, "calibration", f"one for head_dim {head_dim}", fitted)

    def streams(self, head_dim: int) -> Streams:
        return self.inner.streams(head_dim)

    def nominal_bits(self, head_dim: int) -> float:
        return self.inner.nominal_bits(head_dim)

    def fixed_bytes(self, head_dim: int) -> int:
        return self.inner.fixed_bytes(head_dim) + self.calibration.nbytes

    def erase(self, pages: Pages, page: int, first: int, head_dim: int) -> None:
        self.inner.erase(pages, page, first, head_dim)
