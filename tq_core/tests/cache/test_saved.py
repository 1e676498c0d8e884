"""A cache that went through a file is the cache that never did: pages, answers, and everything appended later."""

from __future__ import annotations

import os
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from tq_core.cache.identity import CacheIdentity
from tq_core.cache.page import PageFlags, read_header
from tq_core.cache.paged_cache import PagedCache
from tq_core.cache.saved import image_of, load_cache, open_saved, save_cache
from tq_core.cache.saved_format import STORES
from tq_core.cache.saved_store import adopt_pages
from tq_core.cache.saved_write import chunks
from tq_core.codecs.arms import arm_names, get_arm
from tq_core.codecs.base import Pages
from tq_core.errors import CacheFileError, IdentityMismatch, ShapeError, TqError, ValueRangeError
from tq_core.kernels.backend import NumpyBackend, available_backends, get_backend
from tq_core.tests.cache.savings import filled, identity_of
from tq_core.tests.cache.test_lifecycle import pools_are_consistent
from tq_core.tests.cache.worlds import SHAPE, make, tokens

STEPS = {name: get_arm(name).key_codec.tags.head_dim_step for name in arm_names()}
ARMS = (*(name for name, step in STEPS.items() if SHAPE.head_dim % step == 0), "paged-halves")


def logical_pages(cache: PagedCache) -> list[bytes]:
    """Every page in use, in store, layer and token order."""
    return [
        store.pool.page(int(entry)).tobytes()
        for store in cache.stores.values()
        for table in store.tables
        for entry in table
    ]


