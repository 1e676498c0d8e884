"""The tiny transformer: the right sums, the same bits everywhere, and it does what it was trained for."""

from __future__ import annotations

import io
import json
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.arms import get_arm
from tq_core.errors import DTypeError, ModelFileError, ShapeError, ValueRangeError
from tq_core.kernels.backend import available_backends, get_backend
from tq_core.model.exact_cache import ExactCache
from tq_core.model.rope import RopeTable
from tq_core.model.tiny import TINY, WEIGHTS_FILE, TinyModel, golden_cases, grow_rope, load_tiny, read_weights
from tq_core.model.tiny_task import make_episode, score_retrieval

GOLDEN = Path(__file__).resolve().parents[3] / "validation" / "golden"
REFREEZE = "python -m validation.golden.refreeze"


@pytest.fixture(scope="module")
def model() -> TinyModel:
    return load_tiny()


def logits_in_float64(weights: dict[str, np.ndarray], tokens: np.ndarray) -> np.ndarray:
    """The same network written once more: float64, whole matrices, complex RoPE, no cache."""
    n, shape = len(tokens), TINY.shape
    w = {name: array.astype(np.float64) for name, array in weights.items()}
    turn = np.exp(1j * np.arange(n)[:, None] * TINY.rope_theta ** (-np.arange(32) / 32))[:, None]

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5) * w[name]

    def rope(x: np.ndarray) -> np.ndarray:
        y = (x[..., :32] + 1j * x[..., 32:]) * turn
        return np.concatenate([y.real, y.imag], axis=-1)

    x = w["embedding"][tokens]
    for layer in (f"layers.{i}." for i in range(shape.n_layers)):
        all_heads = (norm(x, layer + "attention_norm") @ w[layer + "query_key_value"].T).reshape(n, 8, 64)
        queries, keys, values = rope(all_heads[:, :4]), rope(all_heads[:, 4:6]), all_heads[:, 6:]
        heads = []
        for h in range(4):
            scores = queries[:, h] @ keys[:, h // 2].T / 8.0 + np.triu(np.full((n, n), -np.inf), 1)
            p = np.exp(scores - scores.max(axis=1, keepdims=True))
            heads.append(p / p.sum(axis=1, keepdims=True) @ values[:, h // 2])
        x = x + np.concatenate(heads, axis=1) @ w[layer + "attention_output"].T
        gate, up = np.split(norm(x, layer + "feed_forward_norm") @ w[layer + "gate_up"].T, 2, axis=1)
        x = x + (gate / (1 + np.exp(-gate)) * up) @ w[layer + "down"].T
    return norm(x, "output_norm") @ w["output"].T


def test_logits_agree_with_float64(model: TinyModel) -> None:
    tokens = make_episode(21, 131, 9, 4).tokens
    expected = logits_in_float64(model.weights, tokens)
    got = model.forward(tokens, ExactCache(model.shape))
    assert got.dtype == np.float32 and got.shape == (131, model.vocab_size)
    assert np.abs(got - expected).max() < 1e-4 * np.abs(expected).max()


def test_prefill_in_pieces_gives_the_same_bits(model: TinyModel) -> None:
    tokens = make_episode(22, 61, 4, 2).tokens
    arm = get_arm("structured-turbo", window=16)
    whole = model.forward(tokens, PagedCache(model.shape, arm))
    cache = PagedCache(model.shape, arm)
    pieces = [model.forward(piece, cache) for piece in np.split(tokens, [1, 2, 35, 60])]
    assert cache.length == 61
    assert np.array_equal(whole.view("u4"), np.concatenate(pieces).view("u4"))


ARMS = {"fp16": {}, "structured-turbo": {"window": 9}, "kivi-control": {"window": 5}}
PARITY_TOKENS = make_episode(23, 45, 3, 2).tokens


def logits_on(name: str) -> dict[str, np.ndarray]:
    backend = get_backend(name)
    model = load_tiny(backend)
    arms = [get_arm(arm, **options) for arm, options in ARMS.items()]
    return {arm.name: model.forward(PARITY_TOKENS, PagedCache(TINY.shape, arm, backend)) for arm in arms}


@pytest.fixture(scope="module")
def reference_logits() -> dict[str, np.ndarray]:
    return logits_on("numpy")


@pytest.mark.kernels
@pytest.mark.slow  # compiles the kernels of each target
@pytest.mark.parametrize("name", [name for name in available_backends() if name != "numpy"])
def test_every_backend_gives_the_same_bits(name: str, reference_logits: dict[str, np.ndarray]) -> None:
    for arm, logits in logits_on(name).items():
        differing = np.count_nonzero(logits.view("u4") != reference_logits[arm].view("u4"))
        assert differing == 0, f"{arm}: {differing} of {logits.size} logits differ from numpy"


def test_golden_bits() -> None:
    for name, arrays in golden_cases().items():
        record = json.loads((GOLDEN / f"{name}.json").read_text())
        data = (GOLDEN / f"{name}.bin").read_bytes()
        assert sha256(data).hexdigest() == record["sha256"], f"{name}.bin is not what {name}.json describes"
        for entry in record["arrays"]:
            start, array = entry["offset"], arrays[entry["name"]]
            frozen = data[start : start + array.nbytes]
            assert list(array.shape) == entry["shape"] and array.dtype.str == entry["dtype"]
            assert array.tobytes() == frozen, f"{name}.{entry['name']} changed; if meant, run {REFREEZE}"


def test_grown_rope_is_the_rope_of_cosines() -> None:
    grown, built = grow_rope(TINY.rope_turn(), 1024), RopeTable.build(1024, 64, TINY.rope_theta)
    np.testing.assert_allclose(grown.cosines, built.cosines, atol=2e-7)
    np.testing.assert_allclose(grown.sines, built.sines, atol=2e-7)
    assert grow_rope(TINY.rope_turn(), 37).cosines.shape == (37, 32)


def test_bad_tokens_change_nothing(model: TinyModel) -> None:
    cache = ExactCache(model.shape)
    model.forward(np.arange(5, dtype=np.int32), cache)
    for tokens, error in (
        ([0, TINY.vocab_size], ValueRangeError),
        ([-1], ValueRangeError),
        ([], ShapeError),
        ([[1, 2]], ShapeError),
        ([0.5], DTypeError),
        ([1] * 1020, ValueRangeError),
    ):
        with pytest.raises(error, match="tokens"):
            model.forward(np.asarray(tokens), cache)
        assert cache.length == 5


def test_digest_and_words(model: TinyModel) -> None:
    assert model.digest == sha256(WEIGHTS_FILE.read_bytes()).hexdigest()
    assert WEIGHTS_FILE.stat().st_size <= 4 << 20
    assert model.detokenize(model.tokenize("find red fox")) == "find red fox"
    assert not any(array.flags.writeable for array in model.weights.values())


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    data = bytearray(WEIGHTS_FILE.read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "tiny.npz").write_bytes(data)
    with pytest.raises(ModelFileError, match="training record"):
        load_tiny(path=tmp_path / "tiny.npz")
    (tmp_path / "tiny.json").write_text(WEIGHTS_FILE.with_suffix(".json").read_text())
    with pytest.raises(ModelFileError, match="SHA-256"):
        load_tiny(path=tmp_path / "tiny.npz")
    for length in (0, 10, len(data) // 2, len(data) - 1):
        with pytest.raises(ModelFileError, match=r"\.npz"):
            read_weights(WEIGHTS_FILE.read_bytes()[:length])


def test_a_wrong_tensor_is_named() -> None:
    with np.load(WEIGHTS_FILE) as archive:
        good = dict(archive)
    nan = good["layers.1.down"].copy()
    nan[3, 5] = np.nan
    wrong = {
        "none called output_norm": {k: v for k, v in good.items() if k != "output_norm"},
        "only the model's": good | {"extra": np.zeros(3)},
        "layers.2.gate_up: expected shape": good | {"layers.2.gate_up": good["layers.2.gate_up"].T},
        "embedding: expected type": good | {"embedding": good["embedding"].astype(np.float32)},
        "layers.1.down: expected finite": good | {"layers.1.down": nan},
        "without pickles": good | {"output": np.array([None])},
    }
    for message, tensors in wrong.items():
        buffer = io.BytesIO()
        np.savez(buffer, **tensors)
        with pytest.raises(ModelFileError, match=message):
            read_weights(buffer.getvalue())


def test_it_finds_values_from_far_back(model: TinyModel) -> None:
    episodes = [make_episode(seed, 1024, 48, 16) for seed in (101, 102)]
    score = score_retrieval(model, lambda: ExactCache(model.shape), episodes)
    assert max(score.distances) > 800
    assert score.accuracy > 0.95, score


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


@pytest.mark.slow
def test_two_bits_move_the_distributions_and_four_hardly(model: TinyModel) -> None:
    """Next-token KL over whole episodes; the answers themselves are right in every arm and cannot tell them apart."""
    if get_backend().name == "numpy":
        pytest.skip("not exercised: no native backend, and numpy takes minutes")
    divergence: dict[int, list[float]] = {2: [], 4: []}
    for episode in (make_episode(seed, 1024, 48, 16) for seed in (103, 104, 105)):
        exact = _log_softmax(model.forward(episode.tokens, ExactCache(model.shape)))
        for bits, found in divergence.items():
            arm = get_arm("structured-turbo", key_bits=bits, value_bits=bits, window=0)
            coded = _log_softmax(model.forward(episode.tokens, PagedCache(model.shape, arm)))
            found.append(float((np.exp(exact) * (exact - coded)).sum(axis=-1).mean()))
    assert np.mean(divergence[4]) < 0.01, divergence
    assert np.mean(divergence[2]) > 5 * np.mean(divergence[4]), divergence
