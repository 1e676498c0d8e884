"""Reading GGUF: agreement with the gguf library, and refusal of files that are damaged or tampered with."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import gguf.quants
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tq_core.errors import ModelFileError
from tq_core.model import gguf_file
from tq_core.model.gguf_file import TENSOR_TYPES, GgufFile
from tq_core.model.transformer import DecoderModel
from tq_core.tests.model import synthetic


def build(data: bytes) -> DecoderModel:
    return DecoderModel.from_gguf(GgufFile.from_bytes("test.gguf", data), "test")


def test_scan_agrees_with_the_library(synthetic_path: Path) -> None:
    ours, theirs = GgufFile.read(synthetic_path), gguf.GGUFReader(synthetic_path)
    fields = {key: field.contents() for key, field in theirs.fields.items() if not key.startswith("GGUF.")}
    assert ours.header.metadata == fields
    assert list(ours.header.tensors) == [tensor.name for tensor in theirs.tensors]
    for tensor in theirs.tensors:
        info = ours.header.tensors[tensor.name]
        assert (info.start, info.n_bytes) == (tensor.data_offset, tensor.n_bytes)
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        np.testing.assert_array_equal(ours.tensor(tensor.name), values)


def test_weights_survive_their_formats(synthetic_path: Path) -> None:
    file, weights = GgufFile.read(synthetic_path), synthetic.tensors()
    # Largest step of the format over the random weights: none, about 1/127 and 1/15 of a block's range.
    for name, limit in (
        ("blk.1.attn_q.weight", 0.0),
        ("token_embd.weight", 0.01),
        ("blk.0.ffn_up.weight", 0.1),
    ):
        values = file.tensor(name)
        assert values.dtype == np.float32 and values.shape == weights[name].shape
        assert np.abs(values - weights[name]).max() <= limit


def test_every_truncation_point_is_refused(synthetic_path: Path) -> None:
    data = synthetic_path.read_bytes()
    file = GgufFile.from_bytes("whole", data)
    starts = [info.start for info in file.header.tensors.values()]
    cuts = [
        *range(0, 400),
        *range(400, min(starts), 97),
        *starts,
        *(start + 3 for start in starts),
        len(data) - 33,
    ]
    for cut in cuts:
        with pytest.raises(ModelFileError):
            GgufFile.from_bytes("cut", data[:cut])


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_flipped_bytes_give_a_model_or_a_typed_error(synthetic_path: Path, data: st.DataObject) -> None:
    content = bytearray(synthetic_path.read_bytes())
    header = min(info.start for info in GgufFile.read(synthetic_path).header.tensors.values())
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.one_of(st.integers(0, header - 1), st.integers(0, len(content) - 1)))
        content[position] = data.draw(st.integers(0, 255))
    try:
        build(bytes(content))
    except ModelFileError:
        pass


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300))
@example(b"")
@example(b"GGUF")
def test_arbitrary_bytes_are_refused(tail: bytes) -> None:
    for content in (tail, b"GGUF" + tail, struct.pack("<IIQQ", gguf.GGUF_MAGIC, 3, 1, 1) + tail):
        with pytest.raises(ModelFileError):
            build(content)


def patched(data: bytes, position: int, kind: str, value: int) -> bytes:
    content = bytearray(data)
    struct.pack_into(kind, content, position, value)
    return bytes(content)


def array_count_at(data: bytes, key: bytes) -> int:
    """Position of the element count of a metadata array: after its key, value type and element type."""
    return data.index(key) + len(key) + 8


HUGE = (1 << 64) - 1
TAMPERED: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "magic": (lambda data: b"GGML" + data[4:], "GGUF magic"),
    "version": (lambda data: patched(data, 4, "<I", 9), "GGUF version"),
    "big endian": (lambda data: patched(data, 4, ">I", 3), "GGUF version"),
    "huge tensor count": (lambda data: patched(data, 8, "<Q", HUGE), "tensor count"),
    "huge metadata count": (lambda data: patched(data, 16, "<Q", HUGE), "metadata count"),
    "huge key length": (lambda data: patched(data, 24, "<Q", HUGE), "length of metadata key"),
    "huge string array": (
        lambda data: patched(data, array_count_at(data, b"tokenizer.ggml.tokens"), "<Q", 1 << 60),
        "count of tokenizer.ggml.tokens",
    ),
    "huge number array": (
        lambda data: patched(data, array_count_at(data, b"tokenizer.ggml.token_type"), "<Q", 1 << 60),
        "count of tokenizer.ggml.token_type",
    ),
    "array of arrays": (
        lambda data: patched(data, array_count_at(data, b"tokenizer.ggml.token_type") - 4, "<I", 9),
        "elements of tokenizer.ggml.token_type",
    ),
    "huge tensor shape": (
        lambda data: patched(data, data.index(b"output_norm.weight") + 18 + 4, "<Q", 1 << 31),
        "data of output_norm.weight|shape of output_norm.weight",
    ),
    "tensor offset": (
        lambda data: patched(data, data.index(b"output_norm.weight") + 18 + 16, "<Q", 1 << 40),
        "data of output_norm.weight",
    ),
    "unknown tensor type": (
        lambda data: patched(data, data.index(b"output_norm.weight") + 18 + 12, "<I", 999),
        "type of output_norm.weight",
    ),
    "appended key": (lambda data: patched(data, 16, "<Q", len(synthetic.metadata()) + 2), "."),
}


@pytest.mark.parametrize("case", TAMPERED)
def test_tampered_headers_name_the_field(synthetic_path: Path, case: str) -> None:
    tamper, field = TAMPERED[case]
    with pytest.raises(ModelFileError, match=field) as caught:
        build(tamper(synthetic_path.read_bytes()))
    assert "expected" in str(caught.value) and "got" in str(caught.value)


WRONG_METADATA: list[tuple[str, Any]] = [
    ("llama.block_count", 3),
    ("llama.block_count", 0),
    ("llama.embedding_length", 63),
    ("llama.feed_forward_length", 128),
    ("llama.attention.head_count_kv", 3),
    ("llama.attention.head_count", 64),
    ("llama.context_length", 1 << 30),
    ("llama.context_length", "600"),
    ("llama.rope.freq_base", float("nan")),
    ("llama.rope.dimension_count", 8),
    ("llama.rope.scaling.type", "yarn"),
    ("llama.attention.layer_norm_rms_epsilon", -1.0),
    ("tokenizer.ggml.model", "llama"),
    ("tokenizer.ggml.pre", "default"),
    ("tokenizer.ggml.tokens", [*synthetic.TOKENS[:-1], "!"]),
    ("tokenizer.ggml.merges", ["one"]),
    ("tokenizer.ggml.merges", ["q q"]),
    ("tokenizer.ggml.token_type", [1]),
    ("tokenizer.ggml.eos_token_id", 5000),
]


@pytest.mark.parametrize(("key", "value"), WRONG_METADATA)
def test_wrong_metadata_is_refused(tmp_path: Path, key: str, value: Any) -> None:
    path = synthetic.write(tmp_path / "wrong.gguf", synthetic.metadata() | {key: value})
    with pytest.raises(ModelFileError, match=r"expected .*got"):
        synthetic.load(path)


OPTIONAL = ("general.name", "llama.rope.freq_base", "tokenizer.chat_template")


@pytest.mark.parametrize("key", [key for key in synthetic.metadata() if key not in OPTIONAL])
def test_missing_metadata_is_refused(tmp_path: Path, key: str) -> None:
    fields = synthetic.metadata()
    del fields[key]
    with pytest.raises(ModelFileError):
        synthetic.load(synthetic.write(tmp_path / "missing.gguf", fields))


def test_tensors_must_be_all_there_in_shape_and_finite(tmp_path: Path) -> None:
    def refused(weights: dict[str, np.ndarray], match: str) -> None:
        path = synthetic.write(tmp_path / "tensors.gguf", weights=weights)
        with pytest.raises(ModelFileError, match=match):
            synthetic.load(path)

    good, name = synthetic.tensors(), "blk.1.attn_k.weight"
    refused({key: value for key, value in good.items() if key != name}, f"{name}: expected a tensor")
    refused(good | {name: good[name][:16]}, f"shape of {name}")
    refused(good | {"blk.1.attn_q.bias": good["output_norm.weight"]}, "blk.1.attn_q.bias")
    refused(good | {name: np.where(good[name] > 1.0, np.float32(np.inf), good[name])}, f"data of {name}")


def test_a_file_with_another_digest_is_refused(synthetic_path: Path) -> None:
    digest = GgufFile.read(synthetic_path).digest
    assert GgufFile.read(synthetic_path, digest).digest == digest
    with pytest.raises(ModelFileError, match="SHA-256"):
        GgufFile.read(synthetic_path, "0" * 64)


def test_an_unreadable_path_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.gguf", tmp_path):
        with pytest.raises(ModelFileError, match="readable"):
            GgufFile.read(path)


@pytest.mark.parametrize("kind", TENSOR_TYPES[3:])
def test_a_tensor_expanded_by_and_by_is_the_one_expanded_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    quantization = gguf.GGMLQuantizationType[kind]
    block, block_bytes = gguf.GGML_QUANT_SIZES[quantization]
    raw = np.random.default_rng(5).integers(0, 256, (7, 512 // block, block_bytes), np.uint8)
    # Random scales would be infinite here and there, and not a number elsewhere.
    raw[:, :, 1::2] &= 0x3F
    raw[:, :, 0::2] &= 0x7F
    writer = gguf.GGUFWriter(tmp_path / "one.gguf", "llama")
    writer.add_tensor("one", raw.reshape(7, -1), raw_dtype=quantization)
    for step in (
        writer.write_header_to_file,
        writer.write_kv_data_to_file,
        writer.write_tensors_to_file,
        writer.close,
    ):
        step()
    monkeypatch.setattr(gguf_file, "_ROWS_AT_ONCE", 3)
    values = GgufFile.read(tmp_path / "one.gguf").tensor("one")
    assert values.shape == (7, 512) and values.dtype == np.float32 and not values.flags.writeable
    np.testing.assert_array_equal(values, gguf.quants.dequantize(raw.reshape(7, -1), quantization))
