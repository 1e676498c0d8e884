"""What an input must not do to the readers, whatever it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_core.cache import saved_read
from tq_core.cache.page import read_header, verify_page
from tq_core.cache.saved import cache_of, image_of
from tq_core.cache.saved_write import chunks
from tq_core.codecs.arms import Arm
from tq_core.errors import TqError
from tq_core.kernels.backend import NumpyBackend


class Finding(Exception):
    """A reader crashed, read outside its input, or accepted what it should refuse."""


class WatchedWindow(saved_read.Window):
    """The reader's window with a second pair of eyes: what it hands out is inside the file and as long as asked."""

    def take(self, at: int, nbytes: int, what: str) -> npt.NDArray[np.uint8]:
        out = super().take(at, nbytes, what)
        if at < 0 or nbytes < 0 or at + nbytes > self.size or out.size != nbytes:
            raise Finding(f"{what}: {nbytes} bytes at {at} of {self.size}")
        return out


@contextmanager
def watched() -> Iterator[None]:
    """The saved-cache reader on watched windows."""
    plain = saved_read.Window
    saved_read.Window = WatchedWindow  # type: ignore[misc]
    try:
        yield
    finally:
        saved_read.Window = plain  # type: ignore[misc]


def reason(error: TqError) -> str:
    """The kind of a refusal: the error's type and what it is about, numbers left out."""
    subject = str(error).split(":")[0]
    return f"{type(error).__name__} {' '.join(w for w in subject.split() if not w.isdigit())}"


def check_file(raw: bytes, arm: Arm) -> str:
    """Read ``raw`` as a saved cache. Returns "accepted" or the reason of the refusal; raises Finding otherwise."""
    data = np.frombuffer(raw, np.uint8)
    try:
        image = saved_read.parse(data)
    except TqError as error:
        return reason(error)
    except Finding:
        raise
    except Exception as error:
        raise Finding(f"{type(error).__name__} from the reader: {error}") from error
    _same(b"".join(chunks(image)), raw, "written again")
    try:
        cache = cache_of(image, image.identity, arm, NumpyBackend())
    except TqError as error:
        return f"accepted, not loaded: {reason(error)}"
    except Exception as error:
        raise Finding(f"{type(error).__name__} from loading: {error}") from error
    try:
        again = b"".join(chunks(image_of(cache, image.identity, image.tokens)))
    except TqError as error:
        raise Finding(f"accepted and loaded, but cannot be saved: {error}") from error
    _same(again, raw, "loaded and saved again")
    return "accepted"


def check_page(raw: bytes) -> str:
    """Read ``raw`` as a page. Returns "accepted" or the reason of the refusal; raises Finding otherwise."""
    page = np.frombuffer(raw, np.uint8)
    try:
        header = read_header(page)
        _same(header.pack(), raw[:64], "packed again")
        verify_page(page)
    except TqError as error:
        return reason(error)
    except Finding:
        raise
    except Exception as error:
        raise Finding(f"{type(error).__name__} from the page parser: {error}") from error
    return "accepted"


def _same(ours: Any, raw: bytes, how: str) -> None:
    if ours != raw:
        raise Finding(f"accepted, but {how} it differs")
