"""One layer's tokens in one store: block table and slots, and what it was when a step began."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tq_core.cache.block_table import BlockTable, new_entries


class Step:
    """A span of calls that happens as a whole or not at all; it counts from the moment ``open`` turns False."""

    def __init__(self) -> None:
        self.open = True
        self.layers: set[int] = set()


class Mark(NamedTuple):
    """A layer as it was when a step first touched it; its pages stay allocated while the step is open."""

    step: Step
    entries: npt.NDArray[np.uint32]
    origin: int
    low: int  # the first page that is kept: head, or what a checkpoint keeps before it
    head: int
    end: int
    tail: int  # the last page, -1 without pages: the one that is replaced when it is shared and written to
    slots: tuple[int, int, int, int]  # first, end, position, valid

    def page(self, ordinal: int) -> int:
        """The page that had this ordinal then."""
        replaced = ordinal == self.end - 1 and self.tail >= 0
        return self.tail if replaced else int(self.entries[ordinal - self.origin])


@dataclass(eq=False)
class LayerPages:
    """Slots are counted from the first slot of the first page in the table.

    first: first live slot. end: one past the last. position: sequence position of slot 0. valid: position of the
    oldest token whose row was written and has not been given up, live or not.
    """

    position: int
    valid: int
    first: int = 0
    end: int = 0
    table: BlockTable = field(default_factory=BlockTable)
    marks: list[Mark] = field(default_factory=list)

    def copy(self) -> LayerPages:
        """The live tokens, in a table of their own; no marks."""
        return LayerPages(self.position, self.valid, self.first, self.end, self.table.copy())

    def mark(self, step: Step, low: int) -> None:
        """Take note of how the layer is now, and of its pages from ordinal ``low`` on."""
        table = self.table
        entries, origin = table.held
        tail = table.page(table.end - 1) if table.end > table.head else -1
        slots = (self.first, self.end, self.position, self.valid)
        self.marks.append(Mark(step, entries, origin, low, table.head, table.end, tail, slots))

    def restore(self, mark: Mark) -> None:
        """Be again what the mark says."""
        table = self.table
        table.held, table.head, table.end = (mark.entries, mark.origin), mark.head, mark.end
        if mark.tail >= 0:
            table.put(mark.end - 1, mark.tail)
        self.first, self.end, self.position, self.valid = mark.slots

    def begin(self, position: int, ordinal: int, offset: int = 0) -> None:
        """Hold no token; the next one goes to slot ``offset``, its position ``position + offset``."""
        table = self.table
        table.held, table.head, table.end = (new_entries(0), ordinal), ordinal, ordinal
        self.position, self.valid = position, position + offset
        self.first = self.end = offset

    def forget_closed(self) -> None:
        """Drop the marks of steps that are over."""
        self.marks = [m for m in self.marks if m.step.open]
