"""Exercises of notebook 04: codes as bits of bytes, and what a page costs all in."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tq_core.exercises.draw import Drawing, bars_beside, maps
from tq_core.exercises.exercise import Cases, Exercise
from tq_core.kernels.layout import PageLayout
from tq_core.math.bitpack import pack_bits

STREAMS = {"key_scales": 256, "key_codes": 1536, "value_scales": 256, "value_codes": 1600}
_BY_CODE = ("#eeeeee", "#0072B2", "#E69F00", "#007A58", "#D55E00", "#A3478C", "#222222", "#8fb8d8", "#b8dfc9")


def pack(codes: np.ndarray) -> np.ndarray:
    """3-bit codes (n,) uint8 as a stream of bits, least significant first."""
    return pack_bits(codes, 3)


def bits_all_in(streams: dict[str, int], n_kv_heads: int, page_tokens: int, head_dim: int) -> float:
    """8 * bytes of a page / channels in it; a key channel and a value channel are two."""
    layout = PageLayout(n_kv_heads, page_tokens, tuple(streams.items()))
    return 8 * layout.page_bytes / (2 * n_kv_heads * page_tokens * head_dim)


def _owners(run: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """(3, 8): for each bit of three bytes 1 + the code that sets it, found by setting one code at a time; 0 for none."""
    owner = np.zeros((3, 8), np.int64)
    for i in range(8):
        codes = np.zeros(8, np.uint8)
        codes[i] = 7
        packed = np.asarray(run(codes), np.uint8)
        owner[np.unpackbits(packed.reshape(3, 1), axis=1, bitorder="little") == 1] = i + 1
    return owner


def _draw_pack(run: Callable[[np.ndarray], np.ndarray]) -> Drawing:
    found = _owners(run)
    alt = "Three bytes of eight bits, each bit marked with the code that sets it: code 2 and code 5 cross a byte's border."
    figure = maps(
        {"code that sets the bit": found}, ("bit of the byte, least significant first", "byte"), alt, _BY_CODE
    )
    axes = figure.axes[0]
    for (row, column), owner in np.ndenumerate(found):
        text = str(owner - 1) if owner else "-"
        axes.annotate(
            text,
            (column, row),
            ha="center",
            va="center",
            bbox={"facecolor": "white", "pad": 1, "edgecolor": "none"},
        )
    axes.set_yticks(range(3))
    rows = [[f"byte {i}", " ".join(str(o - 1) if o else "-" for o in row)] for i, row in enumerate(found)]
    return Drawing(figure, alt, ["byte", "codes that set its bits 0 to 7"], rows)


def _draw_bits(run: Callable[..., float]) -> Drawing:
    sizes = {"1 head": 1, "2 heads": 2, "8 heads": 8}
    odd = {**STREAMS, "value_codes": 1601}
    names = [*sizes, "8 heads, one byte more"]
    cases = [(STREAMS, n, 128, 32) for n in sizes.values()] + [(odd, 8, 128, 32)]
    alt = "Bars of bits per channel: more heads share the header, and one byte too many costs a block's padding."
    drawn, wanted = ([float(f(*case)) for case in cases] for f in (run, bits_all_in))
    return bars_beside(names, drawn, wanted, "bits per channel, all in", alt)


def _codes() -> Cases:
    rng = np.random.default_rng(4)
    return [(np.arange(8, dtype=np.uint8),)] + [(rng.integers(0, 8, n, np.uint8),) for n in (1, 3, 32, 125)]


EXERCISES = (
    Exercise(
        number="4.1",
        name="three bits into bytes",
        attempt="my_pack",
        difficulty=3,
        importance=4,
        minutes=15,
        task=(
            "Eight codes of three bits are three bytes. Code `i` takes bits `3 i`, `3 i + 1`, `3 i + 2` of the row, least "
            "significant first; bit `n` of the row is bit `n % 8` of byte `n // 8`. Bits beyond the last code are zero. "
            "The picture sets one code at a time and marks the bits that follow it."
        ),
        hint="Either loop over bits with shifts, or spread codes with `np.unpackbits(..., bitorder='little')`, drop five of eight columns, and pack.",
        spec=pack,
        cases=_codes,
        draw=_draw_pack,
    ),
    Exercise(
        number="4.2",
        name="bits per channel, all in",
        attempt="my_bits_all_in",
        difficulty=2,
        importance=4,
        minutes=10,
        task=(
            "From the bytes of each stream to bits per channel of a full page: a header of 64 bytes, one block per KV head, each "
            "stream filled up to a multiple of 16 bytes, each block to a multiple of 64. Keys and values both count as channels."
        ),
        hint="`-(-n // 16) * 16` is `n` rounded up to a multiple of 16. Round the streams first, their sum after.",
        spec=bits_all_in,
        cases=lambda: [
            (STREAMS, 1, 128, 32),
            (STREAMS, 8, 128, 32),
            ({"key_codes": 17, "value_codes": 1}, 3, 4, 16),
            ({"key_scales": 8, "key_codes": 100, "value_codes": 70}, 2, 4, 64),
        ],
        draw=_draw_bits,
        tolerance=1e-12,
    ),
)
