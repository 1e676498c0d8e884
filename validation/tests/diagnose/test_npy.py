"""Files that strangers bring: every kind of damage is one typed error that names the file's role and what was wrong."""

import io
import pickle

import numpy as np
import pytest

from tq_core.errors import DTypeError, ShapeError, TqError, ValueRangeError
from validation.diagnose.npy import read_npy
from validation.tests.diagnose.planted import gauss


@pytest.fixture
def saved(tmp_path):
    def save(array, name="keys.npy", **options):
        np.save(tmp_path / name, array, **options)
        return tmp_path / name

    return save


@pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8", ">f4", ">f2"])
def test_every_float_type_is_read_as_float32(saved, dtype):
    want = gauss().astype(np.float16).astype(np.float32)
    got = read_npy(saved(want.astype(dtype)), "keys")
    assert got.dtype == np.float32 and got.flags.c_contiguous and np.array_equal(got, want)


def test_three_axes_are_one_layer_and_column_order_is_kept(saved):
    keys = gauss()
    assert np.array_equal(read_npy(saved(keys[0]), "keys"), keys[:1])
    assert np.array_equal(read_npy(saved(np.asfortranarray(keys)), "keys"), keys)


def test_bfloat16_words_are_read_when_asked_for(saved):
    keys = gauss()
    words = (keys.view(np.uint32) >> 16).astype(np.uint16)
    want = (words.astype(np.uint32) << 16).view(np.float32)
    for stored in (words, words.astype(">u2"), words.view("V2")):
        assert np.array_equal(read_npy(saved(stored), "keys", bfloat16=True), want)
    assert np.abs(want - keys).max() < 2**-7 * np.abs(keys).max()
    with pytest.raises(
        DTypeError, match="keys: expected float16, float32 or float64, got uint16; .*--bfloat16"
    ):
        read_npy(saved(words), "keys")
    with pytest.raises(DTypeError, match="two-byte words"):
        read_npy(saved(keys), "keys", bfloat16=True)


def nan_at(value):
    keys = gauss()
    keys[1, 7, 1, 3] = value
    return keys


@pytest.mark.parametrize(
    ("array", "error", "told"),
    [
        (nan_at(np.nan), ValueRangeError, "nan at layer 1, token 7, head 1, channel 3"),
        (nan_at(-np.inf), ValueRangeError, "-inf at layer 1"),
        (np.full((64, 1, 64), 1e300), ValueRangeError, "inf at layer 0"),
        (gauss(n=31), ShapeError, "32 tokens or more, got 31"),
        (gauss()[0, 0], ShapeError, "n_tokens, n_heads, head_dim"),
        (gauss()[None], ShapeError, "n_tokens, n_heads, head_dim"),
        (np.float32(3), ShapeError, "n_tokens, n_heads, head_dim"),
        (np.zeros((0, 2, 64), np.float32), ShapeError, "nothing empty"),
        (gauss(d=63), ShapeError, "even head_dim in 8..1024, got 63"),
        (gauss(n=32, d=1026, layers=1), ShapeError, "1026"),
        (gauss().astype(np.int32), DTypeError, "int32"),
        (gauss().astype(np.complex64), DTypeError, "complex64"),
        (gauss().astype(np.longdouble), DTypeError, "float16, float32 or float64"),
        (np.array([["a"]], "U1"), ShapeError, "shape"),
        (np.zeros((64, 1, 64), [("a", "<f4")]), DTypeError, "array of numbers"),
    ],
)
def test_wrong_arrays(saved, array, error, told):
    with pytest.raises(error, match=r"keys: expected .*") as raised:
        read_npy(saved(array), "keys")
    assert told in str(raised.value)


def test_pickles_are_refused_and_not_run(saved, tmp_path):
    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "boom"), "w"))

    with pytest.raises(DTypeError, match="array of numbers"):
        read_npy(saved(np.array([[[Bomb()] * 64]] * 64, object), allow_pickle=True), "keys")
    (tmp_path / "plain.npy").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ValueRangeError, match="readable .npy header"):
        read_npy(tmp_path / "plain.npy", "keys")
    assert not (tmp_path / "boom").exists()


def header(text, version=(1, 0)):
    body = text.encode().ljust(118) + b"\n"
    return b"\x93NUMPY" + bytes(version) + len(body).to_bytes(2, "little") + body


FINE = "{'descr': '<f4', 'fortran_order': False, 'shape': (64, 1, 64)}"


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "header"),
        (b"\x93NUMPY\x01", "header"),
        (b"PK\x03\x04" + bytes(200), "header"),
        (header(FINE, (9, 9)), "header|version"),
        (header(FINE) + bytes(64 * 64 * 4 - 1), "16,384 bytes of data, got 16,383"),
        (header(FINE) + bytes(64 * 64 * 4 + 1), "16,384 bytes of data, got 16,385"),
        (
            header("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 64)}"),
            "at most",
        ),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (-64, 1, 64)}"), "nothing empty"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (64.5, 1, 64)}"), "header"),
        (header("{'descr': '<q9', 'fortran_order': False, 'shape': (64, 1, 64)}"), "header"),
        (header("__import__('os').abort()"), "header"),
        (header("(" * 60), "header"),
    ],
)
def test_damaged_files(tmp_path, data, told):
    (tmp_path / "keys.npy").write_bytes(data)
    with pytest.raises(TqError, match=told):
        read_npy(tmp_path / "keys.npy", "keys")


def test_a_missing_file_and_a_folder(tmp_path):
    for path in (tmp_path / "none.npy", tmp_path):
        with pytest.raises(ValueRangeError, match="keys: expected a readable file"):
            read_npy(path, "keys")


def test_random_damage_is_always_a_typed_error_or_the_same_numbers():
    """Bytes of a small file changed at random: read_npy raises nothing but TqError."""
    import tempfile
    from pathlib import Path

    held = io.BytesIO()
    np.save(held, gauss(n=32, heads=1, d=8, layers=1))
    data, rng, refused = held.getvalue(), np.random.default_rng(5), 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "keys.npy"
        for _ in range(300):
            changed = bytearray(data)
            for at in rng.integers(0, 128, rng.integers(1, 4)):
                changed[at] = rng.integers(0, 256)
            path.write_bytes(changed)
            try:
                assert np.isfinite(read_npy(path, "keys")).all()
            except TqError:
                refused += 1
    assert refused > 200