@pytest.mark.parametrize(
    "n", [0, 12, pytest.param(1, marks=pytest.mark.slow), pytest.param(175, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    "name",
    [n if n in ("fp16", "structured-turbo") else pytest.param(n, marks=pytest.mark.slow) for n in ARMS],
)
def test_continues_bit_for_bit(name: str, n: int, tmp_path: Path) -> None:
    shape = replace(SHAPE, head_dim=64) if name == "pair-turbo" else SHAPE
    cache, identity, ids = filled(name, n, shape)
    save_cache(tmp_path / "cache", cache, identity, ids)
    before = logical_pages(cache)
    loaded, read = load_cache(tmp_path / "cache", identity, cache.arm, NumpyBackend())
    assert read.tobytes() == ids.tobytes()
    assert logical_pages(loaded) == before == logical_pages(cache)
    assert loaded.length == n
    assert pools_are_consistent(loaded)
    q, k, v = tokens(170, shape, seed=9)
    if n:
        assert loaded.scores(1, q[0]).tobytes() == cache.scores(1, q[0]).tobytes()
    for a, b in ((0, 2), (2, 40), (40, 170)):  # the window slides, pages fill, are given back and open
        for layer in range(SHAPE.n_layers):
            for c in (loaded, cache):
                c.append(layer, k[a : b - 1], v[a : b - 1])
            ours, theirs = (
                c.attend(layer, q[b - 1 : b], k[b - 1 : b], v[b - 1 : b]) for c in (loaded, cache)
            )
            assert ours.tobytes() == theirs.tobytes()
    assert logical_pages(loaded) == logical_pages(cache)
    for layer in range(SHAPE.n_layers):
        for x, y in zip(loaded.decode(layer), cache.decode(layer)):
            assert x.tobytes() == y.tobytes()
    assert pools_are_consistent(loaded)
    loaded.reset()
    assert all(store.pool.in_use == 0 for store in loaded.stores.values())


def test_a_second_save_gives_the_same_bytes(tmp_path: Path) -> None:
    cache, identity, ids = filled("structured-turbo")
    save_cache(tmp_path / "a", cache, identity, ids)
    loaded, read = load_cache(tmp_path / "a", identity, cache.arm, NumpyBackend())
    save_cache(tmp_path / "b", loaded, identity.with_tokens(ids), read)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert b"".join(chunks(open_saved(tmp_path / "a"))) == (tmp_path / "a").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]
    assert (tmp_path / "a").stat().st_mode & 0o077 == 0  # a conversation is its owner's


def test_pages_are_read_where_they_lie_in_the_file(tmp_path: Path) -> None:
    """Scores over the mapped file equal those of the cache in memory, and the mapping cannot be written."""
    cache, identity, ids = filled("structured-turbo")
    save_cache(tmp_path / "cache", cache, identity, ids)
    image = open_saved(tmp_path / "cache")
    packed, store = image.stores[STORES.index("packed")], cache.stores["packed"]
    assert isinstance(packed.pages.base, (np.ndarray, np.memmap))
    assert not packed.pages.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        packed.pages[0, 0] = 1
    assert all(s.pages.ctypes.data % 64 == 0 for s in image.stores)
    q, n, codec = tokens(1)[0][0], store.count(1), cache.arm.key_codec
    mapped, held = np.empty((6, n), np.float32), np.empty((6, n), np.float32)
    codec.scores(
        cache.backend, q, 1.0, Pages(packed.pages.reshape(-1), packed.tables()[1], store.layout), n, mapped, 0
    )
    codec.scores(cache.backend, q, 1.0, store.pages(1), n, held, 0)
    assert mapped.tobytes() == held.tobytes()


def test_every_page_in_the_file_is_sealed_and_open_ones_are_open_again_in_memory(tmp_path: Path) -> None:
    cache, identity, ids = filled("structured-turbo")
    image = image_of(cache, identity, ids)
    assert all(read_header(page).flags & PageFlags.SEALED for store in image.stores for page in store.pages)
    save_cache(tmp_path / "cache", cache, identity, ids)
    loaded, _ = load_cache(tmp_path / "cache", identity, cache.arm, NumpyBackend())
    sealed = [
        bool(read_header(np.frombuffer(p, np.uint8)).flags & PageFlags.SEALED) for p in logical_pages(loaded)
    ]
    assert set(sealed) == {False, True}


@pytest.mark.parametrize("name", [f.name for f in fields(CacheIdentity)])
def test_another_identity_is_refused_by_name(name: str, tmp_path: Path) -> None:
    cache, identity, ids = filled("structured-turbo", 20)
    save_cache(tmp_path / "cache", cache, identity, ids)
    value = getattr(identity, name)
    other = replace(identity, **{name: value + 1 if isinstance(value, int) else value + "0"})
    with pytest.raises(IdentityMismatch) as caught:
        load_cache(tmp_path / "cache", other, cache.arm, NumpyBackend())
    assert [line.split(":")[0] for line in str(caught.value).split("; ")] == [name]


@pytest.mark.parametrize(
    "options",
    [
        {"window": 10},
        {"sinks": 4},
        {"seed": 2},
        {"key_bits": 4},
        {"value_norm": "matched"},
        {"arithmetic": "fast"},
    ],
)
def test_another_arm_than_the_identity_is_refused(options: dict, tmp_path: Path) -> None:
    cache, identity, ids = filled("structured-turbo", 20)
    save_cache(tmp_path / "cache", cache, identity, ids)
    other = get_arm("structured-turbo", **{"window": 9, "sinks": 3, **options})
    with pytest.raises(IdentityMismatch, match="arm_digest: expected "):
        load_cache(tmp_path / "cache", identity, other, NumpyBackend())
    with pytest.raises(IdentityMismatch, match="arm_digest: expected "):
        image_of(cache, identity_of(SHAPE, other), ids)


def test_tokens_must_be_those_that_are_stored(tmp_path: Path) -> None:
    cache, identity, ids = filled("kivi-control", 40)
    with pytest.raises(ShapeError, match=r"^tokens: expected as many as every layer has had: \[40\], got 39"):
        save_cache(tmp_path / "cache", cache, identity, ids[:-1])
    with pytest.raises(IdentityMismatch, match="^context_tokens: expected "):
        save_cache(tmp_path / "cache", cache, identity.with_tokens(ids + 1), ids)
    with pytest.raises(ValueRangeError, match="^tokens: expected ids in"):
        save_cache(tmp_path / "cache", cache, identity, ids - 1)
    cache.append(0, *tokens(1)[1:])
    with pytest.raises(
        ShapeError, match=r"^tokens: expected as many as every layer has had: \[40, 41\], got 40"
    ):
        save_cache(tmp_path / "cache", cache, identity, ids)
    assert os.listdir(tmp_path) == []


def test_the_history_may_be_asked_for(tmp_path: Path) -> None:
    cache, identity, ids = filled("fp16", 40)
    save_cache(tmp_path / "cache", cache, identity, ids)
    load_cache(tmp_path / "cache", identity.with_tokens(ids), cache.arm, NumpyBackend())
    with pytest.raises(IdentityMismatch, match="^context_tokens: expected "):
        load_cache(tmp_path / "cache", identity.with_tokens(ids[:-1]), cache.arm, NumpyBackend())


def test_adopting_into_a_used_store_is_refused() -> None:
    cache = make("fp16")
    cache.append(0, *tokens(3)[1:])
    with pytest.raises(ValueRangeError, match="^store: expected an empty one, got 1 pages"):
        adopt_pages(cache.stores["recent"], np.zeros((0, 64), np.uint8), [], [])


def test_no_file_is_a_typed_error(tmp_path: Path) -> None:
    cache, identity, ids = filled("fp16", 2)
    for path in (tmp_path / "absent", tmp_path):
        with pytest.raises(CacheFileError, match="expected a readable file, got "):
            open_saved(path)
    with pytest.raises(CacheFileError, match="^cache: expected a complete write, got "):
        save_cache(tmp_path / "absent" / "cache", cache, identity, ids)
    with pytest.raises(TqError):
        save_cache(tmp_path, cache, identity, ids)


@pytest.mark.slow  # compiles the kernels of each target
@pytest.mark.kernels
def test_files_of_every_backend_are_equal(tmp_path: Path) -> None:
    """Saved by one backend, continued by another: whole pages, headers and checksums included, are the same bytes."""
    written = {}
    for name in available_backends():
        arm = get_arm("structured-turbo", window=9, sinks=3)
        cache = PagedCache(SHAPE, arm, get_backend(name))
        for layer in range(SHAPE.n_layers):
            cache.append(layer, *tokens(150, seed=layer)[1:])
        save_cache(tmp_path / name, cache, identity_of(SHAPE, arm), np.arange(150))
        written[name] = (tmp_path / name).read_bytes()
    assert "numpy" in written
    assert [name for name, raw in written.items() if raw != written["numpy"]] == []
    if len(written) == 1:
        pytest.skip("not exercised: no backend but numpy here")
