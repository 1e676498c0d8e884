"""Which page holds what: the pages of one layer in token order, numbered since the layer was empty."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

U32 = npt.NDArray[np.uint32]
LEAST = 4  # entries of the first table


def new_entries(n: int) -> U32:
    """Room for n entries."""
    return np.zeros(n, np.uint32)


class BlockTable:
    """Pages ``head .. end - 1`` of a layer, by ordinal: how many pages the layer opened before.

    The table grows geometrically, and forgets what lies before ``head`` when it does. Reading makes no copy.
    """

    def __init__(self, ordinal: int = 0) -> None:
        # Entries and the ordinal of the first one, replaced together by one assignment.
        self.held: tuple[U32, int] = (new_entries(0), ordinal)
        self.head = self.end = ordinal

    @staticmethod
    def room(n: int) -> Any:
        """Where n entries go when the table grows."""
        return new_entries(n)

    def copy(self) -> BlockTable:
        """The live entries in a table of their own."""
        other = BlockTable(self.head)
        entries = new_entries(max(LEAST, self.end - self.head) if self.end > self.head else 0)
        entries[: self.end - self.head] = self.view()
        other.held, other.end = (entries, self.head), self.end
        return other

    @property
    def nbytes(self) -> int:
        """Bytes of the table, spare entries included."""
        return self.held[0].nbytes

    def __len__(self) -> int:
        return self.end - self.head

    def view(self) -> U32:
        """The live entries, not copied."""
        entries, origin = self.held
        return entries[self.head - origin : self.end - origin]

    def page(self, ordinal: int) -> int:
        """The page with this ordinal, live or just dropped."""
        entries, origin = self.held
        return int(entries[ordinal - origin])

    def put(self, ordinal: int, page: int) -> None:
        """Let this ordinal be that page."""
        entries, origin = self.held
        entries[ordinal - origin] = page

    def make_room(self, keep_from: int) -> None:
        """Room for one more entry; ordinals from ``keep_from`` on stay readable. MemoryError changes nothing."""
        entries, origin = self.held
        if self.end - origin < len(entries):
            return
        kept = self.end - keep_from
        larger = self.room(max(LEAST, len(entries) if 2 * kept <= len(entries) else 2 * (kept + 1)))
        larger[:kept] = entries[keep_from - origin : self.end - origin]
        self.held = (larger, keep_from)
