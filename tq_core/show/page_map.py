"""A page byte by byte: which bytes are which, drawn from the tables that the code itself packs and parses with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from tq_core.cache.breakdown import stream_line
from tq_core.cache.page import HEADER
from tq_core.kernels.layout import HEADER_BYTES, PageLayout
from tq_core.show import plates

U8 = npt.NDArray[np.uint8]
COLUMNS = 64  # bytes of a drawn row: a cache line
KINDS = ("header", "codes", "scales", "sidecars", "padding")
_COLOURS = ("#E69F00", "#8fb8d8", "#b8dfc9", "#e3c2dd", "#eeeeee")


@dataclass(frozen=True)
class Region:
    """Bytes start..start+nbytes-1 of a page; ``kind`` is one of KINDS."""

    name: str
    start: int
    nbytes: int
    kind: str

    @property
    def end(self) -> int:
        """One past the last byte."""
        return self.start + self.nbytes


def header_regions() -> list[Region]:
    """The fields of the page header."""
    return [Region(field.name, field.offset, field.nbytes, "header") for field in HEADER.fields]


def regions(layout: PageLayout) -> list[Region]:
    """Header, then every stream of every KV head, with the padding between: all bytes of a page, each once."""
    found = [Region("header", 0, HEADER_BYTES, "header")]
    for head in range(layout.n_kv_heads):
        start = HEADER_BYTES + head * layout.head_bytes
        for name, nbytes in layout.streams:
            at = start + layout.offsets[name]
            found += _padding(found[-1].end, at)
            found.append(Region(f"head {head} {name}", at, nbytes, stream_line(name)))
        found += _padding(found[-1].end, start + layout.head_bytes)
    return found


def _padding(start: int, end: int) -> list[Region]:
    return [Region("padding", start, end - start, "padding")] if end > start else []


def grid(values: npt.NDArray[np.float64], rows: int) -> npt.NDArray[np.float64]:
    """A number per byte as (rows, COLUMNS), NaN beyond the page."""
    out = np.full(rows * COLUMNS, np.nan)
    out[: len(values)] = values
    return out.reshape(rows, COLUMNS)


def kinds(layout: PageLayout) -> npt.NDArray[np.float64]:
    """(page_bytes,) index into KINDS of every byte."""
    out = np.empty(layout.page_bytes)
    for region in regions(layout):
        out[region.start : region.end] = KINDS.index(region.kind)
    return out


def page_figure(layout: PageLayout) -> Figure:
    """The map of a page, a row per 64 bytes; names and offsets stand beside it, so that colour is not needed."""
    rows = -(-layout.page_bytes // COLUMNS)
    figure, (axes,) = plates.plate(7.6, 1.2 + 0.062 * rows)
    axes.imshow(
        grid(kinds(layout), rows), cmap=ListedColormap(_COLOURS), vmin=0, vmax=len(KINDS) - 1, aspect="auto"
    )
    taken = -9.0
    for region in regions(layout):
        top = region.start // COLUMNS - 0.5
        axes.axhline(top, color="#222222", linewidth=0.8)
        at = max(top + 0.8, taken + 0.045 * rows)
        taken = at
        text = f"{region.name}: {region.nbytes} bytes from {region.start}"
        axes.annotate(
            text,
            (COLUMNS - 0.5, top + 0.5),
            (COLUMNS + 1, at),
            fontsize=8,
            va="center",
            annotation_clip=False,
        )
    axes.set(xlabel="byte of a row", ylabel="row of 64 bytes", xticks=[0, 16, 32, 48, 63])
    axes.grid(visible=False)
    return figure


def header_rows(page: U8) -> list[list[object]]:
    """(offset, bytes, field, value, meaning) of every header field of a page, as the table of fields reads it."""
    values = HEADER.unpack(page[:HEADER_BYTES].tobytes())
    return [[f.offset, f.nbytes, f.name, _shown(values[f.name]), f.meaning] for f in HEADER.fields]


def _shown(value: object) -> str:
    if not isinstance(value, bytes):
        return f"{value}"
    return value.decode("ascii") if value.isalnum() and value.isascii() else value.hex()


def hex_rows(page: U8, n_bytes: int = HEADER_BYTES) -> list[list[object]]:
    """Rows of 16 bytes in hexadecimal, the offset first."""
    return [[at, *[f"{byte:02x}" for byte in page[at : at + 16]]] for at in range(0, n_bytes, 16)]
