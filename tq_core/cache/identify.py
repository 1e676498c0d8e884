"""Fills an identity record from a shape, an arm and the digests of the model that feeds the cache."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

from tq_core.cache.canonical import canonical_json, digest, plain
from tq_core.cache.identity import ANY_TOKENS, NONE, CacheIdentity
from tq_core.cache.page import VERSION as PAGE_VERSION
from tq_core.cache.saved_format import VERSION as FILE_VERSION
from tq_core.codecs.arms import Arm
from tq_core.codecs.base import describe
from tq_core.codecs.fp16 import HalfKeys, HalfValues
from tq_core.kernels.layout import HEAD_ALIGN, HEADER_BYTES, STREAM_ALIGN
from tq_core.math.books import BOOK_VERSION, load_books
from tq_core.math.tiles import ROW_BYTES, SLICES, TILE_CHANNELS, TILE_TOKENS
from tq_core.paths import CPP, ROOT
from tq_core.shapes import ModelShape

_SOURCES = ("math", "kernels", "codecs", "cache")


def identify(
    shape: ModelShape,
    arm: Arm,
    *,
    model_digest: str,
    tokenizer_digest: str,
    chat_template_digest: str,
    positions: str,
    adapter_digest: str = NONE,
) -> CacheIdentity:
    """The identity of caches of this model under this arm, with the history left open."""
    sides = {**_side("key", arm.key_codec, shape), **_side("value", arm.value_codec, shape)}
    return CacheIdentity(
        format_version=f"page {PAGE_VERSION}, file {FILE_VERSION}",
        page_layout=page_layout(shape, arm),
        model_digest=model_digest,
        adapter_digest=adapter_digest,
        positions=positions,
        tokenizer_digest=tokenizer_digest,
        chat_template_digest=chat_template_digest,
        **vars(shape),
        **sides,
        codebook_version=BOOK_VERSION,
        codebook_digest=books_digest(),
        window="all" if arm.window is None else str(arm.window),
        sinks=arm.sinks,
        flush_tokens=arm.flush_tokens,
        arm_digest=arm.digest,
        context_tokens=ANY_TOKENS,
        runtime_build=runtime_build(),
    )


def _side(side: str, codec: Any, shape: ModelShape) -> dict[str, Any]:
    """One codec's fields; what has no field of its own goes into ``options``, so that nothing is left out."""
    told = describe(codec)
    bits = told.pop("bits", codec.nominal_bits(shape.head_dim))
    facts = plain(told)
    rotated = "seed" in facts
    out = {
        "codec": facts.pop("codec"),
        "rotation": facts.pop("rotation", "signs, then Hadamard" if rotated else NONE),
        "rotation_rounds": facts.pop("rounds", int(rotated)),
        "rotation_seed": str(facts.pop("seed", NONE)),
        "bits": f"{bits:g}: {round(codec.nominal_bits(shape.head_dim) * shape.head_dim)}",
        "scale": facts.pop("norm", NONE),
        "centring": str(facts.pop("centre", NONE)),
        "outliers": str(facts.pop("outliers", NONE)),
        "arithmetic": facts.pop("arithmetic", "f32"),
        "options": canonical_json(facts).decode(),
    }
    return {f"{side}_{name}": value for name, value in out.items()}


def page_layout(shape: ModelShape, arm: Arm) -> str:
    """Canonical JSON of where bytes lie: alignment, tiles, and the streams of packed and half pages."""
    halves, d = (HalfKeys(), HalfValues()), shape.head_dim
    facts = {
        "header": HEADER_BYTES,
        "align": [STREAM_ALIGN, HEAD_ALIGN],
        "tile": [TILE_TOKENS, TILE_CHANNELS, SLICES, ROW_BYTES],
        "packed": [arm.key_codec.page_tokens, arm.key_codec.streams(d) + arm.value_codec.streams(d)],
        "half": [halves[0].page_tokens, halves[0].streams(d) + halves[1].streams(d)],
    }
    return canonical_json(plain(facts)).decode()


def books_digest() -> str:
    """Digest of the frozen books' arrays."""
    books = load_books()
    return digest(plain({"levels": books.levels, "scale": books.scale, "boundaries": books.boundaries}))


@lru_cache(maxsize=1)
def runtime_build() -> str:
    """Digest of every source file that decides a stored byte: formulas, kernels, codecs and cache.

    It moves with comments too: at worst a cache is computed again. Any backend gives the same bytes, so the machine
    and the instruction set are no part of it.
    """
    folders = [ROOT / "tq_core" / name for name in _SOURCES]
    files = [path for folder in folders for path in folder.rglob("*") if path.suffix in (".py", ".json")]
    files += CPP.rglob("*.h")
    total = hashlib.sha256()
    for path in sorted(files, key=lambda p: p.relative_to(ROOT).as_posix()):
        entry = {
            "path": path.relative_to(ROOT).as_posix(),
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        total.update(canonical_json(entry) + b"\n")
    return total.hexdigest()
