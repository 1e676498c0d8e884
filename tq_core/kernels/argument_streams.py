"""The parts of ``arguments.bind`` that know what lies in a head's block: sizes of streams, centres, sketches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tq_core.errors import KernelError, check
from tq_core.kernels.table import LAYOUT, Kernel
from tq_core.math.polar_pages import BLOCK_BYTES
from tq_core.math.tiles import TILE_TOKENS, tile_bytes

OUTLIERS_MAX = 16  # kMaxOutliers in cpp/tq/kernels/sketch.h


def stream_bytes(
    kernel: Kernel, named: Mapping[str, Any], page_tokens: int, sizes: Mapping[str, int]
) -> Iterator[tuple[str, int]]:
    """(layout entry, bytes) of the streams that a paged kernel touches in each head's block, unless its form says so."""
    if "form" in named:
        return
    sides = (
        ("key", "value")
        if kernel.name.startswith("attend")
        else ("key",)
        if "key" in kernel.name or kernel.name.startswith("score")
        else ("value",)
    )
    for side in sides:
        widths = named.get("widths", named.get(f"{side}_widths"))
        if kernel.name.endswith(("_signs", "_sketch")):
            yield f"{side}_scales", 2 * page_tokens
            yield f"{side}_codes", page_tokens * sizes.get("r", sizes["d"]) // 8
        elif kernel.name.endswith("_polar"):
            yield f"{side}_scales", 2 * page_tokens * sizes["d"] // 16
            yield f"{side}_codes", BLOCK_BYTES * sizes["d"] // 16
        elif widths is None:
            yield f"{side}_codes", 2 * page_tokens * sizes["d"]
        else:
            yield f"{side}_scales", 2 * page_tokens
            yield f"{side}_codes", tile_bytes(widths) * (page_tokens // TILE_TOKENS)


def check_centres(named: Mapping[str, Any], sizes: Mapping[str, int], page_tokens: int) -> None:
    """A centred query has all channels, centred keys come in whole groups, and pages have a place for their centre."""
    check(sizes.get("e", 0) in (0, sizes["d"]), "centre_query", f"0 or {sizes['d']} channels", sizes.get("e"))
    group = int(named.get("centre_tokens", 0))
    if group:
        divided = (page_tokens, int(named["first"]), sizes["n"])
        check(
            not any(n % group for n in divided),
            "centre_tokens",
            f"a divisor of page_tokens, first and the number of keys, {divided}",
            group,
            KernelError,
        )
    at, room = (int(named["layout"][LAYOUT.index(name)]) for name in ("key_centres", "head_bytes"))
    check(
        at > 0 and at % 2 == 0 and at + 2 * sizes["d"] <= room,  # 0: pages without that stream
        "layout.key_centres",
        f"an even offset with {2 * sizes['d']} bytes inside head_bytes={room}",
        at,
        KernelError,
    )


def check_sketch(named: Mapping[str, Any], sizes: Mapping[str, int], page_tokens: int) -> None:
    """A sketch has whole runs of 16 rows and few outliers; what lies beside the key streams stays in the head's block."""
    room = int(named["layout"][LAYOUT.index("head_bytes")])
    for name, rows in (("inner", sizes["r"]), ("outer", sizes["v"])):
        check(rows > 0 and rows % 16 == 0, name, "a positive multiple of 16 rows", rows)
    outliers = int(named["n_outliers"])
    check(outliers <= OUTLIERS_MAX, "n_outliers", f"at most {OUTLIERS_MAX}", outliers, KernelError)
    index = outliers * (1 if sizes["d"] <= 256 else 2)
    for name, nbytes in (
        ("outliers_at", index * (page_tokens // TILE_TOKENS)),
        ("outer_scales_at", 2 * page_tokens),
        ("outer_codes_at", page_tokens * sizes["v"] // 8),
    ):
        at = int(named[name])
        expected = f"an even offset with {nbytes} bytes inside head_bytes={room}"
        check(at % 2 == 0 and at + nbytes <= room, name, expected, at, KernelError)
