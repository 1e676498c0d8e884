"""An arm with pages of another size, for panels: what a page holds is a choice of layout, not of a codec's numbers."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from tq_core.codecs.arm import Arm, one_of

PAGE_SIZES = (32, 64, 128, 256)  # tokens; whole groups of 32, and no more than the kernels have room for


def with_page_tokens(arm: Arm, page_tokens: int) -> Arm:
    """The arm with pages of so many tokens. Raises CodecError for a size that is not in PAGE_SIZES.

    The identity of codecs does not name their page size, since stored caches have one size only. So this is for caches
    that nothing else reads.
    """
    size = one_of("page_tokens", page_tokens, PAGE_SIZES)

    def resized(codec: Any) -> Any:
        other = copy.copy(codec)
        object.__setattr__(other, "page_tokens", size)
        return other

    return replace(arm, key_codec=resized(arm.key_codec), value_codec=resized(arm.value_codec))
