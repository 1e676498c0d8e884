"""Checks that every backend makes before a kernel runs, all of them read from the table.

After ``bind`` a kernel cannot touch memory that it was not given: extents agree, arrays are
contiguous and aligned to their element, outputs are writable and overlap nothing, page indices lie
in the pool.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np

from tq_core.errors import DTypeError, KernelError, ShapeError, TqError, ValueRangeError, check
from tq_core.kernels.argument_streams import check_centres, check_sketch, stream_bytes
from tq_core.kernels.forms import check_form
from tq_core.kernels.table import KERNELS, LAYOUT, Arg, Kernel
from tq_core.math.books import BOOK_LEVELS, book_rows
from tq_core.math.polar_pages import POLAR_TOKENS
from tq_core.math.tiles import TILE_TOKENS
from tq_core.shapes import HEAD_DIMS_WORDS, is_head_dim

PAGE_TOKENS_MAX = 256  # kMaxPageTokens in cpp/tq/base.h

DTYPES = {name: np.dtype(f"<{name}") for name in ("f4", "u1", "i1", "u2", "i2", "u4", "i4")}


@dataclass(frozen=True)
class Bound:
    """Checked arguments in call order."""

    kernel: Kernel
    arrays: tuple[np.ndarray, ...]
    sizes: tuple[int, ...]
    scalars: tuple[int | float, ...]


# The bits of ndarray.flags.num.
_CONTIGUOUS_ALIGNED, _WRITABLE = 0x101, 0x400
# Small arrays whose contents, and sizes, that decide which bytes of a page a kernel touches.
_TABLES = ("layout", "form", "widths", "key_widths", "value_widths")
_TABLE_SIZES = ("d", "g", "w", "m", "h", "q", "r")


def _array(kernel: Kernel, arg: Arg, value: Any, extents: dict[str, int]) -> np.ndarray:
    if not isinstance(value, np.ndarray):
        raise DTypeError(f"{kernel.name}: {arg.name}: expected a numpy array, got {type(value).__name__}")
    if value.dtype != DTYPES[arg.dtype]:
        raise DTypeError(f"{kernel.name}: {arg.name}: expected dtype {DTYPES[arg.dtype]}, got {value.dtype}")
    shape = value.shape
    if len(shape) != len(arg.shape):
        raise ShapeError(
            f"{kernel.name}: {arg.name}: expected {len(arg.shape)} axes {arg.shape}, got shape {shape}"
        )
    for extent, got in zip(arg.shape, shape):
        want = extent if isinstance(extent, int) else extents.setdefault(extent, got)
        if got != want:
            raise ShapeError(f"{kernel.name}: {arg.name}: expected {extent}={want}, got shape {shape}")
    flags = value.flags.num
    if flags & _CONTIGUOUS_ALIGNED != _CONTIGUOUS_ALIGNED:
        raise KernelError(
            f"{kernel.name}: {arg.name}: expected a C-contiguous aligned array, got strides {value.strides}"
        )
    if arg.role != "in" and not flags & _WRITABLE:
        raise KernelError(f"{kernel.name}: {arg.name}: expected a writable array, got a read-only one")
    return value


def _check_overlap(kernel: Kernel, arrays: tuple[np.ndarray, ...]) -> None:
    share = np.may_share_memory
    for i, j in _output_pairs(kernel.name):
        if share(arrays[i], arrays[j]):
            raise KernelError(
                f"{kernel.name}: {kernel.args[i].name}: expected its own memory, got an overlap with "
                f"{kernel.args[j].name}"
            )


@cache
def _output_pairs(kernel_name: str) -> tuple[tuple[int, int], ...]:
    """(output, other array) positions of every pair that must not overlap, each pair once."""
    args = KERNELS[kernel_name].args
    outputs = [i for i, arg in enumerate(args) if arg.role != "in"]
    return tuple((i, j) for i in outputs for j in range(len(args)) if j != i and (j not in outputs or j > i))


def _check_layout(
    kernel: Kernel, named: Mapping[str, Any], sizes: Mapping[str, int], heads: int
) -> tuple[int, int]:
    """The streams of all heads stay inside a page; returns (page_tokens, page_bytes)."""
    layout = dict(zip(LAYOUT, named["layout"].tolist()))
    page_tokens, page_bytes = layout["page_tokens"], layout["page_bytes"]
    if kernel.name.endswith("_polar"):
        check(page_tokens == POLAR_TOKENS, "layout.page_tokens", str(POLAR_TOKENS), page_tokens, KernelError)
    ok = 0 < page_tokens <= PAGE_TOKENS_MAX and page_tokens % TILE_TOKENS == 0
    check(
        ok,
        "layout.page_tokens",
        f"a multiple of {TILE_TOKENS} up to {PAGE_TOKENS_MAX}",
        page_tokens,
        KernelError,
    )
    check(
        page_bytes > 0 and page_bytes % 4 == 0,
        "layout.page_bytes",
        "a positive multiple of 4",
        page_bytes,
        KernelError,
    )
    for name, nbytes in stream_bytes(kernel, named, page_tokens, sizes):
        end = layout[name] + nbytes
        ok = layout[name] % 2 == 0 and end <= layout["head_bytes"]
        ok = ok and (name != "key_centres" or layout[name] > 0)  # 0: pages without that stream
        check(
            ok,
            f"layout.{name}",
            f"an even offset with {nbytes} bytes inside head_bytes={layout['head_bytes']}",
            layout[name],
            KernelError,
        )
    if "form" in named:
        check_form(
            named["form"], kernel.name.startswith("score"), sizes["d"], page_tokens, layout["head_bytes"]
        )
    end = layout["header_bytes"] + heads * layout["head_bytes"]
    check(
        end <= page_bytes,
        "layout.page_bytes",
        f"room for the header and {heads} KV heads, {end} bytes",
        page_bytes,
        KernelError,
    )
    if "q" in sizes:
        check(
            heads > 0 and sizes["q"] % heads == 0,
            "n_kv_heads",
            f"a divisor of {sizes['q']} query heads",
            heads,
        )
    return page_tokens, page_bytes


def _check_span(
    kernel: Kernel, named: Mapping[str, Any], sizes: Mapping[str, int], page_tokens: int, page_bytes: int
) -> None:
    """Block table and span stay inside the pool and the score rows, centres in their stream."""
    if sizes.get("e") or named.get("centre_tokens"):
        check_centres(named, sizes, page_tokens)
    if kernel.name == "score_sketch":
        check_sketch(named, sizes, page_tokens)
    pages, limit = named["pages"], sizes["b"] // page_bytes
    if pages.size and int(pages.max()) >= limit:
        raise KernelError(
            f"{kernel.name}: pages: expected page indices below {limit} (the pool), got {int(pages.max())}"
        )
    if "spans" in named:
        first, count = 0, _last_slot(named, sizes)
    else:
        first, count = int(named.get("first", 0)), sizes["n"] if "n" in sizes else int(named["n_tokens"])
    end, slots = first + count, len(pages) * page_tokens
    if end > slots:
        check(False, "n_tokens", f"at most {slots} slots in {len(pages)} pages", end, KernelError)
    if "s" in sizes:
        column, columns = int(named["offset"]) + count, sizes["s"]
        if column > columns:
            check(False, "offset", f"offset + n_tokens at most {columns} columns", column, KernelError)


def _last_slot(named: Mapping[str, Any], sizes: Mapping[str, int]) -> int:
    """One past the last slot of any token's span; tokens must share the query heads evenly."""
    per_token = sizes["t"] * int(named["n_kv_heads"])
    ok = per_token > 0 and sizes["q"] % per_token == 0
    check(ok, "spans", f"a divisor of {sizes['q']} rows of query heads", f"{sizes['t']} tokens", KernelError)
    return int(named["spans"].sum(axis=1, dtype=np.int64).max())


