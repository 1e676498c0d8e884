"""Save a cache to one file and continue from it, bit for bit, as if it had never left memory."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tq_core.cache.atomic import Disk, replace_file
from tq_core.cache.identity import CacheIdentity, check_identity, token_array
from tq_core.cache.page import seal
from tq_core.cache.paged_cache import PagedCache
from tq_core.cache.saved_format import STORES, Image, Layer, Store, sequence_length
from tq_core.cache.saved_read import parse
from tq_core.cache.saved_store import adopt_pages, export_layer
from tq_core.cache.saved_write import chunks
from tq_core.cache.store import PageStore
from tq_core.codecs.arms import Arm
from tq_core.errors import CacheFileError, CodecError, ShapeError, check
from tq_core.kernels.backend import Backend
from tq_core.shapes import ModelShape

Tokens = Sequence[int] | npt.NDArray[np.integer]


def image_of(cache: PagedCache, identity: CacheIdentity, tokens: Tokens) -> Image:
    """A copy of the cache's live pages, all sealed, with all tokens so far, those that slid away included.

    ``identity`` is the cache's, with the history open or of these tokens. Raises IdentityMismatch when it describes
    another shape or arm, ShapeError unless every layer has had exactly as many tokens, CodecError for a cache with
    key_centres: the format has no place for them.
    """
    centred = cache.stores["packed"].key_centres is not None
    check(not centred, "cache", "one without key_centres", "a cache with key_centres", CodecError)
    ids = token_array(tokens)
    identity = _checked(identity, cache.shape, cache.arm, ids)
    stores = tuple(_store_image(cache.stores[name], cache.shape) for name in STORES)
    layers = zip(*(store.layers for store in stores))
    ends = {sequence_length(sinks, recent, cache.arm.sinks) for sinks, _, recent in layers}
    expected = f"as many as every layer has had: {sorted(ends)}"
    check(ends == {len(ids)}, "tokens", expected, len(ids), ShapeError)
    return Image(identity, ids, stores)


def save_cache(
    path: str | PathLike[str],
    cache: PagedCache,
    identity: CacheIdentity,
    tokens: Tokens,
    disk: Disk | None = None,
) -> None:
    """Write the cache to ``path`` as a whole; whatever fails, the file's former content stays.

    Raises as ``image_of``, and CacheFileError when the disk refuses.
    """
    image = image_of(cache, identity, tokens)
    target = Path(path)
    try:
        replace_file(target, chunks(image), disk)
    except OSError as error:
        raise CacheFileError(f"{target.name}: expected a complete write, got {error}") from error


def open_saved(path: str | PathLike[str]) -> Image:
    """Map a saved cache into memory, read-only, and verify all of it, page checksums included, before returning.

    The pages stay in the file until they are read. Writers replace files by renaming, so a mapping keeps seeing the file
    it opened. Raises as ``saved_read.parse``, and CacheFileError when there is no such file.
    """
    target = Path(path)
    try:
        empty = target.stat().st_size == 0
        data = np.zeros(0, np.uint8) if empty else np.memmap(target, np.uint8, mode="r")
    except OSError as error:
        raise CacheFileError(f"{target.name}: expected a readable file, got {error}") from error
    return parse(np.asarray(data))


def load_cache(
    path: str | PathLike[str], expected: CacheIdentity, arm: Arm, backend: Backend | None = None
) -> tuple[PagedCache, npt.NDArray[np.int32]]:
    """The saved cache, ready to be appended to, and its token ids (n_tokens,).

    ``expected`` must agree in every field; with the history left open any tokens are accepted, and the caller compares
    them (``prefix.match_prefix``). Raises IdentityMismatch naming the fields, and as ``open_saved``.
    """
    image = open_saved(path)
    return cache_of(image, expected, arm, backend), image.tokens


def cache_of(image: Image, expected: CacheIdentity, arm: Arm, backend: Backend | None = None) -> PagedCache:
    """A cache with the image's contents, in memory of its own. Raises as ``load_cache``."""
    check_identity(expected, image.identity)
    shape = ModelShape(expected.n_layers, expected.n_query_heads, expected.n_kv_heads, expected.head_dim)
    _checked(image.identity, shape, arm, image.tokens)
    cache = PagedCache(shape, arm, backend)
    for name, store in zip(STORES, image.stores):
        layout = cache.stores[name].layout
        got = (store.page_bytes, store.page_tokens)
        wanted = (layout.page_bytes, layout.page_tokens)
        check(got == wanted, f"{name} pages", f"(bytes, tokens) {wanted}", got, CacheFileError)
    for name, store in zip(STORES, image.stores):
        states = [(s.first, s.end, s.dropped, s.position, s.valid) for s in store.layers]
        adopt_pages(cache.stores[name], store.pages, store.tables(), states)
    return cache


def _checked(
    identity: CacheIdentity, shape: ModelShape, arm: Arm, tokens: npt.NDArray[np.int32]
) -> CacheIdentity:
    """The identity with these tokens, once it is known to describe this shape and arm."""
    real = identity.with_tokens(tokens)
    check_identity(identity, real)
    facts = {name: getattr(shape, name) for name in ("n_layers", "n_query_heads", "n_kv_heads", "head_dim")}
    facts |= {"sinks": arm.sinks, "flush_tokens": arm.flush_tokens, "arm_digest": arm.digest}
    check_identity(CacheIdentity(**{**vars(real), **facts}), real)
    return real


def _store_image(store: PageStore, shape: ModelShape) -> Store:
    layers, pages = [], []
    for layer in range(shape.n_layers):
        table, state = export_layer(store, layer)
        layers.append(Layer(len(table), *state))
        pages += [store.pool.page(int(index)).copy() for index in table]
    for page in pages:
        seal(page)
    size = store.layout.page_bytes
    stacked = np.stack(pages) if pages else np.zeros((0, size), np.uint8)
    return Store(size, store.layout.page_tokens, tuple(layers), stacked)
