"""How a reader touches a file: through a window that refuses to go beyond it, with refusals that say what was wrong."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tq_core.errors import CacheFileError, check


def need(ok: bool, what: str, expected: str, got: object) -> None:
    """Raise CacheFileError unless ok."""
    check(ok, f"saved cache {what}", expected, got, CacheFileError)


class Window:
    """A file's bytes, read only through ``take``, which refuses to go beyond them."""

    def __init__(self, data: npt.NDArray[np.uint8]) -> None:
        self._data = data

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._data.size

    def take(self, at: int, nbytes: int, what: str) -> npt.NDArray[np.uint8]:
        """Bytes at .. at + nbytes, a view. Raises CacheFileError when the file ends before."""
        self.inside(at, nbytes, what)
        return self._data[at : at + nbytes]

    def inside(self, at: int, nbytes: int, what: str) -> None:
        """Raise CacheFileError unless the file has these bytes."""
        need(
            0 <= at and 0 <= nbytes and at + nbytes <= self.size,
            what,
            f"{nbytes} bytes at {at}",
            f"a file of {self.size} bytes",
        )

    def padding(self, start: int, end: int, what: str) -> None:
        """Raise CacheFileError unless the bytes start .. end are zero."""
        need(not self.take(start, end - start, what).any(), f"{what} padding", "zeros", "other bytes")
