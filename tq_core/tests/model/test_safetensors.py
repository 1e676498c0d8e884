"""Reading safetensors: the values, and refusal of files that are damaged or tampered with."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tq_core.errors import ModelFileError
from tq_core.model.safetensors_file import SafetensorsFile
from tq_core.model.safetensors_header import MAX_HEADER_BYTES, scan_tensors
from tq_core.tests.model.families import FAMILIES

TYPES = {"F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16}


def packed(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(dtype: Any = "F32", shape: Any = (2, 3), offsets: Any = (0, 24)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def read(tmp_path: Path, data: bytes) -> SafetensorsFile:
    path = tmp_path / "weights.safetensors"
    path.write_bytes(data)
    return SafetensorsFile.read(path)


@pytest.mark.parametrize("dtype", TYPES)
def test_values_come_back_in_float32(tmp_path: Path, dtype: str) -> None:
    values = np.random.default_rng(1).standard_normal((5, 7)).astype(TYPES[dtype])
    values[0, :3] = [0.0, -0.0, 1e-7]
    header = {
        "__metadata__": {"format": "pt"},
        "w": entry(dtype, (5, 7), (0, values.nbytes)),
        "e": entry(dtype, (0, 4), (0, 0)),
    }
    file = read(tmp_path, packed(header, values.tobytes()))
    got = file.tensor("w")
    assert got.dtype == np.float32 and got.tobytes() == values.astype(np.float32).tobytes()
    assert file.tensor("e").shape == (0, 4)


def test_a_padded_header_of_the_library_is_read() -> None:
    file = SafetensorsFile.read(FAMILIES / "qwen2" / "model-00001-of-00003.safetensors")
    assert [tensor.dtype for tensor in file.tensors.values()] == ["BF16"] * len(file.tensors)
    assert file.tensors["model.layers.0.self_attn.k_proj.bias"].shape == (16,)


HUGE = [1 << 32] * 8
BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "header length"),
    "short": (b"\x01\0\0", "header length"),
    "length beyond the file": (packed({}, length=1 << 20), "header length"),
    "largest length": (packed({}, length=(1 << 64) - 1), "header length"),
    "no JSON": (packed(b"{nonsense"), "expected JSON"),
    "no UTF-8": (packed(b'{"\xff": 1}'), "expected JSON"),
    "deep JSON": (packed(b"[" * 100_000), "expected JSON"),
    "a list": (packed([1]), "JSON object"),
    "no tensors": (packed({"__metadata__": {}}), "tensors"),
    "metadata": (packed({"__metadata__": {"a": 1}, "w": entry()}, bytes(24)), "__metadata__"),
    "a name twice": (
        packed(b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"w":{}}', bytes(4)),
        "a name twice",
    ),
    "a field twice": (
        packed(b'{"w":{"dtype":"F32","dtype":"F16","shape":[1],"data_offsets":[0,4]}}', bytes(4)),
        "a name twice",
    ),
    "no object": (packed({"w": 5}), "w: expected dtype"),
    "one field more": (packed({"w": entry() | {"x": 1}}, bytes(24)), "w: expected dtype"),
    "unknown type": (packed({"w": entry("F99")}, bytes(24)), "dtype of w"),
    "type is a list": (packed({"w": entry([])}, bytes(24)), "dtype of w"),
    "negative extent": (packed({"w": entry(shape=(-2, -3))}, bytes(24)), "shape of w"),
    "extent is a flag": (packed({"w": entry(shape=(True, 6))}, bytes(24)), "shape of w"),
    "extent is no integer": (packed({"w": entry(shape=(2.0, 3))}, bytes(24)), "shape of w"),
    "huge shape": (packed({"w": entry(shape=HUGE)}, bytes(24)), "data_offsets of w"),
    "many dimensions": (packed({"w": entry(shape=[1] * 9)}, bytes(24)), "shape of w"),
    "three offsets": (packed({"w": entry(offsets=(0, 1, 24))}, bytes(24)), "data_offsets of w"),
    "backwards": (packed({"w": entry(offsets=(24, 0))}, bytes(24)), "data_offsets of w"),
    "negative offset": (packed({"w": entry(offsets=(-24, 0))}, bytes(24)), "data_offsets of w"),
    "infinite offset": (packed(b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,Infinity]}}'), "data_offsets of w"),
    "other size": (packed({"w": entry(offsets=(0, 20))}, bytes(20)), "data_offsets of w"),
    "a gap": (packed({"w": entry(offsets=(8, 32))}, bytes(32)), "data_offsets of w"),
    "an overlap": (
        packed({"v": entry(), "w": entry(offsets=(12, 36))}, bytes(36)),
        "data_offsets of w: expected a start at 24",
    ),
    "the same bytes": (packed({"v": entry(), "w": entry()}, bytes(24)), "data_offsets of w"),
    "truncated": (packed({"w": entry()}, bytes(23)), "size of weights"),
    "bytes behind": (packed({"w": entry()}, bytes(25)), "size of weights"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_headers_name_the_field(tmp_path: Path, case: str) -> None:
    data, field = BAD[case]
    with pytest.raises(ModelFileError, match=field) as caught:
        read(tmp_path, data)
    assert "expected" in str(caught.value) and "got" in str(caught.value) and len(str(caught.value)) < 500


def test_a_header_is_not_read_beyond_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "large.safetensors"
    with path.open("wb") as file:
        file.write(struct.pack("<Q", MAX_HEADER_BYTES + 1))
        file.truncate(1 << 30)  # a hole, no bytes on disk
    with pytest.raises(ModelFileError, match="header length"):
        SafetensorsFile.read(path)


def test_types_without_a_float32_form_and_weights_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    for dtype, size in (("F64", 8), ("I8", 1), ("F8_E4M3", 1)):
        file = read(tmp_path, packed({"w": entry(dtype, (4,), (0, 4 * size))}, bytes(4 * size)))
        with pytest.raises(ModelFileError, match="type of w"):
            file.tensor("w")
    for bad in (np.inf, np.nan):
        file = read(tmp_path, packed({"w": entry()}, np.full(6, bad, np.float32).tobytes()))
        with pytest.raises(ModelFileError, match="data of w"):
            file.tensor("w")


@pytest.mark.parametrize("change", ["content", "shorter", "gone"])
def test_a_file_that_changed_since_it_was_checked_is_refused(tmp_path: Path, change: str) -> None:
    file = read(tmp_path, packed({"w": entry()}, bytes(24)))
    if change == "gone":
        file.path.unlink()
    elif change == "shorter":
        os.truncate(file.path, file.path.stat().st_size - 8)
    else:
        file.path.write_bytes(packed({"w": entry()}, bytes(24)))
        os.utime(file.path, ns=(1, 1))
    with pytest.raises(ModelFileError, match="weights.safetensors"):
        file.tensor("w")


WHOLE = (FAMILIES / "qwen3" / "model.safetensors").read_bytes()
HEADER_BYTES = struct.unpack("<Q", WHOLE[:8])[0]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_flipped_bytes_of_a_header_give_tensors_inside_the_file_or_a_typed_error(data: st.DataObject) -> None:
    header = bytearray(WHOLE[8 : 8 + HEADER_BYTES])
    for _ in range(data.draw(st.integers(1, 4))):
        header[data.draw(st.integers(0, len(header) - 1))] = data.draw(
            st.one_of(st.integers(0, 255), st.sampled_from(list(b'0123456789-[]{}",:e')))
        )
    scan(bytes(header), len(WHOLE))


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
@example(b"{}")
def test_any_header_gives_tensors_inside_the_file_or_a_typed_error(header: bytes) -> None:
    scan(header, 8 + len(header) + 100)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(["dtype", "shape", "data_offsets", "x"]), JSON))
def test_any_entry_gives_tensors_inside_the_file_or_a_typed_error(fields: dict[str, Any]) -> None:
    scan(json.dumps({"w": entry() | fields}).encode(), 1000)


def scan(header: bytes, file_bytes: int) -> None:
    try:
        tensors = scan_tensors(header, file_bytes, "fuzzed")
    except ModelFileError:
        return
    end = 8 + len(header)
    for tensor in tensors.values():
        assert tensor.start == end
        end += tensor.n_bytes
    assert end == file_bytes


CUTS: list[Callable[[int], int]] = [
    lambda n: 8 + HEADER_BYTES,
    lambda n: n - 1,
    lambda n: n // 2,
    lambda n: 100,
]


@pytest.mark.parametrize("cut", CUTS)
def test_every_truncation_is_refused(tmp_path: Path, cut: Callable[[int], int]) -> None:
    with pytest.raises(ModelFileError):
        read(tmp_path, WHOLE[: cut(len(WHOLE))])
