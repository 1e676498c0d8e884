"""The bytes of a saved cache to its image, believing nothing: every length is compared before it is used.

Checksums find damage, not forgery: whoever can write the file can also make a valid one.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_core.cache.identity import TOKEN_DTYPE, CacheIdentity, token_digest
from tq_core.cache.page import PageFlags, verify_page
from tq_core.cache.saved_format import (
    BYTE_ORDER,
    ENTRY,
    LAYER,
    MAGIC,
    MAX_IDENTITY,
    PAGE_ALIGN,
    PART_ALIGN,
    STORE,
    STORES,
    SUPER,
    VERSION,
    Image,
    Layer,
    Store,
    align,
    sequence_length,
)
from tq_core.cache.saved_window import Window, need
from tq_core.errors import CacheFileError, IdentityMismatch


def parse(data: npt.NDArray[np.uint8]) -> Image:
    """Read and verify a whole file, uint8 (n,): structure, identity, tokens, every page and its checksum.

    The pages are views into ``data``. Raises CacheFileError or PageError with the reason, IdentityMismatch when the
    token ids are not those that the identity names.
    """
    window = Window(data)
    top = _superheader(window)
    identity_at = SUPER.nbytes
    tokens_at = identity_at + align(top["identity_bytes"], PART_ALIGN)
    stores_at = tokens_at + align(top["n_tokens"] * TOKEN_DTYPE.itemsize, PART_ALIGN)
    layers_at = stores_at + len(STORES) * STORE.nbytes
    table_at = layers_at + len(STORES) * top["n_layers"] * LAYER.nbytes
    tables_end = table_at + top["n_pages"] * ENTRY.nbytes
    need(
        top["pages_at"] == align(tables_end, PAGE_ALIGN),
        "pages_at",
        str(align(tables_end, PAGE_ALIGN)),
        top["pages_at"],
    )
    tables = window.take(identity_at, top["pages_at"] - identity_at, "tables")
    real = zlib.crc32(tables.data)
    need(
        real == top["tables_checksum"], "tables checksum", f"{top['tables_checksum']:#010x}", f"{real:#010x}"
    )
    raw = window.take(identity_at, top["identity_bytes"], "identity").tobytes()
    identity = CacheIdentity.from_json(raw, CacheFileError)
    token_bytes = window.take(tokens_at, top["n_tokens"] * TOKEN_DTYPE.itemsize, "tokens")
    tokens = np.frombuffer(token_bytes.tobytes(), TOKEN_DTYPE).astype(np.int32)
    window.padding(identity_at + len(raw), tokens_at, "identity")
    window.padding(tokens_at + token_bytes.size, stores_at, "tokens")
    window.padding(tables_end, top["pages_at"], "tables")
    need(not tokens.size or int(tokens.min()) >= 0, "tokens", "ids of 0 or more", "a negative id")
    need(
        identity.n_layers == top["n_layers"],
        "n_layers",
        f"{identity.n_layers}, as the identity",
        top["n_layers"],
    )
    digest = token_digest(tokens)
    if digest != identity.context_tokens:
        raise IdentityMismatch(
            f"context_tokens: expected {identity.context_tokens}, got tokens of digest {digest}"
        )
    reader = _Stores(window, top, identity, layers_at, table_at)
    stores = tuple(reader.store(i, stores_at + i * STORE.nbytes) for i in range(len(STORES)))
    need(reader.entry == top["n_pages"], "n_pages", f"{reader.entry}, the stores' sum", top["n_pages"])
    need(window.size == reader.end, "file", f"{reader.end} bytes, no trailing ones", window.size)
    for layer, (sinks, packed, recent) in enumerate(zip(*(store.layers for store in stores))):
        _check_sequence(f"layer {layer}", sinks, packed, recent, identity.sinks, tokens.size)
    return Image(identity, tokens, stores)


def _check_sequence(
    layer: str, sinks: Layer, packed: Layer, recent: Layer, n_sinks: int, n_tokens: int
) -> None:
    """The stores follow each other: sinks from 0, then packed and recent tokens without a gap up to the last token.

    Between the sinks and the others tokens may have slid away.
    """
    length = sequence_length(sinks, recent, n_sinks)
    need(length == n_tokens, f"{layer} length", f"{n_tokens} tokens", length)
    need(sinks.start_position == 0, f"{layer} sinks", "tokens from 0", f"from {sinks.start_position}")
    need(sinks.end <= n_sinks, f"{layer} sinks", f"at most {n_sinks}", sinks.end)
    later = [part for part in (packed, recent) if part.live]
    if later:
        start = later[0].start_position
        need(sinks.end == n_sinks, f"{layer} sinks", f"{n_sinks} tokens before the others", sinks.end)
        need(start >= n_sinks, f"{layer} start", f"{n_sinks} or more", start)
        meets = not packed.live or packed.end_position == recent.start_position
        need(meets, f"{layer} packed end", str(recent.start_position), packed.end_position)


def _superheader(window: Window) -> dict[str, Any]:
    raw = window.take(0, SUPER.nbytes, "superheader")
    top = SUPER.unpack(raw.tobytes())
    need(top["magic"] == MAGIC, "magic", repr(MAGIC), repr(top["magic"]))
    foreign = top["byte_order"] == int.from_bytes(BYTE_ORDER.to_bytes(4, "little"), "big")
    got = "those of a big-endian machine" if foreign else f"{top['byte_order']:#010x}"
    need(top["byte_order"] == BYTE_ORDER, "byte order", f"little-endian, {BYTE_ORDER:#010x}", got)
    need(top["version"] == VERSION, "version", str(VERSION), top["version"])
    real = zlib.crc32(raw[: SUPER.field("header_checksum").offset].data)
    need(
        real == top["header_checksum"], "header checksum", f"{top['header_checksum']:#010x}", f"{real:#010x}"
    )
    need(top["reserved"] == 0, "reserved", "0", top["reserved"])
    whole = "a truncated file" if window.size < top["file_bytes"] else "trailing bytes"
    need(window.size == top["file_bytes"], "file", f"{top['file_bytes']} bytes", f"{window.size}: {whole}")
    need(
        0 < top["identity_bytes"] <= MAX_IDENTITY,
        "identity_bytes",
        f"1..{MAX_IDENTITY}",
        top["identity_bytes"],
    )
    return top


class _Stores:
    """Reads the stores one after the other; ``end`` is where the next page must lie."""

    def __init__(
        self, window: Window, top: dict[str, Any], identity: CacheIdentity, layers_at: int, table_at: int
    ) -> None:
        self._window, self._identity, self._n_pages = window, identity, top["n_pages"]
        self._layers_at, self._table_at = layers_at, table_at
        self.end, self.entry = top["pages_at"], 0

    def store(self, index: int, at: int) -> Store:
        """Store ``index``, whose record lies at byte ``at``."""
        window, name = self._window, STORES[index]
        row = STORE.unpack(window.take(at, STORE.nbytes, name))
        size, per, count = row["page_bytes"], row["page_tokens"], row["n_pages"]
        need(row["reserved"] == 0, f"{name} reserved", "0", row["reserved"])
        need(
            size >= PAGE_ALIGN and size % PAGE_ALIGN == 0,
            f"{name} page_bytes",
            f"a multiple of {PAGE_ALIGN}",
            size,
        )
        need(per > 0, f"{name} page_tokens", "1 or more", per)
        need(
            count <= self._n_pages - self.entry,
            f"{name} n_pages",
            f"at most {self._n_pages - self.entry}",
            count,
        )
        need(row["pages_at"] == self.end, f"{name} pages_at", str(self.end), self._where(row["pages_at"]))
        pages = window.take(self.end, count * size, f"{name} pages").reshape(count, size)
        layers, done = [], 0
        for layer in range(self._identity.n_layers):
            start = self._layers_at + (index * self._identity.n_layers + layer) * LAYER.nbytes
            state = Layer(**LAYER.unpack(window.take(start, LAYER.nbytes, f"{name} layer {layer}")))
            label = f"{name} layer {layer}"
            need(state.first <= state.end, f"{label} first", f"at most {state.end}", state.first)
            need(state.first < per or state.end == 0, f"{label} first", f"below {per}", state.first)
            wanted = -(-state.end // per)
            fits = state.n_pages == wanted or state.n_pages == state.live == 0
            need(fits, f"{label} n_pages", str(wanted), state.n_pages)
            written = state.position <= state.valid <= state.start_position
            need(written, f"{label} valid", f"{state.position}..{state.start_position}", state.valid)
            need(done + state.n_pages <= count, f"{label} n_pages", f"at most {count - done}", state.n_pages)
            for i in range(state.n_pages):
                self._page(pages[done + i], f"{label} page {i}", layer, i, state, per)
            done += state.n_pages
            layers.append(state)
        need(done == count, f"{name} n_pages", f"{done}, the layers' sum", count)
        return Store(size, per, tuple(layers), pages)

    def _where(self, offset: int) -> str:
        return f"{offset}: overlapping pages" if offset < self.end else f"{offset}: a gap"

    def _page(
        self, page: npt.NDArray[np.uint8], label: str, layer: int, i: int, state: Layer, per: int
    ) -> None:
        at = self._table_at + self.entry * ENTRY.nbytes
        entry = ENTRY.unpack(self._window.take(at, ENTRY.nbytes, label))
        need(entry["offset"] == self.end, f"{label} offset", str(self.end), self._where(entry["offset"]))
        need(entry["nbytes"] == page.size, f"{label} nbytes", str(page.size), entry["nbytes"])
        header = verify_page(page)
        need(bool(header.flags & PageFlags.SEALED), f"{label} seal", "SEALED", repr(header.flags))
        need(
            entry["checksum"] == header.checksum,
            f"{label} checksum",
            f"{header.checksum:#010x}",
            f"{entry['checksum']:#010x}",
        )
        identity = self._identity
        facts = {
            "layer": layer,
            "index": state.dropped + i,
            "first_position": state.position + i * per,
            "used": min(per, state.end - i * per),
            "page_tokens": per,
            "n_query_heads": identity.n_query_heads,
            "n_kv_heads": identity.n_kv_heads,
            "head_dim": identity.head_dim,
        }
        for name, expected in facts.items():
            need(getattr(header, name) == expected, f"{label} {name}", str(expected), getattr(header, name))
        digest = header.arm_digest.hex()
        need(digest == identity.arm_digest[:16], f"{label} arm", identity.arm_digest[:16], digest)
        self.end += page.size
        self.entry += 1
