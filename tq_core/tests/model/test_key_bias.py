"""The key projections' bias is read where there is one, and taking it out as RoPE turns it is exact."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tq_core.codecs.offset import offset_of
from tq_core.errors import ModelFileError
from tq_core.math.rotary import Rotary
from tq_core.model.gguf_file import GgufFile
from tq_core.model.key_bias import key_bias
from tq_core.model.rope import RopeTable
from tq_core.shapes import ModelShape
from tq_core.tests.model import synthetic

SHAPE = ModelShape(synthetic.N_LAYERS, synthetic.N_QUERY_HEADS, synthetic.N_KV_HEADS, synthetic.HEAD_DIM)
SIZE = synthetic.N_KV_HEADS * synthetic.HEAD_DIM


def biased(tmp_path: Path, biases: dict[int, np.ndarray]) -> GgufFile:
    weights = synthetic.tensors() | {f"blk.{i}.attn_k.bias": b.astype(np.float32) for i, b in biases.items()}
    return GgufFile.read(synthetic.write(tmp_path / "biased.gguf", weights=weights))


def test_bias_of_every_layer(tmp_path: Path) -> None:
    values = np.random.default_rng(1).standard_normal((2, SIZE)).astype(np.float32)
    bias = key_bias(biased(tmp_path, dict(enumerate(values))), SHAPE)
    assert bias is not None and bias.shape == (2, 2, 16) and np.array_equal(bias.reshape(2, -1), values)
    assert offset_of(bias).nbytes == 4 * values.size


def test_llama_has_none_and_half_of_one_is_refused(tmp_path: Path) -> None:
    assert key_bias(biased(tmp_path, {}), SHAPE) is None
    with pytest.raises(ModelFileError, match="^blk.0.attn_k.bias: expected a bias in every layer"):
        key_bias(biased(tmp_path, {1: np.ones(SIZE)}), SHAPE)
    with pytest.raises(ModelFileError, match="^shape of blk.1.attn_k.bias"):
        key_bias(biased(tmp_path, {0: np.ones(SIZE), 1: np.ones(SIZE // 2)}), SHAPE)


@pytest.mark.parametrize("pairing", ["adjacent", "half"])
def test_rope_of_a_biased_key_is_rope_of_the_key_and_of_the_bias(pairing: str) -> None:
    random, table = np.random.default_rng(2), RopeTable.build(600, 16, 1e4)
    keys, bias = (random.standard_normal(s).astype(np.float32) for s in ((50, 2, 16), (2, 16)))
    rope = {"adjacent": table.rotate_adjacent, "half": table.rotate_half_split}[pairing]
    turned = Rotary(1e4, pairing).rotate(bias[None], 500 + np.arange(50))
    assert np.allclose(rope(keys + bias, 500) - turned, rope(keys, 500), atol=1e-5)
