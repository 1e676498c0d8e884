"""What is kept comes back as it was, or not at all."""

import json

import numpy as np
import pytest

from validation.compare.store import Store, key_of, source_digest


@pytest.fixture
def own(tmp_path):
    return Store(tmp_path / "rows", tmp_path / "arrays")


def test_rows_and_arrays_come_back(own) -> None:
    own.keep_row("k", {"kl": [0.5, 1e-9], "vectors": None})
    assert own.row("k") == {"kl": [0.5, 1e-9], "vectors": None}
    arrays = {"logits": np.arange(6, dtype=np.float32).reshape(2, 3)}
    own.keep("k", arrays)
    assert np.array_equal(own.load("k")["logits"], arrays["logits"])
    assert own.row("other") is None and own.load("other") is None


def test_an_altered_row_counts_as_absent(own) -> None:
    own.keep_row("k", {"top1": 0.5})
    path = own.rows / "k.json"
    kept = json.loads(path.read_text())
    kept["row"]["top1"] = 1.0
    path.write_text(json.dumps(kept))
    assert own.row("k") is None


@pytest.mark.parametrize("text", ["", "[]", "{", '{"row": 3, "sha256": ""}'])
def test_a_damaged_row_counts_as_absent(own, text: str) -> None:
    own.keep_row("k", {})
    (own.rows / "k.json").write_text(text)
    assert own.row("k") is None


def test_altered_arrays_count_as_absent(own) -> None:
    own.keep("k", {"logits": np.zeros(64, np.float32)})
    path = own.arrays / "k.npz"
    data = bytearray(path.read_bytes())
    at = data.rindex(bytes(64))
    data[at + 3] ^= 1
    path.write_bytes(data)
    assert own.load("k") is None
    path.write_bytes(data[: len(data) // 2])
    assert own.load("k") is None


def test_a_failed_write_leaves_what_was_there(own) -> None:
    own.keep_row("k", {"top1": 0.5})
    with pytest.raises(ValueError, match="JSON"):
        own.keep_row("k", {"top1": float("nan")})
    assert own.row("k") == {"top1": 0.5}


def test_keys_tell_facts_and_sources_apart() -> None:
    assert key_of(a=1, b=2.0) == key_of(b=2.0, a=1) != key_of(a=1, b=2.5)
    assert source_digest("validation/compare/plan.py") != source_digest("validation/compare/store.py")
