"""Arms by name: their configuration is plain data, and a wrong one is a typed error that names the option."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tq_core.codecs.arms import Arm, arm_names, get_arm
from tq_core.codecs.fp16 import HalfKeys, HalfValues
from tq_core.codecs.kivi import KiviKeys
from tq_core.codecs.registry import Registry
from tq_core.codecs.turboquant import TurboKeys, TurboValues
from tq_core.errors import CodecError, TqError


def test_names_and_defaults() -> None:
    assert arm_names()[0] == "fp16" and {"structured-turbo", "kivi-control"} < set(arm_names())
    arm = get_arm("structured-turbo")
    assert (arm.key_codec.bits, arm.value_codec.bits, arm.window, arm.sinks) == (3.5, 3.0, 128, 0)  # type: ignore[attr-defined]
    assert (arm.key_codec.norm, arm.value_codec.norm) == ("matched", "min_mse")  # type: ignore[attr-defined]
    assert get_arm("fp16").window is None
    assert get_arm("kivi-control").flush_tokens == 32


def test_description_is_json_and_names_the_effective_configuration() -> None:
    described = get_arm("structured-turbo", key_bits=3, value_bits=2.5, window=7, sinks=2, seed=11).describe()
    assert json.loads(json.dumps(described)) == described
    assert described["keys"] == {
        "codec": "structured-turboquant", "bits": 3.0, "seed": 11, "norm": "matched", "arithmetic": "exact",
    }  # fmt: skip
    assert (described["values"]["bits"], described["values"]["seed"]) == (2.5, 12)
    assert (described["window"], described["sinks"], described["flush_tokens"]) == (7, 2, 1)


@pytest.mark.parametrize(
    "option, value",
    [("key_bits", 3), ("value_bits", 4), ("window", 5), ("sinks", 1), ("seed", 2), ("key_norm", "paper")]
    + [("value_norm", "unbiased"), ("arithmetic", "f32"), ("key_centre", "page")],
)
def test_every_option_changes_the_digest(option: str, value: Any) -> None:
    assert get_arm("structured-turbo", **{option: value}).digest != get_arm("structured-turbo").digest


def test_equal_configurations_have_equal_digests() -> None:
    """3 and 3.0 are one rate, and the digest is frozen: stored pages carry it."""
    assert get_arm("structured-turbo", key_bits=3).digest == get_arm("structured-turbo", key_bits=3.0).digest
    assert len({get_arm(name).digest for name in arm_names()}) == len(arm_names())
    assert (
        get_arm("structured-turbo").digest
        == "07fafe458152c8f4dd482ecf33e6ece8889ea386f2badab7220746b3124fafa8"
    )


@pytest.mark.parametrize(
    "name, options, names",
    [
        ("structured-turbos", {}, "arm"),
        ("", {}, "arm"),
        (None, {}, "arm"),
        (["fp16"], {}, "arm"),
        ("structured-turbo", {"key_bits": 3.25}, "key_bits"),
        ("structured-turbo", {"key_bits": "3"}, "key_bits"),
        ("structured-turbo", {"value_bits": None}, "value_bits"),
        ("structured-turbo", {"value_bits": float("nan")}, "value_bits"),
        ("structured-turbo", {"key_norm": "best"}, "key_norm"),
        ("structured-turbo", {"value_norm": 2}, "value_norm"),
        ("structured-turbo", {"arithmetic": "fastest"}, "arithmetic"),
        ("structured-turbo", {"seed": -1}, "seed"),
        ("structured-turbo", {"seed": 2**64}, "seed"),
        ("structured-turbo", {"seed": "7"}, "seed"),
        ("structured-turbo", {"seed": 1.0}, "seed"),
        ("structured-turbo", {"window": -1}, "window"),
        ("structured-turbo", {"window": 1.5}, "window"),
        ("structured-turbo", {"window": True}, "window"),
        ("structured-turbo", {"window": None}, "window"),  # nothing would ever be compressed
        ("structured-turbo", {"sinks": -1}, "sinks"),
        ("structured-turbo", {"sinks": None}, "sinks"),
        ("structured-turbo", {"bits": 3}, "options"),
        ("kivi-control", {"key_bits": 3.5}, "key_bits"),
        ("kivi-control", {"value_bits": 5}, "value_bits"),
        ("kivi-control", {"seed": 1}, "options"),
        ("kivi-control", {"window": None}, "window"),
        ("fp16", {"window": 4}, "options"),
        ("fp16", {"sinks": "2"}, "sinks"),
    ],
)
def test_bad_arms(name: Any, options: dict[str, Any], names: str) -> None:
    with pytest.raises(TqError, match=rf"^{names}: expected .*, got "):
        get_arm(name, **options)


def test_a_near_name_is_suggested() -> None:
    with pytest.raises(CodecError, match="did you mean 'structured-turbo'"):
        get_arm("structured_turbo")


@pytest.mark.parametrize(
    "build", [lambda: TurboKeys(bits=1), lambda: TurboValues(norm="x"), lambda: KiviKeys(bits=8)]
)
def test_codecs_check_their_own_fields(build: Any) -> None:
    with pytest.raises(CodecError, match="^(bits|norm): expected one of"):
        build()


def test_codecs_that_cannot_share_a_page_are_refused() -> None:
    """float16 rows come in pages of 32 tokens, coded keys in pages of 128."""
    with pytest.raises(CodecError, match="^value_codec: expected pages of 128 tokens"):
        Arm("keys-only", TurboKeys(), HalfValues(), 16, 0)
    assert Arm("mixed", KiviKeys(), TurboValues(), 16, 0).flush_tokens == 32
    assert Arm("paged-halves", HalfKeys(), HalfValues(), 16, 0).window == 16


def test_registry_refuses_collisions_and_late_entries() -> None:
    registry: Registry[int] = Registry("thing")
    registry.register("one", lambda: 1)
    with pytest.raises(CodecError, match="^thing: expected a new name, got 'one'"):
        registry.register("one", lambda: 2)
    registry.freeze()
    with pytest.raises(CodecError, match="frozen"):
        registry.register("two", lambda: 2)
    assert registry.names() == ("one",)
    assert registry.get("one")() == 1
