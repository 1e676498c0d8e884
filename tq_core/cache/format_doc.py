"""The generated parts of ``cpp/FORMAT.md``: ``python -m tq_core.cache.format_doc`` rewrites them from the code.

A part stands between ``<!-- begin NAME -->`` and ``<!-- end NAME -->``; the prose around it is written by hand.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tq_core.cache.identity import identity_fields
from tq_core.cache.page import CODEC_IDS, FLAG_MEANINGS, HEADER
from tq_core.cache.saved_format import ENTRY, LAYER, STORE, SUPER
from tq_core.cache.store import PageStore
from tq_core.codecs.arms import arm_names, get_arm
from tq_core.kernels.backend import NumpyBackend
from tq_core.kernels.layout import HEADER_BYTES, PageLayout
from tq_core.math.prng import splitmix64
from tq_core.math.tiles import ROW_BYTES, unpack_stream
from tq_core.paths import CPP
from tq_core.shapes import ModelShape

DOCUMENT = CPP / "FORMAT.md"
EXAMPLE = ModelShape(n_layers=1, n_query_heads=1, n_kv_heads=1, head_dim=16)
EXAMPLE_BITS = {"key": 3, "value": 2}


def flags_table() -> str:
    """Bits of the header's flags."""
    rows = FLAG_MEANINGS.items()
    return "\n".join(f"* bit {flag.value.bit_length() - 1}, `{flag.name}`: {text}" for flag, text in rows)


def codecs_table() -> str:
    """Numbers of the codecs."""
    return "\n".join(f"* {number}: `{name}`" for name, number in CODEC_IDS.items())


def streams_table(head_dim: int = 64) -> str:
    """Streams of one head block of every arm, at its default rates, for one head_dim."""
    lines = ["| Arm | Page tokens | Stream | Offset in the head block | Bytes |", "|---|---|---|---|---|"]
    for name in arm_names():
        arm = get_arm(name)
        streams = arm.key_codec.streams(head_dim) + arm.value_codec.streams(head_dim)
        layout = PageLayout(1, arm.key_codec.page_tokens, streams)
        for stream, nbytes in streams:
            lines.append(
                f"| `{name}` | {layout.page_tokens} | `{stream}` | {layout.offsets[stream]} | {nbytes} |"
            )
        lines.append(f"| `{name}` | {layout.page_tokens} | head block | 0 | {layout.head_bytes} |")
    return "\n".join(lines)


def identity_table() -> str:
    """Fields of the identity record and the design study's number of each."""
    rows = [
        f"| `{f.name}` | {f.metadata['study'] or '-'} | {f.metadata['meaning']} |" for f in identity_fields()
    ]
    return "\n".join(["| Field | Study | Meaning |", "|---|---|---|", *rows])


def example_store() -> PageStore:
    """A page with one token of one narrow head, from the project's own generator."""
    bits = {f"{side}_bits": rate for side, rate in EXAMPLE_BITS.items()}
    arm = get_arm("structured-turbo", **bits)
    store = PageStore(EXAMPLE, arm.key_codec, arm.value_codec, NumpyBackend(), arm.digest)
    raw = (splitmix64(5, 32) >> np.uint64(59)).astype(np.float32) - np.float32(15.5)
    keys, values = raw.reshape(2, 1, 1, 16)
    store.append(0, keys, values, 0)
    return store


def code_place(side: str, token: int, channel: int, bits: int) -> tuple[int, int]:
    """Byte offset in a side's code stream, for head_dim 16, and first bit within it, of one code.

    A code whose bits reach 8 goes on in bit 0 of the byte 64 further on.
    """
    tile, t = divmod(token, 32)
    if side == "key":
        lane, byte, piece = t % 16, channel % 4, 4 * (t // 16) + channel // 4
    else:
        lane, byte, piece = channel, t % 4, t // 4
    row, bit = divmod(bits * piece, 8)
    return tile * bits * ROW_BYTES + row * ROW_BYTES + 4 * lane + byte, bit


def example() -> str:
    """Hex dump of the tiny page and the place of every code of its token."""
    store = example_store()
    page = store.pool.page(int(store.tables[0][0]))
    layout, header = store.layout, HEADER.unpack(page[:HEADER_BYTES].tobytes())
    lines = [f"The page has {page.size} bytes; rows of zeros are left out.", "", "```"]
    for at in range(0, page.size, 16):
        if page[at : at + 16].any():
            lines.append(f"{at:5d}  {page[at : at + 16].tobytes().hex(' ')}")
    lines += ["```", "", "Its header says:", ""]
    said = [f"`{n}` {v!r}" for n, v in header.items() if isinstance(v, int)]
    lines += [", ".join(said) + "."]
    for side, bits in EXAMPLE_BITS.items():
        scale = layout.view(page, 0, 0, f"{side}_scales")[:2]
        codes = layout.view(page, 0, 0, f"{side}_codes")
        base = HEADER_BYTES + layout.offsets[f"{side}_codes"]
        unpacked = unpack_stream(codes, np.array([bits], np.uint8), side == "key")[0]
        lines += ["", f"Token 0, {side}: scale {scale.view(np.float16)[0]!s} at byte {HEADER_BYTES + layout.offsets[f'{side}_scales']}, "
                  f"{bits}-bit codes from byte {base}:", "", "| Channel | Byte | First bit | Code |", "|---|---|---|---|"]  # fmt: skip
        for channel in range(16):
            at, bit = code_place(side, 0, channel, bits)
            lines.append(f"| {channel} | {base + at} | {bit} | {unpacked[channel]} |")
    return "\n".join(lines)


PARTS: dict[str, Callable[[], str]] = {
    "page header": HEADER.markdown,
    "flags": flags_table,
    "codecs": codecs_table,
    "streams": streams_table,
    "example": example,
    "superheader": SUPER.markdown,
    "store": STORE.markdown,
    "layer": LAYER.markdown,
    "page table": ENTRY.markdown,
    "identity": identity_table,
}


def rendered(text: str) -> str:
    """The document with every generated part made anew."""
    for name, make in PARTS.items():
        begin, end = f"<!-- begin {name} -->\n", f"\n<!-- end {name} -->"
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        text = before + begin + make() + end + after
    return text


if __name__ == "__main__":
    DOCUMENT.write_text(rendered(DOCUMENT.read_text()))