def _check_extents(kernel: Kernel, named: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
    d = sizes.get("d")
    if d is not None:
        check(d == 0 or is_head_dim(d), "head_dim", HEAD_DIMS_WORDS, d)
    if kernel.name == "map_heads":
        check(
            sizes["h"] > 0 and sizes["q"] % sizes["h"] == 0,
            "w",
            f"a divisor of {sizes['q']} heads",
            sizes["h"],
        )
    if kernel.name.startswith("store"):
        channels, widths = 16 * sizes["g"], named["widths"]
        check(sizes["r"] == channels, "widths", f"one entry per 16 channels, {sizes['r']} / 16", sizes["g"])
        allowed = bool(((widths >= 1) & (widths <= 4)).all())
        check(allowed, "widths", "bit widths 1 to 4", widths, ValueRangeError)
    elif "g" in sizes:
        check(d == 16 * sizes["g"], "widths", f"one entry per 16 channels, {d} / 16", sizes["g"])
        check(sizes["w"] == len(BOOK_LEVELS), "levels", f"{len(BOOK_LEVELS)} rows", sizes["w"])
        for name in ("widths", "key_widths", "value_widths"):
            if name in named:
                book_rows(named[name], name)
        if kernel.name == "shape_codes":
            check(
                bool((named["widths"] != 0).all()),
                "widths",
                "no pair codes",
                named["widths"],
                ValueRangeError,
            )
    if "m" in sizes and d is not None:
        check(d % sizes["m"] == 0, "hadamard", f"an order that divides head_dim {d}", sizes["m"])
        rest = d // sizes["m"]
        check(
            rest & (rest - 1) == 0,
            "hadamard",
            "an order with head_dim / order a power of two",
            (d, sizes["m"]),
        )


@lru_cache(maxsize=256)
def _check_tables(
    kernel_name: str, extents: tuple[tuple[str, int], ...], heads: int, contents: tuple[bytes | None, ...]
) -> tuple[int, int]:
    """Everything that sizes and the contents of small tables decide; (page_tokens, page_bytes), zeros if not paged.

    The key holds the contents themselves, so a table that was changed is checked again; refusals are not kept.
    """
    kernel, sizes = KERNELS[kernel_name], dict(extents)
    types = {a.name: DTYPES[a.dtype] for a in kernel.args}
    named = {
        name: np.frombuffer(raw, types[name])
        for name, raw in zip(_TABLES, contents, strict=True)
        if raw is not None
    }
    _check_extents(kernel, named, sizes)
    return _check_layout(kernel, named, sizes, heads) if kernel.paged else (0, 0)


@cache
def _names(kernel_name: str) -> frozenset[str]:
    kernel = KERNELS[kernel_name]
    return frozenset({a.name for a in kernel.args} | {s.name for s in kernel.scalars})


def bind(kernel_name: str, arguments: Mapping[str, Any]) -> Bound:
    """Check ``arguments`` against the table and put them in call order.

    Raises DTypeError, ShapeError, ValueRangeError or KernelError, each naming the argument, and TqError for an
    unknown kernel; nothing has run by then.
    """
    kernel = KERNELS.get(kernel_name)
    if kernel is None:
        raise TqError(f"kernel: expected one of {sorted(KERNELS)}, got {kernel_name!r}")
    wanted = _names(kernel_name)
    if arguments.keys() != wanted:
        missing, extra = sorted(wanted - arguments.keys()), sorted(arguments.keys() - wanted)
        raise TqError(
            f"{kernel_name}: expected arguments {sorted(wanted)}; missing {missing}, unknown {extra}"
        )
    extents: dict[str, int] = {}
    arrays = tuple(_array(kernel, a, arguments[a.name], extents) for a in kernel.args)
    scalars = []
    for s in kernel.scalars:
        value = arguments[s.name]
        if s.dtype == "u4" and not 0 <= int(value) < 2**32:
            raise ValueRangeError(f"{kernel_name}: {s.name}: expected an integer in 0..2^32-1, got {value!r}")
        scalars.append(int(value) if s.dtype == "u4" else float(np.float32(value)))
    for name, extent in extents.items():
        if extent >= 2**32:
            raise ValueRangeError(f"{kernel_name}: size {name}: expected below 2^32, got {extent}")
    heads = extents["h"] if "h" in extents else int(arguments.get("n_kv_heads", 0))
    fixed = tuple((name, extents[name]) for name in _TABLE_SIZES if name in extents)
    contents = tuple(arguments[name].tobytes() if name in arguments else None for name in _TABLES)
    page_tokens, page_bytes = _check_tables(kernel_name, fixed, heads, contents)
    if kernel.paged:
        _check_span(kernel, arguments, extents, page_tokens, page_bytes)
    elif kernel_name == "softmax" and int(arguments["n_tokens"]) > extents["s"]:
        check(False, "n_tokens", f"at most {extents['s']} columns", arguments["n_tokens"], KernelError)
    _check_overlap(kernel, arrays)
    return Bound(kernel, arrays, tuple(extents[s] for s in kernel.sizes), tuple(scalars))
