"""How codes are laid out in memory: tiles of 32 tokens x 16 channels, ``bits`` rows of 64 bytes.

A row is 16 lanes of 4 bytes. Each of the 64 byte positions of a tile holds 8 codes, one per
*slice*, packed least significant bit first through the rows: code s occupies bits
[bits*s, bits*(s+1)) of the byte column (row 0 has bits 0..7, row 1 bits 8..15, ...).

Keys put tokens in lanes and channels in bytes, so that one integer dot product per lane is a piece of
one token's score; values put channels in lanes and tokens in bytes, so that it is a piece of one
channel's weighted sum:

    keys:    lane = token % 16      byte = channel % 4   slice = 4 * (token // 16) + channel // 4
    values:  lane = channel         byte = token % 4     slice = token // 4

A pair code (math/pairs.py) is one code for the same channel of two neighbouring groups: the first group's tile holds it,
in 5 or 7 rows, and the second has no rows.

The same bytes serve 512-, 256- and 128-bit registers: they take a row, a half or a quarter.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tq_core.errors import ValueRangeError, check

TILE_TOKENS, TILE_CHANNELS, SLICES, ROW_BYTES = 32, 16, 8, 64
U8 = npt.NDArray[np.uint8]


def pack_slices(slices: U8, bits: int) -> U8:
    """(..., 8, 64) codes below 2^bits to (..., bits, 64) packed rows."""
    column = np.zeros((*slices.shape[:-2], ROW_BYTES), np.uint64)
    for s in range(SLICES):
        column |= slices[..., s, :].astype(np.uint64) << np.uint64(bits * s)
    rows = [(column >> np.uint64(8 * r)).astype(np.uint8) for r in range(bits)]
    return np.stack(rows, axis=-2)


def unpack_slices(rows: U8, bits: int) -> U8:
    """Inverse of pack_slices."""
    column = np.zeros((*rows.shape[:-2], ROW_BYTES), np.uint64)
    for r in range(bits):
        column |= rows[..., r, :].astype(np.uint64) << np.uint64(8 * r)
    mask = np.uint64((1 << bits) - 1)
    return np.stack(
        [((column >> np.uint64(bits * s)) & mask).astype(np.uint8) for s in range(SLICES)], axis=-2
    )


def key_slices(codes: U8) -> U8:
    """(..., 32 tokens, 16 channels) to (..., 8, 64) with tokens in lanes."""
    lead = codes.shape[:-2]
    a = codes.reshape(*lead, 2, 16, 4, 4)  # token half, lane, channel quad, byte
    return np.moveaxis(a, -2, -3).reshape(*lead, SLICES, ROW_BYTES)


def key_codes(slices: U8) -> U8:
    """Inverse of key_slices."""
    lead = slices.shape[:-2]
    a = slices.reshape(*lead, 2, 4, 16, 4)  # token half, channel quad, lane, byte
    return np.moveaxis(a, -3, -2).reshape(*lead, TILE_TOKENS, TILE_CHANNELS)


def value_slices(codes: U8) -> U8:
    """(..., 32 tokens, 16 channels) to (..., 8, 64) with channels in lanes."""
    lead = codes.shape[:-2]
    a = codes.reshape(*lead, 8, 4, 16)  # token quad, byte, lane
    return np.swapaxes(a, -1, -2).reshape(*lead, SLICES, ROW_BYTES)


def value_codes(slices: U8) -> U8:
    """Inverse of value_slices."""
    lead = slices.shape[:-2]
    a = slices.reshape(*lead, 8, 16, 4)  # token quad, lane, byte
    return np.swapaxes(a, -1, -2).reshape(*lead, TILE_TOKENS, TILE_CHANNELS)


def tile_bytes(widths: npt.ArrayLike) -> int:
    """Bytes of 32 tokens whose 16-channel groups have these bit widths (0: the second half of a pair code)."""
    return int(np.sum(np.asarray(widths, np.int64))) * ROW_BYTES


def _groups(widths: U8) -> list[tuple[int, int, slice]]:
    """(group, bits, byte range within a tile row-block) of each 16-channel group that has rows."""
    out, start = [], 0
    for group, bits in enumerate(int(b) for b in widths):
        if bits:
            out.append((group, bits, slice(start, start + bits * ROW_BYTES)))
        start += bits * ROW_BYTES
    return out


def pack_stream(codes: U8, widths: U8, keys: bool) -> U8:
    """(n_tokens, head_dim) codes, n_tokens a multiple of 32, to one head's packed code stream.

    Pairs are joined already (pairs.join_pairs): channels of a group without rows are not looked at. Raises ShapeError for another number of tokens or channels, ValueRangeError for a code that its width cannot hold.
    """
    shape = f"(a multiple of {TILE_TOKENS}, {TILE_CHANNELS * len(widths)})"
    ok = codes.ndim == 2 and len(codes) % TILE_TOKENS == 0 and codes.shape[1] == TILE_CHANNELS * len(widths)
    check(ok, "codes", f"shape {shape}", codes.shape)
    tiles = codes.reshape(-1, TILE_TOKENS, codes.shape[-1])
    out = np.empty((tiles.shape[0], tile_bytes(widths)), np.uint8)
    for group, bits, where in _groups(widths):
        cell = tiles[:, :, group * TILE_CHANNELS : (group + 1) * TILE_CHANNELS]
        largest = int(cell.max(initial=0))
        check(
            largest < 1 << bits,
            "codes",
            f"below {1 << bits} in channel group {group}",
            largest,
            ValueRangeError,
        )
        slices = key_slices(cell) if keys else value_slices(cell)
        out[:, where] = pack_slices(slices, bits).reshape(tiles.shape[0], bits * ROW_BYTES)
    return out.reshape(-1)


def unpack_stream(stream: U8, widths: U8, keys: bool) -> U8:
    """Inverse of pack_stream; 0 in groups without rows (see pairs.split_pairs)."""
    tiles = stream.reshape(-1, tile_bytes(widths))
    out = np.zeros((tiles.shape[0], TILE_TOKENS, TILE_CHANNELS * len(widths)), np.uint8)
    for group, bits, where in _groups(widths):
        slices = unpack_slices(tiles[:, where].reshape(-1, bits, ROW_BYTES), bits)
        cell = key_codes(slices) if keys else value_codes(slices)
        out[:, :, group * TILE_CHANNELS : (group + 1) * TILE_CHANNELS] = cell
    return out.reshape(-1, out.shape[-1])
