"""The identity covers every field, says the same thing in one spelling, and names what differs."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from tq_core.cache import identify as identify_module
from tq_core.cache.canonical import array_digest, canonical_json, digest, parse_canonical, plain
from tq_core.cache.identify import identify, runtime_build
from tq_core.cache.identity import (
    ANY_TOKENS,
    CacheIdentity,
    check_identity,
    explain_mismatch,
    identity_fields,
    token_digest,
)
from tq_core.codecs.arms import get_arm
from tq_core.errors import CacheFileError, DTypeError, IdentityMismatch, ValueRangeError
from tq_core.shapes import ModelShape
from tq_core.tests.cache.savings import DIGESTS, identity_of
from tq_core.tests.cache.worlds import SHAPE

BASE = identity_of(SHAPE, get_arm("structured-turbo", window=9, sinks=3)).with_tokens([1, 2, 3])
NAMES = [f.name for f in fields(CacheIdentity)]


def other(name: str) -> CacheIdentity:
    value = getattr(BASE, name)
    return replace(BASE, **{name: value + 1 if isinstance(value, int) else value + "x"})


@pytest.mark.parametrize("name", NAMES)
def test_every_field_is_compared_named_and_in_the_digest(name: str) -> None:
    changed = other(name)
    assert explain_mismatch(BASE, changed) == [
        f"{name}: expected {getattr(BASE, name)}, got {getattr(changed, name)}"
    ]
    with pytest.raises(IdentityMismatch, match=f"^{name}: expected "):
        check_identity(BASE, changed)
    assert changed.digest != BASE.digest
    assert CacheIdentity.from_json(changed.to_json(), CacheFileError) == changed


def test_several_differences_are_all_named() -> None:
    changed = replace(BASE, sinks=4, model_digest="ff" * 32)
    with pytest.raises(IdentityMismatch, match=r"^model_digest: .*; sinks: expected 3, got 4$"):
        check_identity(BASE, changed)
    check_identity(BASE, replace(BASE))


def test_the_studys_twelve_fields_are_all_there() -> None:
    assert {f.metadata["study"] for f in identity_fields()} - {0} == set(range(1, 13))
    assert all(f.metadata["meaning"] for f in identity_fields())
    assert len(NAMES) >= 30


@pytest.mark.parametrize(
    "change, names",
    [
        ({"seed": 5}, {"key_rotation_seed", "value_rotation_seed"}),
        ({"key_bits": 4}, {"key_bits", "page_layout"}),
        ({"value_bits": 2}, {"value_bits", "page_layout"}),
        ({"key_norm": "unbiased"}, {"key_scale"}),
        ({"value_norm": "paper"}, {"value_scale"}),
        ({"arithmetic": "fast"}, {"key_arithmetic", "value_arithmetic"}),
        ({"window": 10}, {"window"}),
        ({"sinks": 0}, {"sinks"}),
    ],
)
def test_every_option_of_the_arm_shows_in_its_field(change: dict[str, Any], names: set[str]) -> None:
    arm = get_arm("structured-turbo", **{"window": 9, "sinks": 3, **change})
    lines = explain_mismatch(BASE.with_tokens(None), identity_of(SHAPE, arm))
    assert {line.split(":")[0] for line in lines} == names | {"arm_digest"}


@pytest.mark.parametrize("name", [*DIGESTS, "adapter_digest"])
def test_every_fact_of_the_model_shows_in_its_field(name: str) -> None:
    arm = get_arm("structured-turbo", window=9, sinks=3)
    changed = identify(SHAPE, arm, **{**DIGESTS, name: "44" * 32})
    assert [line.split(":")[0] for line in explain_mismatch(BASE.with_tokens(None), changed)] == [name]


@pytest.mark.parametrize("name", ["n_layers", "n_query_heads", "n_kv_heads", "head_dim"])
def test_every_number_of_the_shape_shows_in_its_field(name: str) -> None:
    sizes = {"n_layers": 3, "n_query_heads": 8, "n_kv_heads": 3, "head_dim": 64}
    shape = ModelShape(**{**vars(SHAPE), name: sizes[name]})
    arm = get_arm("structured-turbo", window=9, sinks=3)
    lines = [line.split(":")[0] for line in explain_mismatch(BASE.with_tokens(None), identity_of(shape, arm))]
    assert name in lines
    assert set(lines) <= {name, "page_layout", "key_bits", "value_bits"}


def test_the_books_and_the_sources_are_in_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    real = identify_module.load_books()
    levels = real.levels.copy()
    levels[0, 0] ^= 1
    monkeypatch.setattr(identify_module, "load_books", lambda: replace(real, levels=levels))
    arm = get_arm("structured-turbo", window=9, sinks=3)
    lines = explain_mismatch(BASE.with_tokens(None), identity_of(SHAPE, arm))
    assert [line.split(":")[0] for line in lines] == ["codebook_digest"]
    for folder in ("tq_core/math", "cpp"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.setattr(identify_module, "ROOT", tmp_path)
    monkeypatch.setattr(identify_module, "CPP", tmp_path / "cpp")
    seen = set()
    for name, text in (
        ("tq_core/math/a.py", "1"),
        ("tq_core/math/a.py", "2"),
        ("cpp/a.h", "1"),
        ("cpp/b.h", "1"),
    ):
        (tmp_path / name).write_text(text)
        runtime_build.cache_clear()
        seen.add(runtime_build())
    runtime_build.cache_clear()
    assert len(seen) == 4


def test_an_open_history_matches_every_history_and_only_as_the_expectation() -> None:
    check_identity(BASE.with_tokens(None), BASE)
    assert BASE.with_tokens(None).context_tokens == ANY_TOKENS
    with pytest.raises(IdentityMismatch, match="^context_tokens"):
        check_identity(BASE, BASE.with_tokens(None))
    assert token_digest([1, 2]) != token_digest([2, 1]) != token_digest([1, 2, 0])
    assert token_digest(np.array([1, 2], np.int64)) == token_digest([1, 2])


@pytest.mark.parametrize(
    "change, error",
    [({"sinks": -1}, ValueRangeError), ({"sinks": 2**53}, ValueRangeError), ({"sinks": True}, DTypeError), ({"sinks": 1.0}, DTypeError),
     ({"window": 9}, DTypeError), ({"window": ""}, ValueRangeError), ({"window": "\ud800"}, ValueRangeError)],
)  # fmt: skip
def test_fields_of_another_kind_are_refused(change: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        replace(BASE, **change)


def test_canonical_json_is_rfc_8785_without_numbers() -> None:
    """The string of RFC 8785, section 3.2.2.2, and its order of names."""
    text = "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"/"
    assert canonical_json({"string": text}) == b'{"string":"\xe2\x82\xac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    assert (
        canonical_json({"b": [1, None, True], "a": {"1": "", "-": 0}})
        == b'{"a":{"-":0,"1":""},"b":[1,null,true]}'
    )
    assert digest({"a": 1}) == digest(json.loads('{ "a" : 1 }'))


@pytest.mark.parametrize("value", [1.0, float("nan"), 2**53, "\ud800", {1: 2}, {"é": 1}, b"x", {"a": [0.5]}])
def test_what_has_two_spellings_is_refused(value: Any) -> None:
    with pytest.raises(ValueRangeError):
        canonical_json(value)


def test_floats_and_arrays_have_a_form_that_keeps_every_bit() -> None:
    assert plain({"a": 0.1, "b": (1, 2**64), "c": np.float32(0.1)}) == {
        "a": "0x1.999999999999ap-4", "b": [1, "18446744073709551616"], "c": "0x1.99999a0000000p-4",
    }  # fmt: skip
    x = np.arange(6, dtype=np.float32)
    assert plain(x) == f"<f4[6] sha256 {array_digest(x)}"
    assert array_digest(x) == array_digest(x.astype(">f4"))
    assert len({array_digest(a) for a in (x, x.reshape(2, 3), x.view(np.int32), np.nextafter(x, 9))}) == 4
    with pytest.raises(ValueRangeError, match="got object"):
        plain(object())


@pytest.mark.parametrize(
    "raw",
    [b"", b"\xff", b"{", b'{"a": 1}', b'{"a":1,"a":1}', b'{"b":1,"a":1}', b'{"a":1.0}', b'{"a":NaN}', b'{"a":1e2}',
     b'{"a":"\\u0041"}', b'{"a":9007199254740992}', b"[" * 100_000, b'{"a":' + b"9" * 5000 + b"}", b'{"a":"\\ud800"}'],
)  # fmt: skip
def test_another_spelling_is_refused(raw: bytes) -> None:
    with pytest.raises(CacheFileError, match="^thing: expected canonical JSON, got "):
        parse_canonical(raw, "thing", CacheFileError)


@pytest.mark.parametrize(
    "change", [{"more": 1}, {"sinks": None}, {"sinks": "3"}, {"sinks": -1}, "drop", "list"]
)
def test_a_stored_identity_of_another_form_is_refused(change: Any) -> None:
    value: Any = json.loads(BASE.to_json())
    if change == "drop":
        del value["sinks"]
    elif change == "list":
        value = [value]
    else:
        value |= change
    with pytest.raises(CacheFileError, match="^identity"):
        CacheIdentity.from_json(canonical_json(value), CacheFileError)
