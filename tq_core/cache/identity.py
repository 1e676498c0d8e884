"""The identity record: everything that must agree before stored keys and values may be used again.

Two caches of the same shape and size can still be noise to each other: other weights, another rotation, another
book. So reuse asks for equality of every field, and a refusal names the ones that differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any

import numpy as np

from tq_core.cache.canonical import array_digest, canonical_json, digest, parse_canonical
from tq_core.errors import DTypeError, IdentityMismatch, TqError, ValueRangeError, check

NONE = "none"
ANY_TOKENS = "any"  # context_tokens of an expectation that leaves the history open
TOKEN_DTYPE = np.dtype("<i4")


def _said(meaning: str, study: int = 0) -> Any:
    """A field with its meaning; ``study`` is the number of the design study's identity field that it spells out."""
    return field(metadata={"meaning": meaning, "study": study})


@dataclass(frozen=True)
class CacheIdentity:
    """What a stored cache was made with. Integers are plain; everything else is text.

    Raises DTypeError or ValueRangeError for a field of another type, empty text, or a negative integer.
    """

    format_version: str = _said("versions of page and file format", 1)
    page_layout: str = _said("header, alignment, tiles and streams of a packed and of a half page", 1)
    model_digest: str = _said("SHA-256 of the weights' file", 2)
    adapter_digest: str = _said('SHA-256 of an adapter on the weights, or "none"', 2)
    positions: str = _said("rotary embedding: pairing, base, scaling; sliding windows per layer", 2)
    tokenizer_digest: str = _said("digest of vocabulary, merges and special tokens", 3)
    chat_template_digest: str = _said("digest of how a conversation becomes tokens", 4)
    n_layers: int = _said("layers", 5)
    n_query_heads: int = _said("query heads of a layer", 5)
    n_kv_heads: int = _said("KV heads of a layer", 5)
    head_dim: int = _said("channels of a head", 5)
    key_codec: str = _said("registry name of the key codec", 6)
    value_codec: str = _said("registry name of the value codec", 6)
    key_rotation: str = _said("kind of transform before the key codes", 6)
    value_rotation: str = _said("kind of transform before the value codes", 6)
    key_rotation_rounds: int = _said("sign-and-Hadamard rounds of the keys", 6)
    value_rotation_rounds: int = _said("sign-and-Hadamard rounds of the values", 6)
    key_rotation_seed: str = _said("seed of the keys' signs, in decimal", 6)
    value_rotation_seed: str = _said("seed of the values' signs, in decimal", 6)
    codebook_version: str = _said("name of the frozen books", 7)
    codebook_digest: str = _said("SHA-256 of levels, scales and boundaries", 7)
    key_bits: str = _said("nominal rate and code bits of a key vector", 8)
    value_bits: str = _said("nominal rate and code bits of a value vector", 8)
    key_outliers: str = _said("outlier policy of the keys", 9)
    value_outliers: str = _said("outlier policy of the values", 9)
    window: str = _said('newest tokens kept in float16, or "all"', 10)
    sinks: int = _said("first tokens kept in float16", 10)
    flush_tokens: int = _said("tokens that leave the window together", 10)
    key_scale: str = _said("rule of a key's stored scale")
    value_scale: str = _said("rule of a value's stored scale")
    key_centring: str = _said("digest of the vector subtracted from keys")
    value_centring: str = _said("digest of the vector subtracted from values")
    key_arithmetic: str = _said("arithmetic of the scores")
    value_arithmetic: str = _said("arithmetic of the sums")
    key_options: str = _said("every other field of the key codec, canonical JSON")
    value_options: str = _said("every other field of the value codec, canonical JSON")
    arm_digest: str = _said("SHA-256 of the arm's whole configuration")
    context_tokens: str = _said("digest of the token ids whose keys and values are stored", 11)
    runtime_build: str = _said("digest of the sources that decide stored bytes", 12)

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if f.type == "int":
                whole = isinstance(value, int) and not isinstance(value, bool)
                check(whole, f.name, "an int", repr(value), DTypeError)
                check(0 <= value < 2**53, f.name, "0 or more", value, ValueRangeError)
            else:
                check(isinstance(value, str), f.name, "text", repr(value), DTypeError)
                check(value != "", f.name, "text, not empty", repr(value), ValueRangeError)
        canonical_json(dict(vars(self)))  # refuses text that has no UTF-8 form

    def to_json(self) -> bytes:
        """Canonical JSON of all fields."""
        return canonical_json(dict(vars(self)))

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON, in hex."""
        return digest(dict(vars(self)))

    @classmethod
    def from_json(cls, raw: bytes, error: type[TqError]) -> CacheIdentity:
        """Parse ``to_json``'s bytes. Raises ``error`` for any other bytes and for missing or unknown fields."""
        value = parse_canonical(raw, "identity", error)
        names = {f.name for f in fields(cls)}
        check(isinstance(value, dict), "identity", "a JSON object", type(value).__name__, error)
        got = f"without {sorted(names - set(value))}, with {sorted(set(value) - names)}"
        check(set(value) == names, "identity", "exactly the known fields", got, error)
        try:
            return cls(**value)
        except (DTypeError, ValueRangeError) as cause:
            raise error(f"identity {cause}") from cause

    def with_tokens(self, tokens: Sequence[int] | np.ndarray | None) -> CacheIdentity:
        """The identity of a cache that holds exactly these tokens; None leaves the history open."""
        return replace(self, context_tokens=ANY_TOKENS if tokens is None else token_digest(tokens))


def identity_fields() -> tuple[Field[Any], ...]:
    """The record's fields, with ``metadata["meaning"]`` and ``metadata["study"]``."""
    return fields(CacheIdentity)


def token_array(tokens: Sequence[int] | np.ndarray) -> np.ndarray:
    """Token ids as int32 (n_tokens,). Raises DTypeError or ValueRangeError for what is not a row of ids 0..2^31-1."""
    array = np.asarray(tokens)
    ok = array.ndim == 1 and (array.dtype.kind in "iu" or array.size == 0)
    check(ok, "tokens", "one row of integers", f"{array.dtype} {array.shape}", DTypeError)
    in_range = array.size == 0 or (int(array.min()) >= 0 and int(array.max()) < 2**31)
    check(in_range, "tokens", "ids in 0..2^31-1", "another id", ValueRangeError)
    return array.astype(TOKEN_DTYPE)


def token_digest(tokens: Sequence[int] | np.ndarray) -> str:
    """SHA-256 of the token ids as little-endian int32."""
    return array_digest(token_array(tokens))


def explain_mismatch(expected: CacheIdentity, got: CacheIdentity) -> list[str]:
    """One line per field that differs: its name, what was expected and what came. ANY_TOKENS matches every history."""
    lines = []
    for f in fields(CacheIdentity):
        want, have = getattr(expected, f.name), getattr(got, f.name)
        open_history = f.name == "context_tokens" and want == ANY_TOKENS
        if want != have and not open_history:
            lines.append(f"{f.name}: expected {want}, got {have}")
    return lines


def check_identity(expected: CacheIdentity, got: CacheIdentity) -> None:
    """Raise IdentityMismatch naming every field that differs."""
    lines = explain_mismatch(expected, got)
    if lines:
        raise IdentityMismatch("; ".join(lines))
